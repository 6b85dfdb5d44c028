// A film as it comes from the server: a length, a header in JSON, then arrays of float32, all little-endian.

const ROWS = { road: ["cars", "travelled"], paths: ["view0", "view1"], signals: ["obs"], pictures: ["obs"] };

// {kind, facts, arrays: {name: {data: Float32Array, shape}}}; throws a sentence if the bytes are not a film.
export function readFilm(buffer, steps) {
  if (buffer.byteLength < 4) throw new Error("the film is empty");
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength) throw new Error("the film ends within its header");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  if (!(header.kind in ROWS)) throw new Error(`this page cannot draw films of kind ${header.kind}`);

  const arrays = {};
  let offset = Math.ceil((4 + length) / 4) * 4;
  for (const { name, shape } of header.arrays) {
    const size = shape.reduce((product, n) => product * n, 1);
    if (offset + 4 * size > buffer.byteLength) throw new Error(`the film ends within its array ${name}`);
    arrays[name] = { data: floats(buffer, offset, size), shape };
    offset += 4 * size;
  }
  for (const name of ROWS[header.kind]) {
    if (arrays[name] && arrays[name].shape[0] !== steps + 1) {
      throw new Error(`the film shows ${arrays[name].shape[0]} moments, but the recording has ${steps + 1}`);
    }
  }
  return { kind: header.kind, facts: header.facts, arrays };
}

const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function floats(buffer, offset, size) {
  if (LITTLE) return new Float32Array(buffer, offset, size);
  const view = new DataView(buffer, offset, 4 * size);
  return Float32Array.from({ length: size }, (_, i) => view.getFloat32(4 * i, true));
}
