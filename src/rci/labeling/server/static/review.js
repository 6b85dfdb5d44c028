// Looking again: the costs that were inferred from the labels, and (if the server shows it) what is truly unsafe.
// Both are hidden until somebody asks for them.

import { getCosts, getTruth, Refused } from "./api.js";
import { showNote, showPressed } from "./page.js";
import { markRule, showCosts, showUnsafe } from "./strip.js";

let reviewing = false;
let revealing = false;
let costs = null; // {found} or {missing: why}, for the item on the desk
let truth = null;
let seen = false; // whether any of it was shown: what is said after that is no first impression
let asked = 0; // replies to questions about another item are ignored

export const isOn = () => reviewing;
export const wasSeen = () => reviewing || seen;
export const highest = () => (reviewing && costs?.found?.cost.length ? costs.found.highest : null);

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
  asked += 1;
  costs = null;
  truth = null;
  seen = false;
  showCosts(null, 0);
  showUnsafe(null, 0);
  markRule(null, 0);
  showNote("");
}

// Fetches what was asked for about this item, once, and shows it.
export async function show(info, momentNow) {
  const question = asked;
  const [newCosts, newTruth] = await Promise.all([
    reviewing ? (costs ?? fetchOr(getCosts, info.key, "costs")) : costs,
    revealing ? (truth ?? fetchOr(getTruth, info.key, "truth")) : truth,
  ]);
  if (question !== asked) return;
  costs = newCosts;
  truth = newTruth;
  seen ||= Boolean((reviewing && costs?.found) || (revealing && truth?.found));
  showCosts((reviewing && costs?.found) || null, info.steps);
  showUnsafe((revealing && truth?.found?.unsafe) || null, info.steps);
  markRule(revealing ? (truth?.found?.rule ?? null) : null, info.steps);
  showCostOf(momentNow());
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

// Words about both, and the cost of the step that led to this moment.
export function showCostOf(moment) {
  const parts = [];
  if (reviewing && costs) {
    const cost = costs.found?.cost[moment - 1];
    parts.push(costs.missing ?? costsInWords(costs.found));
    if (cost !== undefined) parts.push(`this step ${signed(cost)}`);
  }
  if (revealing && truth) parts.push(truth.missing ?? truthInWords(truth.found));
  showNote(parts.join(" \u00b7 "));
}

const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(3);
