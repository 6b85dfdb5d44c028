// Numbers over time: small charts with their units and scales, and a line at the moment shown.
//
// The scales are those of all recordings, and the curves end at the line until an answer was given: what is still to
// come must not be seen before it is there. `seesAhead()` says whether it may; `prepare` asks it again.

import { colour, font, makeCanvas, makeSheet, textScale } from "./canvas.js";

const EDGE = 6; // pixels above and below
const LEAST_HEIGHT = 40; // pixels of a chart, at the usual size of text
const FAINT = 0.3; // of what lies ahead, once it may be seen

export function chartView(holder, { film, info }, tracks, redraw, seesAhead) {
  const steps = info.steps;
  const chart = document.createElement("div");
  chart.className = "chart";
  holder.append(chart);
  const paper = makeCanvas(chart, () => {
    prepare();
    redraw();
  });
  let base = null; // names, scales, and, once it may be seen, what lies ahead
  let past = null; // the curves up to `drawn`
  let drawn = 0;
  let cells = [];
  let tones = {};
  let valueFont = "";
  prepare();

  function prepare() {
    tones = Object.fromEntries(["ink", "muted", "line", "surface", "agent", "goal"].map((name) => [name, colour(name)]));
    valueFont = font(12);
    const columns = columnsIn(paper.width, tracks.length);
    const needed = Math.ceil(tracks.length / columns) * LEAST_HEIGHT * textScale() + 2 * EDGE;
    chart.style.minHeight = `${Math.ceil(needed)}px`;
    cells = layOut(tracks.length, columns, paper.width, Math.max(paper.height, needed));
    base = makeSheet(paper);
    tracks.forEach((track, i) => drawFrame(base.pen, cells[i], track, tones));
    if (seesAhead()) drawCurves(base.pen, 0, steps, FAINT);
    past = makeSheet(paper);
    drawn = 0;
  }

  function drawCurves(pen, from, to, alpha) {
    pen.globalAlpha = alpha;
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    pen.lineCap = "round";
    tracks.forEach((track, i) => drawCurve(pen, cells[i], track, film.arrays[track.array], steps, from, to, tones));
    pen.globalAlpha = 1;
  }

  function draw(moment) {
    if (moment < drawn) {
      past = makeSheet(paper);
      drawn = 0;
    }
    if (moment > drawn) drawCurves(past.pen, drawn, moment, 1);
    drawn = moment;
    const { pen } = paper;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, base.sheet.width, base.sheet.height);
    pen.drawImage(base.sheet, 0, 0);
    pen.drawImage(past.sheet, 0, 0);
    pen.setTransform(paper.scale, 0, 0, paper.scale, 0, 0);
    pen.font = valueFont;
    pen.textAlign = "right";
    pen.fillStyle = tones.ink;
    tracks.forEach((track, i) => {
      const { left, top, width, height, right } = cells[i];
      pen.fillRect(left + (width * moment) / steps - 0.75, top, 1.5, height);
      const value = valueAt(track, film.arrays[track.array], moment);
      pen.fillText(value === null ? "" : inWords(value), right, top + height / 2 + 4);
    });
    return true;
  }

  function remove() {
    paper.remove();
    chart.remove();
  }

  return { draw, remove, prepare, ready: () => true, readout: () => "" };
}

// At a moment the last action is the one that led there; at the first moment there was none.
function valueAt(track, array, moment) {
  const row = track.array === "action" ? moment - 1 : moment;
  return row < 0 ? null : array.data[row * array.shape[1] + track.column];
}

const columnsIn = (width, count) => Math.max(1, Math.min(Math.floor(width / (460 * textScale())), Math.ceil(count / 6)));

function layOut(count, columns, width, height) {
  const em = textScale();
  const rows = Math.ceil(count / columns);
  const cellWidth = width / columns;
  const cellHeight = Math.min(130 * em, (height - 2 * EDGE) / rows);
  const names = Math.min(140 * em, cellWidth * 0.27);
  const scale = 46 * em;
  return Array.from({ length: count }, (_, i) => {
    const column = Math.floor(i / rows);
    const start = column * cellWidth + 8;
    const left = start + names + scale;
    const right = (column + 1) * cellWidth - 10;
    const top = EDGE + (i % rows) * cellHeight;
    return { start, left, right, top: top + 4, width: right - 56 * em - left, height: cellHeight - 8, names, em };
  });
}

const spanOf = ({ low, high }) => (high > low ? [low, high] : [low - 1, low + 1]);

function heightIn({ top, height }, track) {
  const [low, high] = spanOf(track);
  return (value) => top + height - 2 - ((value - low) / (high - low)) * (height - 4);
}

// A name with its unit, the lowest and the highest value of all recordings, and zero in between.
function drawFrame(pen, cell, track, tones) {
  const { start, left, top, width, height, names, em } = cell;
  const y = heightIn(cell, track);
  pen.strokeStyle = tones.line;
  pen.lineWidth = 1;
  pen.strokeRect(left, top, width, height);
  if (track.low < 0 && track.high > 0) {
    pen.fillStyle = tones.line;
    pen.fillRect(left, y(0) - 0.5, width, 1);
  }
  pen.textAlign = "right";
  pen.fillStyle = tones.muted;
  pen.font = font(11);
  if (track.high > track.low) {
    pen.fillText(inWords(track.high), left - 5, top + 9 * em, 44 * em);
    pen.fillText(inWords(track.low), left - 5, top + height - 1, 44 * em);
  } else {
    pen.fillText(inWords(track.low), left - 5, top + height / 2 + 4 * em, 44 * em);
  }
  pen.textAlign = "left";
  pen.fillStyle = tones.ink;
  pen.font = font(13);
  pen.fillText(labelOf(track), start, top + height / 2 + 4 * em, names - 2 * em);
}

function drawCurve(pen, cell, track, array, steps, from, to, tones) {
  const isAction = track.array === "action";
  const y = heightIn(cell, track);
  const x = (moment) => cell.left + (cell.width * moment) / steps;
  const valueOf = (row) => array.data[row * array.shape[1] + track.column];
  pen.strokeStyle = isAction ? tones.goal : tones.agent;
  pen.beginPath();
  if (isAction) {
    if (from > 0) pen.moveTo(x(from), y(valueOf(from - 1)));
    for (let row = from; row < to; row += 1) {
      pen.lineTo(x(row), y(valueOf(row)));
      pen.lineTo(x(row + 1), y(valueOf(row))); // an action lasts from one moment to the next
    }
  } else {
    for (let row = from; row <= to; row += 1) pen.lineTo(x(row), y(valueOf(row)));
  }
  pen.stroke();
}

export const labelOf = (track) => (track.unit ? `${track.name} [${track.unit}]` : track.name);

function inWords(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(1);
  return size >= 1000 ? value.toFixed(0) : String(+value.toPrecision(size >= 100 ? 4 : 3));
}
