// Seconds since an item was first drawn, counting only while the page could be seen.

let total = 0;
let since = null; // null while stopped or hidden
let running = false;

export function reset() {
  total = 0;
  since = null;
  running = false;
}

export function start() {
  if (running) return;
  running = true;
  since = document.hidden ? null : performance.now();
}

export function seconds() {
  return (total + (since === null ? 0 : performance.now() - since)) / 1000;
}

document.addEventListener("visibilitychange", () => {
  if (!running) return;
  if (document.hidden && since !== null) {
    total += performance.now() - since;
    since = null;
  } else if (!document.hidden && since === null) {
    since = performance.now();
  }
});
