// The line under the drawing: where we are, what was said, and in review the cost of each step.
//
// Moment k of T lies at k/T of the width; step t is the stretch from moment t to moment t + 1.

import { colour } from "./canvas.js";

const $ = (id) => document.getElementById(id);
const scrubber = $("scrubber");
const percent = (part, whole) => `${(100 * part) / Math.max(1, whole)}%`;

export function showMoment(moment, last) {
  const part = moment / Math.max(1, last);
  $("fill").style.transform = `scaleX(${part})`;
  $("rail").style.transform = `translateX(${100 * part}%)`;
  scrubber.setAttribute("aria-valuemax", last);
  scrubber.setAttribute("aria-valuenow", moment);
  scrubber.setAttribute("aria-valuetext", `step ${moment} of ${last}`);
}

// A mark where the film was stopped; null for none.
export function markAnswer(answer, last) {
  const mark = $("mark-answer");
  mark.hidden = !answer;
  if (!answer) return;
  mark.className = `mark ${answer.verdict}`;
  mark.style.left = answer.verdict === "stop" ? percent(answer.stop_index + 1, last) : "100%";
}

// Where a person drove: [begin, end) in steps; `begun` is a takeover that has no end yet.
export function markTakeovers(intervals, begun, last) {
  const bands = intervals.map(([begin, end]) => band(begin, end, last));
  if (begun !== null) bands.push(band(begun, last, last, "open"));
  $("drives").replaceChildren(...bands);
}

function band(begin, end, last, kind = "") {
  const element = document.createElement("i");
  element.className = `drive ${kind}`;
  element.style.left = percent(begin, last);
  element.style.width = percent(end - begin, last);
  return element;
}

// Where the logs say that somebody stopped; null if nobody asked for that.
export function markRecorded(stopIndex, last) {
  const mark = $("mark-recorded");
  mark.hidden = stopIndex === null || stopIndex < 0;
  mark.style.left = percent(stopIndex + 1, last);
}

export function markRule(stopIndex, last) {
  const mark = $("mark-rule");
  mark.hidden = stopIndex === null || stopIndex < 0;
  mark.style.left = percent(stopIndex + 1, last);
}

// Dragging with mouse, pen or finger. `grab()` is called once, `move(moment)` for every new place.
export function onScrub(grab, move) {
  let box = null; // read once per drag
  const at = (event) => Math.max(0, Math.min(1, (event.clientX - box.left) / Math.max(1, box.width)));
  scrubber.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    box = scrubber.getBoundingClientRect();
    scrubber.setPointerCapture(event.pointerId);
    grab();
    move(at(event));
  });
  scrubber.addEventListener("pointermove", (event) => {
    if (box) move(at(event));
  });
  const release = () => (box = null);
  scrubber.addEventListener("pointerup", release);
  scrubber.addEventListener("pointercancel", release);
  scrubber.addEventListener("lostpointercapture", release);
}

// Costs above zero in orange, below in blue, both safe for the colour-blind; the square root lifts small ones.
export function costColour(cost, largest) {
  if (!(largest > 0) || cost === 0) return null;
  return { tone: colour(cost > 0 ? "danger" : "cool"), alpha: Math.sqrt(Math.abs(cost) / largest) };
}

// One cell per step; `cellOf(t)` is {tone, alpha} or null for an empty one.
function drawCells(canvas, steps, cellOf) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
  const pen = canvas.getContext("2d");
  for (let t = 0; t < steps; t += 1) {
    const cell = cellOf(t);
    if (!cell) continue;
    const left = Math.floor((t * canvas.width) / steps);
    const right = Math.floor(((t + 1) * canvas.width) / steps);
    pen.globalAlpha = cell.alpha;
    pen.fillStyle = cell.tone;
    pen.fillRect(left, 0, Math.max(1, right - left), canvas.height);
  }
}

const painters = new Map(); // canvas -> how to paint it again

function paint(canvas, steps, cellOf) {
  canvas.hidden = !cellOf;
  painters.delete(canvas);
  if (!cellOf) return;
  painters.set(canvas, () => drawCells(canvas, steps, cellOf));
  drawCells(canvas, steps, cellOf);
}

export function showCosts(costs, steps) {
  const largest = costs ? costs.cost.reduce((most, c) => Math.max(most, Math.abs(c)), 0) : 0;
  paint($("heat"), steps, costs && ((t) => (t < costs.cost.length ? costColour(costs.cost[t], largest) : null)));
  const mark = $("mark-cut");
  mark.hidden = !costs || costs.stop_index < 0;
  if (costs) mark.style.left = percent(costs.stop_index + 1, steps);
}

export function showUnsafe(unsafe, steps) {
  const set = new Set(unsafe ?? []);
  paint($("truth"), steps, unsafe && ((t) => (set.has(t) ? { tone: colour("ink"), alpha: 0.8 } : null)));
}

const paintAgain = () => painters.forEach((again) => again());
new ResizeObserver(paintAgain).observe(scrubber);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAgain);
