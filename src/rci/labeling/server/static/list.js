// All recordings of the queue: which ones have an answer, and a way to any of them. It knows them only by their keys
// and their places, so it shows nothing of what they are.

import { getItems } from "./api.js";
import { inWords } from "./page.js";

const $ = (id) => document.getElementById(id);
const MOST_ROWS = 200; // of those that fit the filter; more would be slow, and nobody reads them

let items = [];
let here = null;
let openItem = () => {};
let asked = 0;

export const onOpen = (listener) => (openItem = listener);

// Asks anew every time: answers may have been given since. `key` is what is on the desk now.
export async function fill(key) {
  here = key;
  items = [];
  asked += 1;
  const question = asked;
  $("list-words").textContent = "Loading\u2026";
  $("list-rows").replaceChildren();
  try {
    const found = await getItems();
    if (question !== asked) return;
    items = found.items;
    show();
  } catch (error) {
    $("list-words").textContent = error.message;
  }
}

const isOf = {
  all: () => true,
  open: (item) => !item.verdict,
  stop: (item) => item.verdict === "stop",
  safe: (item) => item.verdict === "safe",
  unsure: (item) => item.verdict === "unsure",
  note: (item) => Boolean(item.note),
  takeovers: (item) => Boolean(item.takeovers),
};

// A number is a place; anything else is looked for in notes and kinds of danger.
function fits(item, text) {
  if (!text) return true;
  if (/^\d+$/.test(text)) return String(item.position + 1).startsWith(text);
  return [item.note ?? "", ...(item.kinds ?? [])].some((words) => words.toLowerCase().includes(text));
}

function fitting() {
  const text = $("list-search").value.trim().toLowerCase();
  const chosen = items.filter((item) => isOf[$("list-filter").value](item) && fits(item, text));
  const exact = chosen.findIndex((item) => String(item.position + 1) === text);
  if (exact > 0) chosen.unshift(...chosen.splice(exact, 1));
  return chosen;
}

function show() {
  const chosen = fitting();
  const rest = chosen.length > MOST_ROWS ? `, the first ${MOST_ROWS} of them below` : "";
  $("list-words").textContent = `${chosen.length} of ${items.length} recordings${rest}`;
  $("list-rows").replaceChildren(...chosen.slice(0, MOST_ROWS).map(row));
  $("list-rows").querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
}

function row(item) {
  const line = document.createElement("li");
  const button = document.createElement("button");
  const number = document.createElement("b");
  const said = document.createElement("span");
  const note = document.createElement("span");
  button.type = "button";
  number.textContent = String(item.position + 1);
  said.textContent = item.verdict ? inWords(item) : "not labeled";
  said.className = `said ${item.verdict ?? ""}`;
  note.textContent = [...(item.kinds ?? []), item.note ?? ""].filter(Boolean).join(" \u00b7 ");
  note.className = "remark";
  if (item.key === here) button.setAttribute("aria-current", "true");
  button.append(number, said, note);
  button.addEventListener("click", () => openItem(item.key));
  line.append(button);
  return line;
}

$("list-search").addEventListener("input", show);
$("list-filter").addEventListener("change", show);
$("list-search").addEventListener("keydown", (event) => {
  const [first] = fitting();
  if (event.key !== "Enter" || event.isComposing || !first) return;
  event.preventDefault();
  openItem(first.key);
});
