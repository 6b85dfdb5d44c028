// Numbers over time, for recordings that nobody knows how to draw: small charts and a line at the moment shown.

import { colour, font, makeCanvas, makeSheet, textScale } from "./canvas.js";

const EDGE = 8; // pixels above and below

export function signalsView(holder, { film, info }, redraw) {
  const { tracks } = film.facts;
  const steps = info.steps;
  const paper = makeCanvas(holder, () => {
    prepare();
    redraw();
  });
  let sheet = null;
  let cells = [];
  let tones = {};
  let valueFont = "";
  prepare();

  function prepare() {
    tones = Object.fromEntries(["ink", "muted", "line", "surface", "agent", "goal"].map((name) => [name, colour(name)]));
    valueFont = font(12);
    cells = layOut(tracks.length, paper.width, paper.height);
    const made = makeSheet(paper);
    sheet = made.sheet;
    tracks.forEach((track, i) => drawTrack(made.pen, cells[i], track, film.arrays[track.array], steps, tones));
  }

  function draw(moment) {
    const { pen } = paper;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, sheet.width, sheet.height);
    pen.drawImage(sheet, 0, 0);
    pen.setTransform(paper.scale, 0, 0, paper.scale, 0, 0);
    pen.font = valueFont;
    pen.textAlign = "right";
    tracks.forEach((track, i) => {
      const { left, top, width, height } = cells[i];
      const x = left + (width * moment) / steps;
      // What is still to come is veiled: the eye should follow the line.
      pen.globalAlpha = 0.72;
      pen.fillStyle = tones.surface;
      pen.fillRect(x, top, left + width - x, height);
      pen.globalAlpha = 1;
      pen.fillStyle = tones.ink;
      pen.fillRect(x - 0.75, top, 1.5, height);
      const value = valueAt(track, film.arrays[track.array], moment);
      pen.fillText(value === null ? "" : inWords(value), cells[i].right, top + height / 2 + 4);
    });
    return true;
  }

  return { draw, ready: () => true, readout: () => "", remove: paper.remove };
}

// At a moment the last action is the one that led there; at the first moment there was none.
function valueAt(track, array, moment) {
  const row = track.array === "action" ? moment - 1 : moment;
  return row < 0 ? null : array.data[row * array.shape[1] + track.column];
}

function layOut(count, width, height) {
  const em = textScale();
  const columns = Math.max(1, Math.min(Math.floor(width / (420 * em)), Math.ceil(count / 8)));
  const rows = Math.ceil(count / columns);
  const cellWidth = width / columns;
  const cellHeight = Math.min(120 * em, (height - 2 * EDGE) / rows);
  const names = Math.min(130 * em, cellWidth * 0.28);
  return Array.from({ length: count }, (_, i) => {
    const column = Math.floor(i / rows);
    const left = column * cellWidth + names + 16;
    const right = (column + 1) * cellWidth - 14;
    const top = EDGE + (i % rows) * cellHeight;
    return { left, right, top: top + 2, width: right - 58 * em - left, height: cellHeight - 4, names };
  });
}

function drawTrack(pen, cell, track, array, steps, tones) {
  const { left, top, width, height } = cell;
  const isAction = track.array === "action";
  const columns = array.shape[1];
  const values = Array.from({ length: array.shape[0] }, (_, row) => array.data[row * columns + track.column]);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const span = values.reduce((a, b) => Math.max(a, b), -Infinity) - low || 1;
  const x = (moment) => left + (width * moment) / steps;
  const y = (value) => top + height - 3 - ((value - low) / span) * (height - 6);

  pen.fillStyle = tones.surface;
  pen.fillRect(left, top, width, height);
  if (low < 0 && low + span > 0) {
    pen.fillStyle = tones.line;
    pen.fillRect(left, y(0) - 0.5, width, 1);
  }
  pen.strokeStyle = isAction ? tones.goal : tones.agent;
  pen.lineWidth = 1.6;
  pen.lineJoin = "round";
  pen.beginPath();
  values.forEach((value, row) => {
    pen.lineTo(x(row), y(value));
    if (isAction) pen.lineTo(x(row + 1), y(value)); // an action lasts from one moment to the next
  });
  pen.stroke();
  pen.fillStyle = tones.ink;
  pen.font = font(13);
  pen.textAlign = "right";
  pen.fillText(track.name, left - 10, top + height / 2 + 4, cell.names);
}

const inWords = (value) => (Math.abs(value) >= 1000 ? value.toPrecision(4) : value.toFixed(2));
