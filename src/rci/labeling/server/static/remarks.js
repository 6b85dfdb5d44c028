// What is said beside a verdict: kinds of danger, how bad it was, when a person drove, and a note. It goes to the server
// with the answer; until then it is kept for each recording as long as the page is open.

import { toast } from "./page.js";
import { markTakeovers } from "./strip.js";

const $ = (id) => document.getElementById(id);
const GRADES = [0.25, 0.5, 0.75, 1];
const GRADE_WORDS = { 0.25: "slight", 0.5: "moderate", 0.75: "serious", 1: "severe" };
const LONGEST_NOTE = 400;

const drafts = new Map(); // key of an item -> what was said of it and is not sent
let session = { kinds: [], severity: false, takeovers: false };
let key = null;
let steps = 0;
let draft = empty();

function empty() {
  return { kinds: [], severity: 1, takeovers: [], begun: null, note: "" };
}

export const kinds = () => session.kinds;
export const chosenKinds = () => draft.kinds;

export function setSession(found) {
  session = found;
  $("severity-group").hidden = !found.severity;
  $("takeover-group").hidden = !found.takeovers;
  session.kinds.forEach((kind, i) => {
    const button = kindButton(i);
    button.querySelector("span").textContent = kind;
    button.hidden = false;
  });
  $("kind-group").hidden = session.kinds.length === 0;
  showGroups();
}

const kindButton = (i) => document.querySelector(`[data-do="kind${i + 1}"]`);

// Of another item: what was begun before, else what was answered.
export function open(info, said) {
  key = info.key;
  steps = info.steps;
  draft = drafts.get(key) ?? restored(said);
  show();
}

function restored(said) {
  const { kinds: chosen = [], severity = 1, takeovers = [], note = "" } = said ?? {};
  return { ...empty(), kinds: [...chosen], severity, takeovers: takeovers.map(([a, b]) => [a, b]), note };
}

export function clear() {
  closeNote(); // while it is known of which recording it is
  key = null;
  draft = empty();
  show();
}

// What goes into the body of an answer; only a stop has kinds and a severity.
export function body(verdict) {
  takeNote();
  const found = {};
  const chosen = session.kinds.filter((kind) => draft.kinds.includes(kind));
  if (verdict === "stop" && chosen.length) found.kinds = chosen;
  if (verdict === "stop" && session.severity && draft.severity !== 1) found.severity = draft.severity;
  const intervals = draft.begun === null ? draft.takeovers : [...draft.takeovers, [draft.begun, steps]];
  if (intervals.length) found.takeovers = inOrder(intervals);
  if (draft.note) found.note = draft.note;
  return found;
}

const inOrder = (intervals) => [...intervals].sort((a, b) => a[0] - b[0]);

function change(more) {
  if (key === null) return;
  draft = { ...draft, ...more };
  drafts.set(key, draft);
  show();
}

export function toggleKind(i) {
  const kind = session.kinds[i];
  if (kind === undefined) return;
  const without = draft.kinds.filter((one) => one !== kind);
  change({ kinds: without.length < draft.kinds.length ? without : [...without, kind] });
}

export function grade(direction) {
  if (!session.severity) return;
  const place = GRADES.indexOf(draft.severity) + direction;
  change({ severity: GRADES[Math.max(0, Math.min(GRADES.length - 1, place))] });
}

// A person drives from this moment on: the next step is the first of theirs.
export function takeOver(moment) {
  if (!session.takeovers || key === null) return;
  const inside = ([begin, end]) => begin <= moment && moment < end;
  if (draft.takeovers.some(inside)) return toast("A person drives here already.");
  if (moment >= steps) return toast("Nothing follows the last step.");
  if (draft.begun !== null) toast(`Moved: the person takes over after step ${moment}.`);
  change({ begun: moment });
}

// The machine drives from this moment on.
export function handBack(moment) {
  if (!session.takeovers || key === null) return;
  const { begun } = draft;
  if (begun === null) return toast("First mark where the person takes over: B.");
  if (moment <= begun) return toast(`The person took over after step ${begun}; go to where the machine drives again.`);
  if (draft.takeovers.some(([begin, end]) => begin < moment && begun < end)) return toast("That would overlap another takeover.");
  change({ begun: null, takeovers: inOrder([...draft.takeovers, [begun, moment]]) });
}

// The takeover that is open, else the one at this moment, else the last one before it.
export function forgetTakeover(moment) {
  if (!session.takeovers || key === null) return;
  if (draft.begun !== null) return change({ begun: null });
  const before = draft.takeovers.filter(([begin]) => begin <= moment);
  if (!before.length) return toast("No takeover is marked up to here.");
  const last = before[before.length - 1];
  change({ takeovers: draft.takeovers.filter((one) => one !== last) });
}

// --- the note ------------------------------------------------------------------------------------------------------

export function openNote() {
  if (key === null) return;
  $("remark").hidden = false;
  showGroups();
  $("remark").focus();
}

function closeNote() {
  if (document.activeElement === $("remark")) $("remark").blur();
}

function takeNote() {
  const note = $("remark").value.replace(/\s+/g, " ").trim();
  if (note !== draft.note) change({ note });
}

$("remark").maxLength = LONGEST_NOTE;
$("remark").addEventListener("change", takeNote);
$("remark").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== "Escape") return;
  event.preventDefault();
  $("remark").blur();
});

// --- showing -------------------------------------------------------------------------------------------------------

function show() {
  session.kinds.forEach((kind, i) => kindButton(i).setAttribute("aria-pressed", String(draft.kinds.includes(kind))));
  $("severity").textContent = `${GRADE_WORDS[draft.severity] ?? "graded"} (${draft.severity})`;
  const now = draft.begun === null ? "" : `from step ${draft.begun + 1} on \u00b7 `;
  const count = draft.takeovers.length;
  $("takeover-words").textContent = count || now ? `${now}${count} ${count === 1 ? "takeover" : "takeovers"}` : "";
  markTakeovers(draft.takeovers, draft.begun, steps);
  if (document.activeElement !== $("remark")) {
    $("remark").value = draft.note;
    $("remark").hidden = !draft.note;
  }
  showGroups();
}

function showGroups() {
  const groups = [...$("remarks").children];
  $("remarks").hidden = groups.every((group) => group.hidden);
}

$("remark").addEventListener("blur", () => {
  takeNote();
  $("remark").hidden = !draft.note;
  showGroups();
});
