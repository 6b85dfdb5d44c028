// Who draws which kind of film. A view is {draw, ready, readout, smooth, showAhead, remove}:
//   draw(moment, fraction)  true if that very moment is now on the screen
//   ready(moment)           whether it could be drawn at once
//   readout(moment)         a few words about the moment, or ""
//   smooth                  whether it moves between two moments; otherwise each is drawn once
//   showAhead(yes)          whether what comes after the moment may be drawn; only where there is something to draw
// `redraw` is what a view calls when it needs to be drawn again: a new size, or a picture that has come.

import { panesView } from "./panes.js";
import { pathsView } from "./paths.js";
import { roadView } from "./road.js";

const VIEWS = { road: roadView, paths: pathsView, pictures: panesView, signals: panesView };

export const makeView = (holder, item, redraw) => VIEWS[item.film.kind](holder, item, redraw);
