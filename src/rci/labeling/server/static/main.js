// Keys and buttons. Every command has both; what they do is in desk.js and stage.js.

import * as question from "./ask.js";
import * as choice from "./choice.js";
import * as desk from "./desk.js";
import { belongsToTarget, BINDINGS, meaning } from "./keys.js";
import * as list from "./list.js";
import * as outbox from "./outbox.js";
import { showOutbox, toast } from "./page.js";
import * as remarks from "./remarks.js";
import * as stage from "./stage.js";
import { onScrub } from "./strip.js";

const { player } = stage;
const dialogs = Object.fromEntries(["help", "list", "signals"].map((id) => [id, document.getElementById(id)]));
let playedBefore = false; // before a dialog was opened

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
  kind1: () => desk.toggleKind(0),
  kind2: () => desk.toggleKind(1),
  kind3: () => desk.toggleKind(2),
  kind4: () => desk.toggleKind(3),
  kind5: () => desk.toggleKind(4),
  kind6: () => desk.toggleKind(5),
  lighter: () => remarks.grade(-1),
  graver: () => remarks.grade(1),
  takeover: desk.takeOver,
  handback: desk.handBack,
  forget: desk.forgetTakeover,
  note: remarks.openNote,
  list: () => toggle("list", () => list.fill(desk.keyHere())),
  signals: toggleSignals,
  next: desk.next,
  previous: desk.previous,
  autoplay: stage.toggleAutoplay,
  review: desk.toggleReview,
  highest: stage.toHighest,
  reveal: desk.toggleReveal,
  help: () => toggle("help"),
};

const openDialog = () => Object.keys(dialogs).find((id) => dialogs[id].open);

function toggle(id, fill = () => {}) {
  const dialog = dialogs[id];
  if (dialog.open) return dialog.close();
  playedBefore = player.playing;
  player.pause();
  fill();
  dialog.showModal();
}

function toggleSignals() {
  if (!choice.possible()) return toast("This recording has no signals to choose from.");
  toggle("signals", choice.fill);
}

for (const dialog of Object.values(dialogs)) {
  dialog.addEventListener("close", () => {
    if (playedBefore) player.play();
    playedBefore = false;
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside the box
  });
}

list.onOpen((key) => {
  playedBefore = false; // it is another film
  dialogs.list.close();
  desk.open(key);
});

function obey(command) {
  if (!question.takeCommand(command)) commands[command]();
}

document.addEventListener("keydown", (event) => {
  if (belongsToTarget(event)) {
    if (event.repeat) event.preventDefault(); // a button held down with Enter is pressed once
    return;
  }
  if (!openDialog() && question.take(event)) {
    event.preventDefault();
    return;
  }
  const command = meaning(event);
  if (!command || (openDialog() && command !== openDialog())) return;
  event.preventDefault();
  obey(command);
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (!button) return;
  // Otherwise Space would press this button again instead of playing; with the keyboard (detail 0) focus may stay.
  if (event.detail > 0) button.blur();
  obey(button.dataset.do);
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
