// Answers and undos on their way to the server: in order, one at a time, kept in the browser until confirmed.
//
// Each action has an id, and the server takes an id only once; so sending again, after a lost reply or a reload,
// changes nothing. A refusal (status 4xx) is final: the action moves to `refused` until somebody has seen it.

import { home, post, Refused, sleep } from "./api.js";
import { recall, remember } from "./settings.js";

const WAITING = `rci-outbox:${home}`;
const REFUSED = `rci-refused:${home}`;
const FIRST_WAIT = 400; // ms
const LONGEST_WAIT = 4000; // ms

let waiting = recall(WAITING, []); // [{id, path, body, said}]
let refused = recall(REFUSED, []); // the same, with the server's sentence as `why`
let durable = true; // whether what waits survives a reload
let away = ""; // why the last attempt failed; empty if it did not
let busy = false;
let wake = () => {};
const replies = new Map(); // id -> what to call with the outcome
const listeners = [];

export const state = () => ({ waiting: waiting.length, refused, durable, away });
export const onChange = (listener) => listeners.push(listener);

const changed = () => listeners.forEach((listener) => listener(state()));

// Two pages of the same annotator share the stored list, so it is changed by id, never overwritten from memory.
function store(name, change) {
  durable = remember(name, change(recall(name, []))) && durable;
}

const without = (id) => (list) => list.filter((action) => action.id !== id);

// A promise of the server's reply, or of {refused: sentence}. `said` is how a person would call the action.
export function send(path, body, said) {
  const action = { id: newId(), path, body, said };
  const outcome = new Promise((resolve) => replies.set(action.id, resolve));
  put(action);
  return outcome;
}

function put(action) {
  waiting.push(action);
  store(WAITING, (list) => [...list, action]);
  changed();
  work();
}

// Sends what waits. Only one runs at a time, which keeps the order.
export async function work() {
  if (busy) return;
  busy = true;
  let wait = FIRST_WAIT;
  while (waiting.length) {
    const action = waiting[0];
    try {
      const reply = await post(action.path, { id: action.id, ...action.body });
      away = "";
      wait = FIRST_WAIT;
      settle(action, reply);
    } catch (error) {
      if (error instanceof Refused) {
        refused.push({ ...action, why: error.message });
        store(REFUSED, (list) => [...list, { ...action, why: error.message }]);
        away = "";
        settle(action, { refused: error.message });
      } else {
        away = error.message;
        changed();
        await Promise.race([sleep(wait), new Promise((resolve) => (wake = resolve))]);
        wait = Math.min(wait * 1.7, LONGEST_WAIT);
      }
    }
  }
  busy = false;
}

function settle(action, outcome) {
  waiting = without(action.id)(waiting);
  store(WAITING, without(action.id));
  changed();
  replies.get(action.id)?.(outcome);
  replies.delete(action.id);
}

export function dismiss(id) {
  refused = without(id)(refused);
  store(REFUSED, without(id));
  changed();
}

export function tryAgain(id) {
  const action = refused.find((one) => one.id === id);
  dismiss(id);
  if (action) put({ id: action.id, path: action.path, body: action.body, said: action.said });
}

// What this item will be said to be once everything that waits has arrived; undefined if nothing about it waits.
export function waitingAnswer(key) {
  const given = [];
  for (const { path, body } of waiting) {
    if (path === "api/undo") given.pop();
    else given.push(body);
  }
  const last = given.filter((body) => body.item === key).pop();
  return last && { ...last, stop_index: last.stop_index ?? -1 };
}

addEventListener("online", () => wake());
document.addEventListener("visibilitychange", () => wake());

// randomUUID exists on secure hosts only; a page served in a local network over plain http has to do without.
function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40; // version 4: random
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
