// Small things this browser remembers. Without storage (some private windows) they last as long as the page.

const memory = new Map();

export function recall(name, otherwise) {
  try {
    const text = localStorage.getItem(name);
    if (text !== null) return JSON.parse(text);
  } catch {
    // Forbidden or unreadable: what is in memory has to do.
  }
  return memory.has(name) ? memory.get(name) : otherwise;
}

// True if it will survive a reload.
export function remember(name, value) {
  memory.set(name, value);
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
