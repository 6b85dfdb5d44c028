// One item on the desk: opened, answered, taken back. The film itself is in stage.js.

import { Away, getProgress, getSession, insist, Refused, sleep } from "./api.js";
import * as question from "./ask.js";
import * as choice from "./choice.js";
import * as items from "./items.js";
import * as outbox from "./outbox.js";
import * as page from "./page.js";
import * as remarks from "./remarks.js";
import * as review from "./review.js";
import * as stage from "./stage.js";
import { markAnswer, markRecorded } from "./strip.js";

const GUARD = 250; // ms in which a second press of a key cannot be about the new item
const ENOUGH = 0.9; // of the steps, to have seen before "safe to the end" is taken without a question
const PATIENCE = 350; // ms to wait for the server before going on with the item that was fetched ahead

let session = null;
let current = null; // {info, film, pictures, problem}
let opened = 0; // counts openings, so that late replies know that the desk has moved on

const momentNow = () => stage.player.moment;

// --- opening -------------------------------------------------------------------------------------------------------

function clearDesk(state) {
  opened += 1;
  current = null;
  question.close();
  remarks.clear();
  stage.clear();
  review.clear();
  page.showPosition(null);
  page.showAnswer(null);
  page.hideMessage();
  page.showFinished(null);
  markAnswer(null, 1);
  markRecorded(null, 1);
  page.showRecorded(undefined);
  page.setState(state);
  return opened;
}

// The first item that waits for an answer, or the end.
export async function begin() {
  const here = clearDesk("loading");
  try {
    session = withKinds(await insist(getSession, waitForServer, () => here === opened));
    page.showSession(session);
    remarks.setSession(session);
    choice.setAnnotator(session.annotator);
    page.showCounts(session.done, session.total);
    page.showUndoable(session.undoable);
    if (here === opened) go(session.next);
  } catch (error) {
    if (here === opened) fail(error, begin);
  }
}

// By the names under which keys.js needs them.
const withKinds = (found) => ({
  ...found,
  ...Object.fromEntries(found.kinds.map((kind, i) => [`kind${i + 1}`, kind])),
});

const go = (key) => (key ? open(key) : finish());

export async function open(key) {
  const here = clearDesk("loading");
  const item = items.peek(key);
  if (item) return lay(item);
  try {
    const fetched = await insist(() => items.load(key), waitForServer, () => here === opened);
    if (here === opened) lay(fetched);
  } catch (error) {
    if (here === opened) fail(error, () => open(key));
  }
}

// Shows an item that is here in full, in one go: nothing of the item before remains.
function lay(item) {
  const { info } = item;
  const here = opened;
  current = item;
  page.hideMessage();
  page.showPosition(info);
  const said = outbox.waitingAnswer(info.key) ?? info.answer;
  showSaid(said);
  remarks.open(info, said);
  page.showRecorded(info.recorded_stop);
  markRecorded(info.recorded_stop ?? null, info.steps);
  stage.put(item, session.rate);
  if (!item.film) tellNoFilm(item);
  review.show(info, momentNow);
  page.setState("loading");
  setTimeout(() => here === opened && page.setState("ready"), GUARD);
  whenIdle(() => here === opened && fetchAhead(info));
}

function showSaid(said) {
  page.showAnswer(said);
  markAnswer(said, current.info.steps);
  stage.showAhead(Boolean(said));
}

function tellNoFilm({ info, problem }) {
  page.showMessage(`This recording cannot be shown: ${problem} You can call it unsure, or go on.`, {
    "Unsure": () => answer("unsure"),
    "Next": next,
    "Try again": () => (items.forget(info.key), open(info.key)),
  });
}

const whenIdle = window.requestIdleCallback
  ? (work) => requestIdleCallback(work, { timeout: 500 })
  : (work) => setTimeout(work, 100);

// The neighbour, and the one after it: a server that is away for a moment is not even noticed.
async function fetchAhead(info) {
  if (!info.after) return;
  try {
    items.prefetch((await items.load(info.after)).info.after);
  } catch {
    // Opening it will ask again, and will tell.
  }
}

function waitForServer() {
  page.setState("waiting");
  page.showMessage("The server does not answer. Your labels are kept, and this page goes on by itself once it is back.");
}

function fail(error, again) {
  page.setState("error");
  if (error instanceof Refused) {
    const ways = again === begin ? {} : { "Go to the next unlabeled one": begin };
    page.showMessage(error.message, { ...ways, "Try again": again });
  } else {
    page.showMessage(`Something went wrong: ${error.message}.`, { "Try again": again });
    throw error; // for the console: this is a mistake of the page
  }
}

async function finish() {
  const here = clearDesk("finished");
  const { done, total } = session;
  const all = done >= total ? `You have labeled all ${total} recordings.` : `You have labeled ${done} of ${total} recordings.`;
  page.showFinished(all);
  try {
    const mine = (await getProgress()).annotators.find((one) => one.name === session.annotator);
    if (mine && here === opened) page.showFinished(`${all} ${mine.stop} stopped, ${mine.safe} safe, ${mine.unsure} unsure.`);
  } catch (error) {
    if (!(error instanceof Away || error instanceof Refused)) throw error; // The counts are only a nicety.
  }
}

// --- answering -----------------------------------------------------------------------------------------------------

