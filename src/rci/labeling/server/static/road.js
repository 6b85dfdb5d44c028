// A road from above, driven from left to right; the ego stays in place and the road passes by.
//
// At each moment the recorded state is drawn exactly. Between two moments every car goes straight on with its own
// recorded velocity, so nothing of the next moment is given away. Nothing tells what is safe and what is not.

import { colour, makeCanvas } from "./canvas.js";

const FIELDS = 7; // of a car: present, along, across, cos, sin, vx, vy
const DASH = 3; // m
const GAP = 6; // m
const SHOULDER = 0.8; // m of asphalt beyond the outer lines
const IN_SIGHT = 4; // m that the ego keeps from the upper and lower edge
const BUSH_EVERY = 7; // m
const SMALLEST = 4; // pixels per metre: on a phone less of the road is shown, so that cars remain cars

export function roadView(holder, { film }, redraw) {
  const { lanes, lane_width: laneWidth, car_length: length, car_width: width } = film.facts;
  const stepSeconds = film.facts.step_seconds ?? 0; // unknown: cars stay where they were recorded
  const cars = film.arrays.cars.data;
  const count = film.arrays.cars.shape[1];
  const travelled = film.arrays.travelled.data;
  const top = -laneWidth / 2;
  const bottom = (lanes - 0.5) * laneWidth;

  const paper = makeCanvas(holder, () => {
    prepare();
    redraw();
  });
  const { pen } = paper;
  const dashes = [0, 0];
  let ahead = 0; // m of the road in sight
  let behind = 0;
  let sx = 1; // pixels per metre along the road
  let sy = 1; // and across it
  let ego = null;
  let other = null;
  let tones = {};
  prepare();

  function prepare() {
    const { facts } = film;
    sx = Math.max(SMALLEST, paper.width / (facts.ahead + facts.behind));
    behind = (paper.width / sx) * (facts.behind / (facts.ahead + facts.behind));
    ahead = paper.width / sx - behind;
    // Lanes are thin on a small screen: there the road may be drawn a little wider than it is long.
    const stretch = Math.min(1.5, Math.max(1.15, 9 / sx));
    sy = Math.max(0.6 * sx, Math.min(sx * stretch, (paper.height * 0.62) / (bottom - top)));
    dashes[0] = DASH * sx;
    dashes[1] = GAP * sx;
    ego = carSprite(length * sx, width * sy, paper.scale, colour("ego"));
    other = carSprite(length * sx, width * sy, paper.scale, colour("car"));
    tones = { grass: colour("grass"), bush: colour("bush"), asphalt: colour("asphalt"), line: colour("line-paint") };
  }

  // Where the middle of the screen lies across the road: on the road's middle, unless the ego would be out of sight.
  function middle(egoAcross) {
    const rest = (top + bottom) / 2;
    const reach = Math.max(0, paper.height / 2 / sy - IN_SIGHT);
    return Math.max(egoAcross - reach, Math.min(egoAcross + reach, rest));
  }

  function drawGround(driven, shift) {
    pen.setTransform(paper.scale, 0, 0, paper.scale, 0, 0);
    pen.fillStyle = tones.grass;
    pen.fillRect(0, 0, paper.width, paper.height);
    drawBushes(driven, shift);

    pen.fillStyle = tones.asphalt;
    pen.fillRect(0, (top - SHOULDER) * sy + shift, paper.width, (bottom - top + 2 * SHOULDER) * sy);
    pen.fillStyle = tones.line;
    const thick = Math.max(1.5, 0.18 * sy);
    pen.fillRect(0, top * sy + shift - thick / 2, paper.width, thick);
    pen.fillRect(0, bottom * sy + shift - thick / 2, paper.width, thick);

    pen.strokeStyle = tones.line;
    pen.lineWidth = Math.max(1, 0.13 * sy);
    pen.setLineDash(dashes);
    pen.lineDashOffset = ((driven - behind) % (DASH + GAP)) * sx; // the ground at the left edge
    pen.beginPath();
    for (let line = 1; line < lanes; line += 1) {
      const y = (top + line * laneWidth) * sy + shift;
      pen.moveTo(0, y);
      pen.lineTo(paper.width, y);
    }
    pen.stroke();
  }

  // They only show that the road moves, where a lane may be without a dashed line in sight.
  function drawBushes(driven, shift) {
    const first = Math.floor((driven - behind) / BUSH_EVERY) - 1;
    const lastOne = Math.ceil((driven + ahead) / BUSH_EVERY) + 1;
    pen.fillStyle = tones.bush;
    pen.beginPath();
    for (let n = first; n <= lastOne; n += 1) {
      for (let side = 0; side < 2; side += 1) {
        const chance = scatter(2 * n + side);
        const x = (n * BUSH_EVERY + chance * 5 - driven + behind) * sx;
        const off = SHOULDER + 2.5 + scatter(chance * 977) * 9;
        const y = (side ? bottom + off : top - off) * sy + shift;
        const r = (0.5 + 0.9 * scatter(chance * 131)) * sx;
        pen.moveTo(x + r, y);
        pen.arc(x, y, r, 0, 2 * Math.PI);
      }
    }
    pen.fill();
  }

  function drawCar(sprite, x, y, cos, sin) {
    const s = paper.scale;
    // A rotation on the ground, seen with different scales along and across.
    pen.setTransform(s * cos, (s * sin * sy) / sx, (-s * sin * sx) / sy, s * cos, s * x, s * y);
    pen.drawImage(sprite.image, -sprite.width / 2, -sprite.height / 2, sprite.width, sprite.height);
  }

  function draw(moment, fraction) {
    const elapsed = fraction * stepSeconds;
    const row = moment * count * FIELDS;
    const egoVx = cars[row + 5];
    const shift = paper.height / 2 - middle(cars[row + 2] + cars[row + 6] * elapsed) * sy;
    drawGround(travelled[moment] + egoVx * elapsed, shift);
    for (let car = count - 1; car >= 0; car -= 1) {
      const at = row + car * FIELDS;
      if (cars[at] < 0.5) continue;
      const along = cars[at + 1] + (cars[at + 5] - egoVx) * elapsed;
      if (along < -behind - length || along > ahead + length) continue;
      const across = cars[at + 2] + cars[at + 6] * elapsed;
      drawCar(car ? other : ego, (along + behind) * sx, across * sy + shift, cars[at + 3], cars[at + 4]);
    }
    return true;
  }

  function readout(moment) {
    const row = moment * count * FIELDS;
    return `${Math.round(3.6 * Math.hypot(cars[row + 5], cars[row + 6]))} km/h`;
  }

  return { draw, readout, smooth: true, ready: () => true, remove: paper.remove };
}

