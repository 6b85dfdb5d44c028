// Two signals that are positions, as a map: where it is, and where it has been. Both axes have the same scale.

import { colour, makeCanvas, makeSheet } from "./canvas.js";
import { drawPanel, place } from "./paths.js";
import { labelOf } from "./signals.js";

const MARGIN = 0.05; // of the range, around it
const FAINT = 0.25;

export function placeView(holder, { film, info }, across, up, redraw, seesAhead) {
  const arrays = [across, up].map((track) => film.arrays[track.array]);
  const at = (moment) =>
    [across, up].map((track, i) => arrays[i].data[moment * arrays[i].shape[1] + track.column]);
  const view = { name: "", x_label: labelOf(across), y_label: labelOf(up), shapes: [], ...boundsOf(across, up) };
  const paper = makeCanvas(holder, () => {
    prepare();
    redraw();
  });
  let base = null;
  let panel = null;
  let tones = {};
  prepare();

  function prepare() {
    tones = Object.fromEntries(["agent", "ink", "muted", "line", "surface"].map((name) => [name, colour(name)]));
    panel = place(view, 0, 0, paper.width, paper.height);
    base = makeSheet(paper);
    drawPanel(base.pen, panel, view, tones);
    if (seesAhead()) drawTrail(base.pen, info.steps, FAINT);
  }

  function drawTrail(pen, last, alpha) {
    pen.strokeStyle = tones.agent;
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    pen.globalAlpha = alpha;
    pen.beginPath();
    for (let k = 0; k <= last; k += 1) {
      const [x, y] = at(k);
      pen.lineTo(panel.x(x), panel.y(y));
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  function draw(moment) {
    const { pen } = paper;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, base.sheet.width, base.sheet.height);
    pen.drawImage(base.sheet, 0, 0);
    pen.setTransform(paper.scale, 0, 0, paper.scale, 0, 0);
    drawTrail(pen, moment, 0.6);
    const [x, y] = at(moment);
    pen.beginPath();
    pen.arc(panel.x(x), panel.y(y), 6 * panel.em, 0, 2 * Math.PI);
    pen.fillStyle = tones.agent;
    pen.fill();
    pen.strokeStyle = tones.surface;
    pen.lineWidth = 1.5;
    pen.stroke();
    return true;
  }

  return { draw, prepare, remove: paper.remove, ready: () => true, readout: () => "" };
}

// What all recordings together reach, and a little more.
function boundsOf(...tracks) {
  const spans = tracks.map(({ low, high }) => (high - low) * (1 + 2 * MARGIN));
  const least = Math.max(...spans) / 8 || 1; // a strip that is nearly a line would leave no room for its scale
  const halves = spans.map((span) => Math.max(span, least) / 2);
  const middles = tracks.map(({ low, high }) => (low + high) / 2);
  return { low: middles.map((m, i) => m - halves[i]), high: middles.map((m, i) => m + halves[i]) };
}
