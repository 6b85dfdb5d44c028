// A canvas that fills its holder, sharp on every screen.

const MOST_PIXELS = 3e6; // beyond that a slow machine cannot paint sixty times a second

// `resized()` is called after every change of size or of colours; the canvas is then blank.
export function makeCanvas(holder, resized) {
  const canvas = document.createElement("canvas");
  const paper = { pen: canvas.getContext("2d"), width: 0, height: 0, scale: 1, remove };
  holder.append(canvas);

  function fit(width, height) {
    const sharp = Math.sqrt(MOST_PIXELS / Math.max(1, width * height));
    paper.scale = Math.max(Math.min(devicePixelRatio || 1, sharp), 0.5);
    paper.width = Math.max(1, width);
    paper.height = Math.max(1, height);
    canvas.width = Math.max(1, Math.round(width * paper.scale));
    canvas.height = Math.max(1, Math.round(height * paper.scale));
  }

  const watcher = new ResizeObserver(([entry]) => {
    const { width, height } = entry.contentRect;
    if (width === paper.width && height === paper.height) return;
    fit(width, height);
    resized();
  });
  const recolour = () => resized();

  function remove() {
    watcher.disconnect();
    darkness.removeEventListener("change", recolour);
    canvas.remove();
  }

  fit(holder.clientWidth, holder.clientHeight);
  watcher.observe(holder);
  darkness.addEventListener("change", recolour);
  return paper;
}

const darkness = matchMedia("(prefers-color-scheme: dark)");

// A second canvas of the same size, for what does not change from frame to frame; units are CSS pixels.
export function makeSheet(paper) {
  const sheet = document.createElement("canvas");
  sheet.width = Math.max(1, Math.round(paper.width * paper.scale));
  sheet.height = Math.max(1, Math.round(paper.height * paper.scale));
  const pen = sheet.getContext("2d");
  pen.scale(paper.scale, paper.scale);
  return { sheet, pen };
}

// A colour of the style sheet, by the name of its variable.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A font for words in a drawing; it grows with the rest of the page. `size` is in pixels of a usual screen.
export const font = (size, weight = "") => `${weight} ${size * textScale()}px system-ui, sans-serif`;
export const textScale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
