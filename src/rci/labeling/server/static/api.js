// Everything that is asked of the server. All addresses are relative to the annotator's own folder, /s/TOKEN/.

export const home = location.pathname.replace(/[^/]*$/, "");

// The server said no, and will say no again: `message` is its sentence.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Nobody answered, or only half: worth another try.
export class Away extends Error {}

const PATIENCE = 20000; // ms

// `read` turns the response into what is wanted; it runs within the same patience, since bodies may stall too.
async function request(path, options, read) {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(), PATIENCE);
  try {
    const response = await fetch(path, { ...options, signal: control.signal });
    if (!response.ok) throw await complaint(response);
    return await read(response);
  } catch (error) {
    if (error instanceof Refused || error instanceof Away) throw error;
    throw new Away("The server does not answer.");
  } finally {
    clearTimeout(timer);
  }
}

async function complaint(response) {
  let sentence = `The server answered with status ${response.status}.`;
  try {
    sentence = capital((await response.json()).error) || sentence;
  } catch {
    // Not JSON: the status has to do.
  }
  const busy = response.status >= 500 || response.status === 408 || response.status === 429;
  return busy ? new Away(sentence) : new Refused(response.status, sentence);
}

const capital = (text) => text && text[0].toUpperCase() + text.slice(1);

const asJson = (response) => response.json();
const asBytes = (response) => response.arrayBuffer();
const asBlob = (response) => response.blob();

const getJson = (path) => request(path, { cache: "no-store" }, asJson);

export const getSession = () => getJson("api/session");
export const getProgress = () => getJson("api/progress");
export const getItems = () => getJson("api/items");
export const getItem = (key) => getJson(`api/items/${key}`);
export const getCosts = (key) => getJson(`api/items/${key}/costs`);
export const getTruth = (key) => getJson(`api/items/${key}/truth`);
export const getFilm = (key) => request(`api/items/${key}/film`, {}, asBytes);
export const getPicture = (key, index) => request(`api/items/${key}/pictures/${index}`, {}, asBlob);

export function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), cache: "no-store" }, asJson);
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Calls `ask` until the server answers; `away` hears of every attempt that failed. A refusal is passed on.
export async function insist(ask, away, stillWanted) {
  for (let wait = 500; ; wait = Math.min(wait * 1.6, 4000)) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Away) || !stillWanted()) throw error;
      away(error);
      await sleep(wait);
      if (!stillWanted()) throw error;
    }
  }
}
