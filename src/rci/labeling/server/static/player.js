// The clock of a film: which moment is shown. A moment is a whole number from 0 to `last`.
//
// `show(moment, fraction)` draws; `fraction` of the way to the next moment has gone by, 0 unless playing.
// `ready(moment)` says whether it could be drawn now: playing waits for it, so that no label is about a moment that
// nobody saw. `changed()` hears of play, pause and speed.

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const LONGEST_FRAME = 0.25; // seconds; after a stall the film goes on where it was, it does not leap

export function makePlayer({ show, ready, changed }) {
  let moment = 0;
  let fraction = 0;
  let last = 0;
  let rate = 1;
  let speed = 1;
  let playing = false;
  let waiting = false;
  let request = 0;
  let before = 0;

  function frame(now) {
    request = 0;
    const elapsed = before ? Math.min((now - before) / 1000, LONGEST_FRAME) : 0;
    before = now;
    fraction += elapsed * rate * speed;
    waiting = false;
    while (fraction >= 1 && moment < last && !waiting) {
      if (ready(moment + 1)) {
        moment += 1;
        fraction -= 1;
      } else {
        waiting = true;
        fraction = 1; // due, and shown as soon as it is there
      }
    }
    if (moment >= last) stop();
    show(moment, waiting ? 0 : fraction);
    if (playing) request = requestAnimationFrame(frame);
    else changed();
  }

  function stop() {
    playing = false;
    waiting = false;
    fraction = 0;
    if (request) cancelAnimationFrame(request);
    request = 0;
  }

  function play() {
    if (playing || last === 0) return;
    if (moment >= last) moment = 0;
    playing = true;
    before = 0;
    request = requestAnimationFrame(frame);
    changed();
  }

  function pause() {
    if (!playing) return;
    stop();
    show(moment, 0); // exactly what was recorded
    changed();
  }

  return {
    play,
    pause,
    toggle: () => (playing ? pause() : play()),
    // A new film, at its first moment and paused.
    load(steps, newRate, newSpeed) {
      stop();
      moment = 0;
      last = steps;
      rate = newRate;
      speed = newSpeed;
    },
    seek(target) {
      moment = Math.max(0, Math.min(last, Math.round(target)));
      fraction = 0;
      show(moment, 0);
    },
    redraw: () => show(moment, playing && !waiting ? fraction : 0),
    setSpeed(value) {
      speed = value;
      changed();
    },
    get moment() { return moment; },
    get last() { return last; },
    get speed() { return speed; },
    get playing() { return playing; },
    get waiting() { return waiting; },
    get pace() { return playing ? rate * speed : 0; }, // moments per second
  };
}

// The next speed up (+1) or down (-1) from any speed, on the list or not.
export function nextSpeed(speed, direction) {
  const choices = direction > 0 ? SPEEDS.filter((s) => s > speed) : SPEEDS.filter((s) => s < speed).reverse();
  return choices.length ? choices[0] : speed;
}
