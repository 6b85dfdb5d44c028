// Pictures that were recorded along with the episode, one per moment or one per step.
//
// What is on the screen is always the picture of the moment told, or nothing: a label is about what was seen.

import { getPicture, Refused } from "./api.js";
import { makeCanvas } from "./canvas.js";

const AHEAD = 20; // pictures fetched before they are needed
const AT_FIRST = 4; // while the item itself is only fetched ahead
const AT_ONCE = 5; // a browser has six connections to a server, and one should be left for the labels
const RETRY = 1500; // ms
const MEMORY = 160e6; // bytes of unpacked pictures

// Fetches and keeps the pictures of one item.
export function pictureStore(key, facts, steps) {
  const perStep = facts.count === steps; // then picture t shows what step t led to
  const indexOf = (moment) => (perStep ? Math.max(0, moment - 1) : moment);
  const room = Math.max(AHEAD + 4, Math.min(200, Math.floor(MEMORY / (4 * facts.width * facts.height || 1))));
  const kept = new Map(); // index -> ImageBitmap; the last used is at the end
  const under = new Set(); // on their way
  const broken = new Map(); // index -> why
  let wanted = 0;
  let reach = AT_FIRST; // how far ahead of `wanted`; nothing at all below 0
  let arrived = () => {};

  function want(moment) {
    wanted = indexOf(moment);
    reach = AHEAD;
    fill();
  }

  function fill() {
    const end = Math.min(facts.count - 1, wanted + reach);
    for (let index = wanted; index <= end && under.size < AT_ONCE; index += 1) {
      if (!kept.has(index) && !under.has(index) && !broken.has(index)) fetchOne(index);
    }
  }

  async function fetchOne(index) {
    under.add(index);
    try {
      keep(index, await createImageBitmap(await getPicture(key, index)));
    } catch (error) {
      broken.set(index, error instanceof Refused ? error.message : "The picture of this step did not arrive.");
      setTimeout(() => broken.delete(index) && fill(), RETRY);
    }
    under.delete(index);
    arrived(index);
    fill();
  }

  function keep(index, bitmap) {
    kept.set(index, bitmap);
    for (const [old, unused] of kept) {
      if (kept.size <= room) break;
      if (old >= wanted && old <= wanted + AHEAD) continue;
      kept.delete(old);
      unused.close();
    }
  }

  function picture(moment) {
    const index = indexOf(moment);
    const bitmap = kept.get(index);
    if (bitmap) {
      kept.delete(index);
      kept.set(index, bitmap);
    }
    return bitmap;
  }

  fill();
  return {
    want,
    rest: () => (reach = -1),
    picture,
    has: (moment) => kept.has(indexOf(moment)),
    problem: (moment) => broken.get(indexOf(moment)),
    listen: (listener) => (arrived = listener),
  };
}

export function picturesView(holder, { pictures }, redraw) {
  const paper = makeCanvas(holder, redraw);
  const words = document.createElement("p");
  words.className = "words";
  holder.append(words);
  let shown = false;
  let moment = 0;
  // Only what is missing on the screen is worth a new drawing.
  pictures.listen(() => {
    if (!shown) redraw();
  });

  function draw(k) {
    moment = k;
    pictures.want(k);
    const picture = pictures.picture(k);
    const { pen } = paper;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, pen.canvas.width, pen.canvas.height);
    shown = Boolean(picture);
    if (picture) drawInside(pen, picture);
    words.textContent = picture ? "" : (pictures.problem(moment) ?? "");
    return shown;
  }

  return {
    draw,
    ready(k) {
      pictures.want(k);
      return pictures.has(k);
    },
    readout: () => "",
    remove() {
      pictures.listen(() => {});
      pictures.rest();
      paper.remove();
      words.remove();
    },
  };
}

// As large as possible, whole, and without blur where a small picture is much enlarged.
function drawInside(pen, picture) {
  const { width, height } = pen.canvas;
  const scale = Math.min(width / picture.width, height / picture.height);
  pen.imageSmoothingEnabled = scale < 3;
  pen.imageSmoothingQuality = "high";
  const [w, h] = [picture.width * scale, picture.height * scale];
  pen.drawImage(picture, (width - w) / 2, (height - h) / 2, w, h);
}