export async function answer(verdict) {
  if (!current || page.getState() !== "ready") return;
  if (verdict === "stop" && !stage.inSight()) {
    page.toast("Wait: the picture of this step is not there yet.");
    return;
  }
  const watched = stage.watching(); // when the key was pressed, whatever is asked now
  const stopIndex = verdict === "stop" ? Math.max(0, momentNow() - 1) : -1;
  if (verdict === "stop" && remarks.kinds().length && !remarks.chosenKinds().length) return askForKind(stopIndex, watched);
  const { info, film } = current;
  if (verdict === "safe" && film && stage.stepsSeen() < ENOUGH * info.steps) return askWhetherSafe();
  return save(verdict, stopIndex, watched);
}

function askForKind(stopIndex, watched) {
  stage.player.pause();
  const ways = remarks.kinds().map((kind, i) => ({
    key: String(i + 1),
    shown: String(i + 1),
    label: kind,
    does: `kind${i + 1}`,
    go() {
      remarks.toggleKind(i);
      save("stop", stopIndex, watched);
    },
  }));
  question.ask(`Stop at step ${stopIndex + 1}: which kind of danger?`, ways);
}

function askWhetherSafe() {
  const { steps } = current.info;
  const go = () => save("safe", -1, stage.watching());
  const yes = { key: "enter", shown: "Enter", label: "Safe to the end", does: "safe", guarded: true, go };
  const no = { key: "escape", shown: "Esc", label: "Go on watching", go() {} };
  question.ask(`You have seen ${stage.stepsSeen()} of ${steps} steps. Safe to the end nevertheless?`, [yes, no]);
}

async function save(verdict, stopIndex, watched) {
  if (!current || page.getState() !== "ready") return;
  const { info } = current;
  const said = { verdict, stop_index: stopIndex, ...remarks.body(verdict) };
  const body = { item: info.key, verdict, ...watched, review: review.wasSeen(), ...remarks.body(verdict) };
  if (verdict === "stop") body.stop_index = stopIndex;
  const saved = outbox.send("api/answers", body, `recording ${info.position + 1}, ${page.inWords(said)}`);
  page.showUndoable(true);
  showSaid(said);
  const confirmed = saved.then((reply) => confirm(info, said, reply));
  const late = setTimeout(() => page.toast(`${page.asDone(said)} \u2013 kept here until the server is back`, true), PATIENCE);
  confirmed.then(() => clearTimeout(late));
  page.hideToast();
  if (!review.isOn()) await leave(info, confirmed);
}

function confirm(info, said, reply) {
  items.forget(info.key); // what was fetched ahead does not know this answer
  if (reply.refused) {
    if (current?.info.key === info.key) showSaid(info.answer);
  } else {
    page.toast(`${page.asDone(said)} \u2013 saved`, true);
    takeCounts(reply);
  }
  return reply;
}

function takeCounts({ done, total, undoable, last }) {
  Object.assign(session, { done, total, undoable, last });
  page.showCounts(done, total);
  page.showUndoable(undoable || outbox.state().waiting > 0);
}

// On to what the server names; if it does not answer at once, to the neighbour that is already here.
async function leave(info, confirmed) {
  const here = opened;
  stage.player.pause();
  page.setState("saving");
  let reply = await Promise.race([confirmed, sleep(PATIENCE)]);
  if (here !== opened) return;
  if (!reply) {
    const neighbour = info.after && items.peek(info.after);
    if (neighbour && !(outbox.waitingAnswer(info.after) ?? neighbour.info.answer)) return open(info.after);
    waitForServer();
    reply = await confirmed;
    if (here !== opened) return;
  }
  if (reply.refused) {
    page.hideMessage();
    page.setState("ready");
  } else {
    go(reply.next);
  }
}

export async function undo() {
  if (!session) return;
  if (!session.undoable && outbox.state().waiting === 0) return page.toast("There is nothing to take back.");
  const before = page.getState();
  opened += 1; // an answer that is on its way no longer leads on
  const here = opened;
  stage.player.pause();
  page.hideToast();
  page.setState("waiting");
  const late = setTimeout(() => page.toast("The undo waits for the server."), PATIENCE);
  const reply = await outbox.send("api/undo", {}, "an undo");
  clearTimeout(late);
  if (!reply.refused) takeCounts(reply);
  if (reply.item) {
    items.forget(reply.item);
    page.toast("Taken back. Have another look.");
    if (here === opened) open(reply.item);
  } else {
    if (reply.taken) page.toast("Taken back: your answer to a recording that is not shown any more.");
    else if (!reply.refused) page.toast("There is nothing to take back.");
    if (here === opened) page.setState(current ? "ready" : before);
  }
}

// --- moving about --------------------------------------------------------------------------------------------------

export function next() {
  if (current?.info.after) open(current.info.after);
  else begin(); // past the last one: what is still open, or the end
}

export function previous() {
  if (current?.info.before) open(current.info.before);
  else if (current) page.toast("This is the first recording.");
  else if (session?.last) open(session.last); // all done: nothing is on the desk
  else page.toast("You have not answered anything yet.");
}

// The key of what is on the desk, for the list.
export const keyHere = () => current?.info.key ?? null;

export const toggleKind = (i) => remarks.toggleKind(i);
export const takeOver = () => remarks.takeOver(momentNow());
export const handBack = () => remarks.handBack(momentNow());
export const forgetTakeover = () => remarks.forgetTakeover(momentNow());

export function toggleReview() {
  if (!session?.costs) return;
  const on = review.toggle();
  page.toast(on ? "Review: answers stay on this recording; N goes on." : "Back to labeling.");
  if (current) review.show(current.info, momentNow);
}

export function toggleReveal() {
  if (!session?.reveal) return;
  review.toggleReveal();
  if (current) review.show(current.info, momentNow);
}
