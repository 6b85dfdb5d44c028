// Fills the tables of progress.html and keeps them fresh.

import { getProgress, Refused, sleep } from "./api.js";

const EVERY = 5000; // ms
const $ = (id) => document.getElementById(id);
const NONE = "\u2013";

// An element with children or words; a class if it has a second name, as in "td.number".
function make(name, ...children) {
  const [tag, kind] = name.split(".");
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...children);
  return element;
}

// On a phone every row is a card, and its fields bear the names of the columns.
function fill(body, rows) {
  const heads = [...body.parentElement.tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const row of rows) [...row.cells].forEach((cell, i) => (cell.dataset.label = heads[i]));
  body.replaceChildren(...rows);
}

const orNone = (value, words) => (value === null || value === undefined ? NONE : words(value));

export function hoursInWords(hours) {
  const minutes = Math.round(hours * 60);
  if (minutes < 1) return "under a minute";
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function stack(parts, total) {
  const bar = make("div.stack");
  for (const [kind, count] of Object.entries(parts)) {
    const part = make(`i.${kind}`);
    part.style.width = `${(100 * count) / Math.max(1, total)}%`;
    bar.append(part);
  }
  return bar;
}

function annotatorRow(one) {
  const { stop, safe, unsure } = one;
  const gold = one.gold && one.gold.seen ? `${one.gold.right} of ${one.gold.seen}` : NONE;
  const delay = orNone(one.delay, (d) =>
    `${d.seconds.toFixed(2)} s (${d.low.toFixed(2)} to ${d.high.toFixed(2)}), from ${d.from}, ${d.stops} stops`);
  return make(
    "tr",
    make("th", one.name),
    make("td.wide", stack({ stop, safe, unsure }, one.total), make("span", `${one.done} of ${one.total}`)),
    make("td.number", `${stop} / ${safe} / ${unsure}`),
    make("td.number", String(one.left)),
    make("td.number", orNone(one.labels_per_hour, (rate) => rate.toFixed(0))),
    make("td.number", orNone(one.seconds_per_label, (s) => `${s.toFixed(1)} s`)),
    make("td.number", one.left === 0 ? "done" : orNone(one.hours_left, hoursInWords)),
    make("td.number", gold),
    make("td", delay),
  );
}

function pairRow(pair) {
  const steps = (n) => `${+n.toFixed(1)} ${n === 1 ? "step" : "steps"}`;
  return make(
    "tr",
    make("th", `${pair.a} and ${pair.b}`),
    make("td.number", String(pair.episodes)),
    make("td.number", orNone(pair.cohen, (kappa) => kappa.toFixed(2))),
    make("td.number", String(pair.both_stopped)),
    make("td.number", orNone(pair.median, steps)),
    make("td.number", orNone(pair.p90, steps)),
  );
}

function show({ annotators, episodes, labelled, agreement }) {
  $("summary").textContent = `${labelled} of ${episodes} recordings have a label.`;
  $("bar").style.transform = `scaleX(${episodes ? labelled / episodes : 0})`;
  fill($("annotators"), annotators.map(annotatorRow));
  $("fleiss").textContent = agreement.fleiss === null
    ? "Fleiss\u2019 kappa needs recordings that several people have labeled, not all in the same way."
    : `Fleiss\u2019 kappa over everybody: ${agreement.fleiss.toFixed(2)}`;
  $("pairs-table").hidden = agreement.pairs.length === 0;
  fill($("pairs"), agreement.pairs.map(pairRow));
}

// A hidden page asks for nothing.
const visible = () =>
  document.hidden
    ? new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }))
    : Promise.resolve();

async function keepFresh() {
  for (;;) {
    await visible();
    try {
      show(await getProgress());
      $("fresh").textContent = "";
    } catch (error) {
      $("fresh").textContent = `${error.message} Trying again.`;
      if (error instanceof Refused && error.status === 403) {
        $("summary").textContent = error.message;
        return;
      }
    }
    await sleep(EVERY);
  }
}

keepFresh();
