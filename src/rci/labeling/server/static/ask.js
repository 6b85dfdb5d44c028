// A question over the drawing, answered with one key or one tap. Any other command means: never mind.

const $ = (id) => document.getElementById(id);
const GUARD = 200; // ms in which a second press of a key is no answer to a question that nobody can have read

let ways = null; // [{key, shown, label, go, does, guarded}] while a question is open
let since = 0;

// With `does`, the command of that name is an answer as well; `guarded` is one that may be pressed twice in haste.
export function ask(text, answers) {
  ways = answers;
  since = performance.now();
  $("ask-text").textContent = text;
  $("ask-ways").replaceChildren(...answers.map(makeButton));
  $("ask").hidden = false;
}

export function close() {
  ways = null;
  $("ask").hidden = true;
}

// True if the key was an answer. A key that is held down answers nothing.
export function take(event) {
  if (!ways || event.ctrlKey || event.altKey || event.metaKey) return false;
  const key = event.key.toLowerCase();
  const way = ways.find((one) => one.key === key);
  if (!way) return false;
  if (!event.repeat) choose(way);
  return true;
}

// True if the command was an answer; any other ends the question.
export function takeCommand(command) {
  const way = ways?.find((one) => one.does === command);
  if (way) choose(way);
  else close();
  return Boolean(way);
}

function choose(way) {
  if (way.guarded && performance.now() - since < GUARD) return;
  close();
  way.go();
}

function makeButton(way) {
  const button = document.createElement("button");
  const key = document.createElement("kbd");
  button.type = "button";
  key.textContent = way.shown;
  button.append(`${way.label} `, key);
  button.addEventListener("click", () => choose(way));
  return button;
}
