// Which key does what. The help is written from the same list.

export const BINDINGS = [
  { does: "stop", key: "s", shown: "S", words: "Stop here: what I see now is unsafe" },
  { does: "safe", key: "enter", shown: "Enter", words: "Safe to the end" },
  { does: "unsure", key: "u", shown: "U", words: "Unsure" },
  { does: "kind1", key: "1", shown: "1", words: "First kind of danger", needs: "kind1" },
  { does: "kind2", key: "2", shown: "2", words: "Second kind of danger", needs: "kind2" },
  { does: "kind3", key: "3", shown: "3", words: "Third kind of danger", needs: "kind3" },
  { does: "kind4", key: "4", shown: "4", words: "Fourth kind of danger", needs: "kind4" },
  { does: "kind5", key: "5", shown: "5", words: "Fifth kind of danger", needs: "kind5" },
  { does: "kind6", key: "6", shown: "6", words: "Sixth kind of danger", needs: "kind6" },
  { does: "lighter", key: "-", symbol: true, shown: "-", words: "Less severe", needs: "severity" },
  { does: "graver", key: "+", or: "=", symbol: true, shown: "+", words: "More severe", needs: "severity" },
  { does: "takeover", key: "b", shown: "B", words: "A person begins to drive here", needs: "takeovers" },
  { does: "handback", key: "e", shown: "E", words: "The machine drives again from here", needs: "takeovers" },
  { does: "forget", key: "x", shown: "X", words: "Remove the takeover here, or the last one before", needs: "takeovers" },
  { does: "note", key: "c", shown: "C", words: "Write a note (comment); Enter ends it" },
  { does: "undo", key: "z", command: true, shown: "Ctrl Z", words: "Take the last answer back" },
  { does: "play", key: " ", shown: "Space", words: "Play or pause; at the end, play again" },
  { does: "back", key: "arrowleft", repeats: true, shown: "\u2190", words: "One step back" },
  { does: "forward", key: "arrowright", repeats: true, shown: "\u2192", words: "One step forward" },
  { does: "back10", key: "arrowleft", shift: true, repeats: true, shown: "Shift \u2190", words: "Ten steps back" },
  { does: "forward10", key: "arrowright", shift: true, repeats: true, shown: "Shift \u2192", words: "Ten steps forward" },
  { does: "start", key: "home", shown: "Home", words: "To the start" },
  { does: "end", key: "end", shown: "End", words: "To the end" },
  { does: "slower", key: "[", symbol: true, shown: "[", words: "Slower" },
  { does: "faster", key: "]", symbol: true, shown: "]", words: "Faster" },
  { does: "next", key: "n", shown: "N", words: "Next recording, without an answer" },
  { does: "previous", key: "p", shown: "P", words: "Previous recording" },
  { does: "list", key: "l", shown: "L", words: "List of all recordings: filter, and go to one" },
  { does: "signals", key: "g", shown: "G", words: "Choose the signals that are drawn, and the map" },
  { does: "autoplay", key: "a", shown: "A", words: "Play by itself: on or off" },
  { does: "review", key: "r", shown: "R", words: "Review: show the inferred costs", needs: "costs" },
  { does: "highest", key: "m", shown: "M", words: "In review: to the highest cost", needs: "costs" },
  { does: "reveal", key: "t", shown: "T", words: "Show what is truly unsafe", needs: "reveal" },
  { does: "help", key: "?", symbol: true, shown: "?", words: "This help" },
];

// What a key press asks for, or null. Symbols may need Shift or AltGr on some keyboards; letters must come alone,
// so that Ctrl+S, Ctrl+R and the like remain the browser's.
export function meaning(event) {
  const key = event.key.toLowerCase(); // caps lock is no reason to lose a label
  const found = BINDINGS.find((one) => (one.key === key || one.or === key) && modifiersFit(one, event));
  return found && (found.repeats || !event.repeat) ? found.does : null;
}

function modifiersFit(binding, event) {
  if (binding.symbol) return !event.metaKey && (event.getModifierState("AltGraph") || !(event.ctrlKey || event.altKey));
  if (event.altKey || event.shiftKey !== Boolean(binding.shift)) return false;
  return (event.ctrlKey || event.metaKey) === Boolean(binding.command);
}

// A button or link that has the focus keeps its own Enter and Space; where one types, every key is a letter.
export function belongsToTarget(event) {
  if (event.target.closest("dialog:not([open])")) return false; // closed just now: the focus leaves it a frame later
  if (event.target.closest("input[type=text], select")) return true;
  if (event.target.closest("input[type=checkbox]")) return event.key === " ";
  return (event.key === "Enter" || event.key === " ") && event.target.closest("button, a") !== null;
}
