// Looking again: the costs that were inferred from the labels, and (if the server shows it) what is truly unsafe.
// Both are hidden until somebody asks for them.

import { getCosts, getTruth, Refused } from "./api.js";
import { showNote, showPressed } from "./page.js";
import { markRule, showCosts, showUnsafe } from "./strip.js";

let reviewing = false;
let revealing = false;
let costs = null;
let words = { costs: "", truth: "" };
let asked = 0; // replies to older questions are ignored

export const isOn = () => reviewing;
export const highest = () => (reviewing && costs?.cost.length ? costs.highest : null);

export function toggle() {
  reviewing = !reviewing;
  showPressed("review", reviewing);
  document.getElementById("highest").hidden = !reviewing;
  return reviewing;
}

export function toggleReveal() {
  revealing = !revealing;
  showPressed("reveal", revealing);
}

// Nothing of the item before remains. While labelling, the truth has to be asked for anew for every item.
export function clear() {
  if (revealing && !reviewing) toggleReveal();
  forget();
}

function forget() {
  asked += 1;
  costs = null;
  words = { costs: "", truth: "" };
  showCosts(null, 0);
  showUnsafe(null, 0);
  markRule(null, 0);
  showNote("");
}

// Fetches and shows what was asked for about this item.
export async function show(info, moment = 0) {
  forget();
  const question = asked;
  const [newCosts, truth] = await Promise.all([
    reviewing ? fetchOr(getCosts, info.key, "costs") : {},
    revealing ? fetchOr(getTruth, info.key, "truth") : {},
  ]);
  if (question !== asked) return;
  costs = newCosts.found ?? null;
  words.costs = newCosts.missing ?? (costs ? costsInWords(costs) : "");
  words.truth = truth.missing ?? (truth.found ? truthInWords(truth.found) : "");
  showCosts(costs, info.steps);
  showUnsafe(truth.found?.unsafe ?? null, info.steps);
  markRule(truth.found?.rule ?? null, info.steps);
  showCostOf(moment);
}

async function fetchOr(ask, key, what) {
  try {
    return { found: await ask(key) };
  } catch (error) {
    const reason = error instanceof Refused ? error.message : "The server does not answer.";
    return { missing: `No ${what} to show: ${reason}` };
  }
}

function costsInWords({ cost, stop_index: stopIndex, highest: most }) {
  const from = stopIndex < 0 ? "\u201csafe to the end\u201d" : `stop at step ${stopIndex + 1}`;
  const peak = cost.length ? ` \u00b7 highest cost at step ${most + 1} (${signed(cost[most])})` : "";
  return `Inferred from ${from}${peak}`;
}

function truthInWords({ rule, unsafe }) {
  const parts = [];
  if (rule !== null) parts.push(rule < 0 ? "the rule never stops" : `the rule stops at step ${rule + 1}`);
  if (unsafe !== null) parts.push(`${unsafe.length} unsafe ${unsafe.length === 1 ? "step" : "steps"}`);
  return `Truth: ${parts.join(", ") || "not known for this recording"}`;
}

// The step that led to this moment, with its cost.
export function showCostOf(moment) {
  if (!reviewing && !revealing) return;
  const step = moment - 1;
  const here = costs && step >= 0 && step < costs.cost.length ? `this step ${signed(costs.cost[step])}` : "";
  showNote([words.costs, here, words.truth].filter(Boolean).join(" \u00b7 "));
}

const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(3);
