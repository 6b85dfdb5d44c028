// Keys and buttons. Every command has both; what they do is in desk.js and stage.js.

import * as desk from "./desk.js";
import { belongsToTarget, BINDINGS, meaning } from "./keys.js";
import * as outbox from "./outbox.js";
import { showOutbox } from "./page.js";
import * as stage from "./stage.js";
import { onScrub } from "./strip.js";

const { player } = stage;
const help = document.getElementById("help");
let playedBeforeHelp = false;

const commands = {
  stop: () => desk.answer("stop"),
  safe: () => desk.answer("safe"),
  unsure: () => desk.answer("unsure"),
  undo: desk.undo,
  play: player.toggle,
  back: () => stage.step(-1),
  forward: () => stage.step(1),
  back10: () => stage.step(-10),
  forward10: () => stage.step(10),
  start: stage.toStart,
  end: () => stage.step(Infinity),
  slower: () => stage.changeSpeed(-1),
  faster: () => stage.changeSpeed(1),
  next: desk.next,
  previous: desk.previous,
  autoplay: stage.toggleAutoplay,
  review: desk.toggleReview,
  highest: stage.toHighest,
  reveal: desk.toggleReveal,
  help: toggleHelp,
};

function toggleHelp() {
  if (help.open) return help.close();
  playedBeforeHelp = player.playing;
  player.pause();
  help.showModal();
}

help.addEventListener("close", () => {
  if (playedBeforeHelp) player.play();
});
help.addEventListener("click", (event) => {
  if (event.target === help) help.close(); // beside the box
});

document.addEventListener("keydown", (event) => {
  if (belongsToTarget(event)) {
    if (event.repeat) event.preventDefault(); // a button held down with Enter is pressed once
    return;
  }
  const command = meaning(event);
  if (!command || (help.open && command !== "help")) return;
  event.preventDefault();
  commands[command]();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (!button) return;
  // Otherwise Space would press this button again instead of playing; with the keyboard (detail 0) focus may stay.
  if (event.detail > 0) button.blur();
  commands[button.dataset.do]();
});

onScrub(player.pause, stage.seekPart);

const keys = BINDINGS.map(({ shown, words, needs }) => {
  const row = document.createElement("div");
  if (needs) row.dataset.needs = needs;
  const term = document.createElement("dt");
  const key = document.createElement("kbd");
  const detail = document.createElement("dd");
  key.textContent = shown;
  detail.textContent = words;
  term.append(key);
  row.append(term, detail);
  return row;
});
document.getElementById("keys").replaceChildren(...keys);

const showState = (state) => showOutbox(state, outbox);
outbox.onChange(showState);
showState(outbox.state());
addEventListener("beforeunload", (event) => {
  const { waiting, durable } = outbox.state();
  if (waiting && !durable) event.preventDefault();
});

// What a former visit left unsent goes first, so that the server does not show the same item again.
const BRIEFLY = 1500; // ms
Promise.race([outbox.work(), new Promise((resolve) => setTimeout(resolve, BRIEFLY))]).then(desk.begin);
