// Which signals are drawn, in which order, and which two are positions on the map. Each annotator's choice is kept in
// the browser, by the names of the signals, so that it holds for other recordings of the same kind.

import { recall, remember } from "./settings.js";
import { labelOf } from "./signals.js";

const $ = (id) => document.getElementById(id);

let annotator = "";
let facts = null; // of the film on the stage: every signal there is, and the guess of what is a position
let changed = () => {};

const idOf = (track) => `${track.array} ${track.name}`; // an action may be called as an observation is
const memory = () => `rci-signals:${annotator}`;
const recalled = () => recall(memory(), {}) ?? {};

export const setAnnotator = (name) => (annotator = name);
export const onChange = (listener) => (changed = listener);

// {tracks: those that are drawn, in order, place: [across, up] or null}
export function of(newFacts) {
  if (!newFacts.tracks) return { tracks: [], place: null };
  if (newFacts !== facts) {
    facts = newFacts;
    if ($("signals").open) fill();
  }
  const rows = ordered();
  return { tracks: rows.filter((row) => row.shown).map((row) => row.track), place: placeNow() };
}

// Every signal, in the order that was chosen; those of which nothing was said follow as they come.
function ordered() {
  const { order = [], hidden = [], shown = [] } = recalled();
  const rank = new Map(order.map((name, i) => [name, i]));
  return facts.tracks
    .map((track, i) => ({
      track,
      rank: rank.get(idOf(track)) ?? order.length + i,
      shown: shown.includes(idOf(track)) || (!hidden.includes(idOf(track)) && i < facts.shown),
    }))
    .sort((a, b) => a.rank - b.rank);
}

function placeNow() {
  const { place } = recalled();
  if (place === null) return null; // somebody wants no map
  const named = place?.map((name) => positions().find((track) => idOf(track) === name));
  if (named?.every(Boolean)) return named;
  return facts.place && facts.place.map((i) => facts.tracks[i]);
}

const positions = () => facts.tracks.filter((track) => track.array === "obs");

function keep(change) {
  remember(memory(), { ...recalled(), ...change });
  fill();
  changed();
}

function keepRows(rows) {
  const names = (wanted) => rows.filter((row) => row.shown === wanted).map((row) => idOf(row.track));
  keep({ order: rows.map((row) => idOf(row.track)), shown: names(true), hidden: names(false) });
}

export const possible = () => facts !== null && facts.tracks.length > 0;

// Between two films nothing can be chosen.
export const clear = () => (facts = null);

export function fill() {
  if (!facts) return;
  const rows = ordered();
  const there = $("signal-list").contains(document.activeElement) ? document.activeElement.dataset.name : null;
  $("signal-list").replaceChildren(...rows.map((row, i) => line(rows, row, i)));
  if (there) $("signal-list").querySelector(`[data-name="${CSS.escape(there)}"]`)?.focus();
  const place = placeNow();
  [$("map-x"), $("map-y")].forEach((select, axis) => {
    select.replaceChildren(option("", "no map"), ...positions().map((track) => option(idOf(track), labelOf(track))));
    select.value = place ? idOf(place[axis]) : "";
  });
}

function option(value, words) {
  const element = document.createElement("option");
  element.value = value;
  element.textContent = words;
  return element;
}

function line(rows, row, i) {
  const item = document.createElement("li");
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = row.shown;
  box.dataset.name = `show ${idOf(row.track)}`;
  box.addEventListener("change", () => {
    row.shown = box.checked;
    keepRows(rows);
  });
  label.append(box, ` ${labelOf(row.track)}`);
  item.append(label, mover(rows, i, -1), mover(rows, i, 1));
  return item;
}

function mover(rows, i, by) {
  const button = document.createElement("button");
  const name = rows[i].track.name;
  button.type = "button";
  button.className = "quiet";
  button.textContent = by < 0 ? "\u2191" : "\u2193";
  button.setAttribute("aria-label", `${name} ${by < 0 ? "up" : "down"}`);
  button.dataset.name = `${by < 0 ? "up" : "down"} ${idOf(rows[i].track)}`;
  button.disabled = !rows[i + by];
  button.addEventListener("click", () => {
    [rows[i], rows[i + by]] = [rows[i + by], rows[i]];
    keepRows(rows);
  });
  return button;
}

function choosePlace() {
  const names = [$("map-x").value, $("map-y").value];
  if (names.includes("")) return placeNow() ? keep({ place: null }) : undefined;
  return keep({ place: names });
}

// With no map yet, both selects say so: choosing one of them offers another signal for the other.
function chooseAxis(chosen, other) {
  if (chosen.value && !other.value && positions().length > 1) other.value = idOf(positions().find((track) => idOf(track) !== chosen.value));
  choosePlace();
}

$("map-x").addEventListener("change", () => chooseAxis($("map-x"), $("map-y")));
$("map-y").addEventListener("change", () => chooseAxis($("map-y"), $("map-x")));
$("signals-reset").addEventListener("click", () => {
  remember(memory(), {});
  fill();
  changed();
});
