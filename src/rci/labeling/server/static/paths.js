// Bodies that move in a plane: one or two views, side by side or stacked, with the way they have come.

import { colour, font, makeCanvas, makeSheet, textScale } from "./canvas.js";

const LOOKS = ["danger", "goal", "agent", "ground", "region"];
const NAMES = { danger: "hazard", goal: "goal", agent: "agent", ground: "ground", region: "region" };
const SMALLEST = 5; // pixels: a body of unknown size

export function pathsView(holder, { film }, redraw) {
  const { views, bodies } = film.facts;
  const places = views.map((_, v) => film.arrays[`view${v}`].data);
  const legend = makeLegend(usedLooks(views, bodies));
  const chart = document.createElement("div");
  chart.className = "chart";
  holder.append(legend, chart);
  const paper = makeCanvas(chart, () => {
    prepare();
    redraw();
  });
  let sheet = null;
  let panels = [];
  let tones = {};
  prepare();

  function prepare() {
    tones = Object.fromEntries([...LOOKS, "ink", "muted", "line", "surface"].map((name) => [name, colour(name)]));
    panels = layOut(views, paper.width, paper.height);
    const made = makeSheet(paper);
    sheet = made.sheet;
    panels.forEach((panel, v) => drawPanel(made.pen, panel, views[v], tones));
  }

  function draw(moment) {
    const { pen } = paper;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, sheet.width, sheet.height);
    pen.drawImage(sheet, 0, 0);
    pen.setTransform(paper.scale, 0, 0, paper.scale, 0, 0);
    panels.forEach((panel, v) => {
      pen.save();
      pen.beginPath();
      pen.rect(panel.left, panel.top, panel.width, panel.height);
      pen.clip();
      // What acts comes last, over its own trail and over everything else: it must never be hidden.
      bodies.forEach((body, b) => body.look !== "agent" && drawBody(panel, places[v], body, b, moment));
      bodies.forEach((body, b) => body.trail && drawTrail(panel, places[v], b, moment));
      bodies.forEach((body, b) => body.look === "agent" && drawBody(panel, places[v], body, b, moment));
      pen.restore();
    });
    return true;
  }

  function drawTrail(panel, place, b, moment) {
    const { pen } = paper;
    pen.strokeStyle = tones[bodies[b].look];
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    pen.globalAlpha = 0.5;
    pen.beginPath();
    for (let k = 0; k <= moment; k += 1) {
      const at = 2 * (k * bodies.length + b);
      pen.lineTo(panel.x(place[at]), panel.y(place[at + 1]));
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  function drawBody(panel, place, body, b, moment) {
    const { pen } = paper;
    const at = 2 * (moment * bodies.length + b);
    const radius = Math.max(SMALLEST, body.radius * panel.scale);
    pen.beginPath();
    pen.arc(panel.x(place[at]), panel.y(place[at + 1]), radius, 0, 2 * Math.PI);
    const solid = body.look === "agent";
    pen.fillStyle = tones[body.look];
    pen.globalAlpha = solid ? 1 : alphaOf(body.look);
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = solid ? tones.surface : tones[body.look];
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  function remove() {
    paper.remove();
    legend.remove();
    chart.remove();
  }

  return { draw, remove, ready: () => true, readout: () => "" };
}

// Where each view lies on the screen: side by side or stacked, whichever leaves more room.
function layOut(views, width, height) {
  const row = views.map((view, v) => place(view, (v * width) / views.length, 0, width / views.length, height));
  const column = views.map((view, v) => place(view, 0, (v * height) / views.length, width, height / views.length));
  const smallest = (panels) => Math.min(...panels.map((panel) => panel.scale));
  return smallest(row) >= smallest(column) ? row : column;
}

// One view within a rectangle, with the same scale on both of its axes.
export function place(view, cellLeft, cellTop, cellWidth, cellHeight) {
  const em = textScale();
  const tight = cellWidth < 300;
  const margin = { left: (tight ? 48 : 58) * em, right: (tight ? 6 : 18) * em, top: 26 * em, bottom: 42 * em };
  const spanX = view.high[0] - view.low[0];
  const spanY = view.high[1] - view.low[1];
  const roomX = Math.max(20, cellWidth - margin.left - margin.right);
  const roomY = Math.max(20, cellHeight - margin.top - margin.bottom);
  const scale = Math.min(roomX / spanX, roomY / spanY);
  const left = cellLeft + margin.left + (roomX - spanX * scale) / 2;
  const top = cellTop + margin.top + (roomY - spanY * scale) / 2;
  return {
    left, top, scale, em, width: spanX * scale, height: spanY * scale,
    x: (value) => left + (value - view.low[0]) * scale,
    y: (value) => top + (view.high[1] - value) * scale, // upwards
  };
}

export function drawPanel(pen, panel, view, tones) {
  pen.fillStyle = tones.surface;
  pen.fillRect(panel.left, panel.top, panel.width, panel.height);
  drawGrid(pen, panel, view, tones);
  pen.save();
  pen.beginPath();
  pen.rect(panel.left, panel.top, panel.width, panel.height);
  pen.clip();
  for (const shape of view.shapes) drawShape(pen, panel, shape, tones);
  pen.restore();
  pen.strokeStyle = tones.muted;
  pen.lineWidth = 1;
  pen.strokeRect(panel.left, panel.top, panel.width, panel.height);

  pen.fillStyle = tones.ink;
  pen.textAlign = "center";
  pen.font = font(14, 600);
  pen.fillText(view.name, panel.left + panel.width / 2, panel.top - 9 * panel.em);
  pen.font = font(13);
  pen.fillText(view.x_label, panel.left + panel.width / 2, panel.top + panel.height + 35 * panel.em);
  pen.save();
  pen.translate(panel.left - 42 * panel.em, panel.top + panel.height / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(view.y_label, 0, 0);
  pen.restore();
}

// Areas are drawn so that one sees through them.
const alphaOf = (look) => ({ danger: 0.28, goal: 0.35, ground: 0.16, region: 0.08 })[look] ?? 0.4;

function drawShape(pen, panel, shape, tones) {
  pen.beginPath();
  if (shape.shape === "circle") {
    pen.arc(panel.x(shape.centre[0]), panel.y(shape.centre[1]), shape.radius * panel.scale, 0, 2 * Math.PI);
  } else {
    const [x, y] = [panel.x(shape.low[0]), panel.y(shape.high[1])];
    pen.rect(x, y, panel.x(shape.high[0]) - x, panel.y(shape.low[1]) - y);
  }
  pen.fillStyle = tones[shape.look];
  pen.globalAlpha = alphaOf(shape.look);
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = tones[shape.look];
  pen.lineWidth = 1.5;
  pen.setLineDash(shape.look === "region" ? [5, 4] : []);
  pen.stroke();
  pen.setLineDash([]);
}

function drawGrid(pen, panel, view, tones) {
  pen.strokeStyle = tones.line;
  pen.fillStyle = tones.muted;
  pen.lineWidth = 1;
  pen.font = font(12);
  pen.textAlign = "center";
  for (const value of ticks(view.low[0], view.high[0], panel.width / (60 * panel.em))) {
    stroke(pen, panel.x(value), panel.top, panel.x(value), panel.top + panel.height);
    pen.fillText(inWords(value), panel.x(value), panel.top + panel.height + 17 * panel.em);
  }
  pen.textAlign = "right";
  for (const value of ticks(view.low[1], view.high[1], panel.height / (45 * panel.em))) {
    stroke(pen, panel.left, panel.y(value), panel.left + panel.width, panel.y(value));
    pen.fillText(inWords(value), panel.left - 7 * panel.em, panel.y(value) + 4 * panel.em);
  }
}

function stroke(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

// Round numbers (1, 2, 5 times a power of ten) from low to high, about `wanted` of them.
export function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((n) => n * power >= raw * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n += 1) found.push(n * step);
  return found;
}

const inWords = (value) => String(+value.toFixed(6));

function usedLooks(views, bodies) {
  const used = new Set([...views.flatMap((view) => view.shapes), ...bodies].map((thing) => thing.look));
  return LOOKS.filter((look) => used.has(look)).map((look) => ({ look, name: nameOf(look, bodies) }));
}

// A single body of a look gives it its name, otherwise the look itself does.
function nameOf(look, bodies) {
  const named = bodies.filter((body) => body.look === look);
  return named.length === 1 ? named[0].name : NAMES[look];
}

function makeLegend(looks) {
  const legend = document.createElement("ul");
  legend.className = "legend";
  for (const { look, name } of looks) {
    const line = document.createElement("li");
    const swatch = document.createElement("i");
    swatch.className = look;
    line.append(swatch, name);
    legend.append(line);
  }
  return legend;
}
