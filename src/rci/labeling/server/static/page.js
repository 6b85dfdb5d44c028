// What the page says in words: header, badge, toast, banner, and sentences in place of a drawing.

const $ = (id) => document.getElementById(id);

export const setState = (state) => (document.body.dataset.state = state);
export const getState = () => document.body.dataset.state;

export function showSession(session) {
  $("annotator").textContent = session.annotator;
  $("task").textContent = session.task;
  document.title = `${session.annotator} \u2013 Press STOP`;
  $("instructions").textContent = session.instructions;
  $("instructions").hidden = !session.instructions;
  $("review").hidden = !session.costs;
  $("reveal").hidden = !session.reveal;
  for (const row of document.querySelectorAll("#keys [data-needs]")) row.hidden = !session[row.dataset.needs];
}

export function showCounts(done, total) {
  $("done").textContent = `${done} done`;
  $("bar").style.transform = `scaleX(${total ? done / total : 0})`;
}

export const showPosition = (info) => ($("position").textContent = info ? `${info.position + 1} of ${info.total}` : "\u2026");
export const showStep = (moment, last) => ($("step").textContent = `step ${moment} of ${last}`);
export const hideStep = () => ($("step").textContent = "");
export const showSpeed = (speed) => ($("speed").textContent = `${speed}\u00d7`);
export const showUndoable = (undoable) => ($("undo").disabled = !undoable);
export const showPressed = (id, pressed) => $(id).setAttribute("aria-pressed", String(pressed));
export const showKind = (kind) => ($("stage").dataset.kind = kind);
export const showChoosable = (yes) => ($("choose").hidden = !yes);
export const showEnded = (yes) => ($("ended").hidden = !yes);

// Called with every frame, so it touches the page only when something changes.
let buffering = false;
export function showBuffering(yes) {
  if (yes === buffering) return;
  buffering = yes;
  $("buffering").hidden = !yes;
}

export function showReadout(text) {
  $("readout").hidden = !text;
  $("readout").textContent = text;
}

export function showPlaying(playing) {
  $("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  $("play-icon").setAttribute("href", playing ? "#i-pause" : "#i-play");
}

export function showAnswer(answer) {
  $("answer").hidden = !answer;
  $("answer").textContent = answer ? `You said: ${inWords(answer)}` : "";
  $("answer").dataset.verdict = answer ? answer.verdict : "";
}

// What the logs say; undefined where nobody asked for that.
export function showRecorded(stopIndex) {
  $("recorded").hidden = stopIndex === undefined;
  $("recorded").textContent = stopIndex < 0 ? "logs: no stop" : `logs: stop at step ${stopIndex + 1}`;
}

// Steps are counted from 1 for people: stopping at step 37 means that the transition with index 36 is unsafe.
export function inWords({ verdict, stop_index: stopIndex }) {
  if (verdict === "stop") return `stop at step ${stopIndex + 1}`;
  return verdict === "safe" ? "safe to the end" : "unsure";
}

export function asDone({ verdict, stop_index: stopIndex }) {
  if (verdict === "stop") return `Stopped at step ${stopIndex + 1}`;
  return verdict === "safe" ? "Safe to the end" : "Unsure";
}

let fading = 0;

export function toast(text, undo = false) {
  clearTimeout(fading);
  $("toast-text").textContent = text;
  $("toast-undo").hidden = !undo;
  $("toast").classList.add("up");
  fading = setTimeout(() => $("toast").classList.remove("up"), undo ? 5000 : 3500);
}

export function hideToast() {
  $("toast").classList.remove("up");
}

// A sentence in place of the drawing, and ways forward: {label: what to do}.
export function showMessage(text, ways = {}) {
  $("message").hidden = false;
  $("message-text").textContent = text;
  $("message-ways").replaceChildren(...Object.entries(ways).map(([label, go]) => makeButton(label, go)));
}

export const hideMessage = () => ($("message").hidden = true);

export function showNote(text) {
  $("note").hidden = !text;
  $("note").textContent = text;
}

export function showFinished(words) {
  if (words !== null) $("position").textContent = "all done";
  $("finished").hidden = words === null;
  $("finished-text").textContent = words ?? "";
}

// Labels on their way (see outbox.js) and labels that the server refused.
export function showOutbox({ waiting, refused, durable, away }, { dismiss, tryAgain }) {
  $("banner").hidden = !(away && waiting);
  const labels = waiting === 1 ? "1 label waits" : `${waiting} labels wait`;
  const care = durable ? "" : " Do not close this page: the browser does not let it keep them.";
  $("banner").textContent = `${away} Not saved yet: ${labels}; retrying.${care}`;

  $("problems").hidden = refused.length === 0;
  const lines = refused.map((action) => {
    const line = document.createElement("p");
    line.append(`Not saved: ${action.said}. ${action.why} `);
    line.append(makeButton("Try again", () => tryAgain(action.id)), makeButton("Dismiss", () => dismiss(action.id)));
    return line;
  });
  $("problems").replaceChildren(...lines);
}

function makeButton(label, go) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = label;
  button.addEventListener("click", go);
  return button;
}
