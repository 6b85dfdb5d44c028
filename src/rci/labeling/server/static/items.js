// Items of the queue: what the server says about one, and its film. Fetched ahead, so that going on is instant.

import { Away, getFilm, getItem } from "./api.js";
import { readFilm } from "./film.js";
import { pictureStore } from "./pictures.js";

const KEPT = 6;
const entries = new Map(); // key -> {promise, item}; the last used is at the end

// {info, film, pictures, problem}: `problem` says why there is no film.
export function load(key) {
  const entry = entries.get(key) ?? fetchEntry(key);
  entries.delete(key);
  entries.set(key, entry);
  for (const old of [...entries.keys()].slice(0, -KEPT)) entries.delete(old);
  return entry.promise;
}

// The item if it is already here, otherwise undefined.
export const peek = (key) => entries.get(key)?.item;

export function prefetch(key) {
  if (key && !entries.has(key)) load(key).catch(() => {}); // Opening it will ask again, and will tell.
}

// Its answer may have changed: ask again when it is opened.
export const forget = (key) => entries.delete(key);

function fetchEntry(key) {
  const entry = { promise: null, item: undefined };
  entry.promise = fetchItem(key).then(
    (item) => (entry.item = item),
    (error) => {
      if (entries.get(key) === entry) entries.delete(key);
      throw error;
    },
  );
  return entry;
}

async function fetchItem(key) {
  const [info, bytes] = await Promise.all([getItem(key), getFilm(key).catch((error) => error)]);
  if (bytes instanceof Away) throw bytes;
  if (bytes instanceof Error) return { info, film: null, pictures: null, problem: bytes.message };
  try {
    const film = readFilm(bytes, info.steps);
    const pictures = film.kind === "pictures" ? pictureStore(key, film.facts, info.steps) : null;
    return { info, film, pictures, problem: null };
  } catch (error) {
    return { info, film: null, pictures: null, problem: `${error.message}.` };
  }
}
