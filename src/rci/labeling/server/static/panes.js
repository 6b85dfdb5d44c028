// Camera, map and curves of one recording side by side, all at the same moment.

import * as choice from "./choice.js";
import { picturesView } from "./pictures.js";
import { placeView } from "./place.js";
import { chartView } from "./signals.js";

export function panesView(holder, item, redraw) {
  const { film } = item;
  const panes = document.createElement("div");
  panes.className = "panes";
  holder.append(panes);
  const camera = item.pictures && picturesView(pane("camera"), item, redraw);
  let drawings = []; // map and curves, as they are chosen
  let ahead = false; // whether what comes after the moment may be drawn
  const seesAhead = () => ahead;
  arrange();
  choice.onChange(() => {
    arrange();
    redraw();
  });

  function pane(kind) {
    const box = document.createElement("div");
    box.className = `pane ${kind}`;
    panes.append(box);
    return box;
  }

  function arrange() {
    for (const view of drawings) view.remove();
    for (const box of panes.querySelectorAll(".pane:not(.camera)")) box.remove();
    const { tracks, place } = choice.of(film.facts);
    drawings = [];
    if (place) drawings.push(placeView(pane("map"), item, ...place, redraw, seesAhead));
    if (tracks.length) drawings.push(chartView(pane("curves"), item, tracks, redraw, seesAhead));
    panes.dataset.has = [camera && "camera", place && "map", tracks.length && "curves"].filter(Boolean).join(" ");
  }

  function draw(moment) {
    for (const view of drawings) view.draw(moment);
    return camera ? camera.draw(moment) : true;
  }

  return {
    draw,
    ready: (moment) => !camera || camera.ready(moment),
    readout: () => "",
    showAhead(yes) {
      if (yes === ahead) return;
      ahead = yes;
      for (const view of drawings) view.prepare();
      redraw();
    },
    remove() {
      choice.onChange(() => {});
      choice.clear();
      for (const view of drawings) view.remove();
      camera?.remove();
      panes.remove();
    },
  };
}
