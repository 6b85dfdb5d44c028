// The film on the stage: its view, its clock, and how far it has been watched.

import * as page from "./page.js";
import { makePlayer, nextSpeed } from "./player.js";
import * as review from "./review.js";
import { recall, remember } from "./settings.js";
import * as stopwatch from "./stopwatch.js";
import { showMoment } from "./strip.js";
import { makeView } from "./views.js";

window.rciFrames = { drawn: 0 }; // how many frames were really drawn; only counts

let view = null;
let furthest = 0;
let drawnMoment = -1; // what is on the screen; -1 for nothing
let seen = new Set(); // moments that were on the screen, or passed by while it played
let lastSeen = 0;
let ahead = false; // whether what comes after the moment may be drawn
let autoplay = recall("rci-autoplay", true);

export const player = makePlayer({
  show,
  ready: (moment) => !view || view.ready(moment),
  changed: () => {
    page.showPlaying(player.playing);
    page.showSpeed(player.speed);
  },
});

function show(moment, fraction) {
  if (!view) return;
  if (moment !== drawnMoment || view.smooth) drawNow(moment, fraction);
  page.showBuffering(drawnMoment < 0 || player.waiting);
}

function drawNow(moment, fraction) {
  const isNew = moment !== drawnMoment;
  const drawn = view.draw(moment, fraction);
  drawnMoment = drawn ? moment : -1;
  if (drawn) {
    window.rciFrames.drawn += 1;
    furthest = Math.max(furthest, moment);
    see(moment);
    stopwatch.start();
  }
  if (isNew) tellMoment(moment);
}

const STEPS_AT_ONCE = 10; // by Shift and an arrow: who goes on so has seen what lies between

// A leap shows only where it ends; what was played, or gone through step by step, was seen.
function see(moment) {
  const passed = moment > lastSeen && (player.playing || moment - lastSeen <= STEPS_AT_ONCE);
  for (let k = passed ? lastSeen + 1 : moment; k <= moment; k += 1) seen.add(k);
  lastSeen = moment;
}

// How many steps were seen; what was there before the first one is no step.
export const stepsSeen = () => seen.size - (seen.has(0) ? 1 : 0);

function tellMoment(moment) {
  page.showStep(moment, player.last);
  page.showReadout(view ? view.readout(moment) : "");
  page.showEnded(moment === player.last);
  showMoment(moment, player.last);
  review.showCostOf(moment);
}

// A view asks for it when its size changed or a picture came.
function redraw() {
  drawnMoment = -1;
  player.redraw();
}

export function clear() {
  player.load(0, 1, player.speed);
  view?.remove();
  view = null;
  furthest = 0;
  seen = new Set();
  lastSeen = 0;
  ahead = false;
  page.showChoosable(false);
  drawnMoment = -1;
  stopwatch.reset();
  page.hideStep();
  page.showReadout("");
  page.showBuffering(false);
  page.showEnded(false);
  page.showKind("");
  page.showPlaying(false);
  showMoment(0, 1);
}

// The first moment of an item, and then the film runs. Without a film only its length is known.
export function put(item, rate) {
  const { info, film } = item;
  player.load(info.steps, rate, info.speed ?? recall("rci-speed", 1));
  page.showSpeed(player.speed);
  tellMoment(0);
  if (film) {
    page.showKind(film.kind); // first: it decides how much room there is
    page.showChoosable(Boolean(film.facts.tracks?.length));
    view = makeView(document.getElementById("frame"), item, redraw);
    view.showAhead?.(ahead);
    redraw();
    if (autoplay) player.play();
  } else {
    stopwatch.start();
  }
}

// What comes after the moment is drawn only once it cannot sway an answer any more.
export function showAhead(yes) {
  ahead = yes;
  view?.showAhead?.(yes);
}

// Whether the moment that an answer would be about is what the eye sees.
export const inSight = () => drawnMoment === player.moment;

// How the film was watched up to this key press.
export const watching = () => ({
  seconds: rounded(stopwatch.seconds()),
  pace: rounded(player.pace),
  watched: furthest,
});

const rounded = (value) => Math.round(value * 1000) / 1000;

export function step(count) {
  player.pause();
  player.seek(player.moment + count);
}

export const toStart = () => player.seek(0);
export const seekPart = (part) => player.seek(part * player.last);

export function toHighest() {
  if (review.highest() === null) return;
  player.pause();
  player.seek(review.highest() + 1); // the moment that this step led to
}

export function changeSpeed(direction) {
  player.setSpeed(nextSpeed(player.speed, direction));
  remember("rci-speed", player.speed);
}

export function toggleAutoplay() {
  autoplay = !autoplay;
  remember("rci-autoplay", autoplay);
  page.showPressed("autoplay", autoplay);
  page.toast(autoplay ? "Recordings play by themselves." : "Recordings wait for you to press play.");
}

page.showPressed("autoplay", autoplay);