// A number from 0 to 1 that looks random and is always the same for the same n.
function scatter(n) {
  const x = Math.sin(n * 12.9898 + 4.1) * 43758.5453;
  return x - Math.floor(x);
}

// A car seen from above, drawn once: fifty of them cost fifty copies of a small picture.
function carSprite(length, width, scale, paint) {
  const margin = 2;
  const sprite = { image: document.createElement("canvas"), width: length + 2 * margin, height: width + 2 * margin };
  sprite.image.width = Math.ceil(sprite.width * scale);
  sprite.image.height = Math.ceil(sprite.height * scale);
  const pen = sprite.image.getContext("2d");
  pen.scale(sprite.image.width / sprite.width, sprite.image.height / sprite.height);
  pen.translate(margin, margin);

  const block = (x, y, w, h, r, fill) => {
    pen.fillStyle = fill;
    pen.beginPath();
    pen.roundRect(x * length, y * width, w * length, h * width, r * width);
    pen.fill();
  };
  block(0, 0, 1, 1, 0.3, paint);
  pen.strokeStyle = "rgb(0 0 0 / 45%)";
  pen.lineWidth = Math.min(1, width / 8);
  pen.stroke();
  block(0.2, 0.1, 0.58, 0.8, 0.2, "rgb(0 0 0 / 16%)"); // cabin
  block(0.62, 0.13, 0.14, 0.74, 0.14, "rgb(16 26 36 / 85%)"); // windscreen: the front is to the right
  block(0.14, 0.18, 0.08, 0.64, 0.1, "rgb(16 26 36 / 65%)"); // rear window
  block(0.95, 0.1, 0.04, 0.2, 0.04, "rgb(255 255 255 / 85%)"); // lamps
  block(0.95, 0.7, 0.04, 0.2, 0.04, "rgb(255 255 255 / 85%)");
  return sprite;
}
