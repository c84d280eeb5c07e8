/* Blocks of data: base64 of what deflate made, unpacked when they are first asked for. */
const blocks = new Map();

function bytesOf(number) {
  if (!blocks.has(number)) blocks.set(number, unpacked(number));
  return blocks.get(number);
}

async function unpacked(number) {
  const holder = byId("b" + number), text = holder.textContent;
  holder.remove();
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : fromBase64(text);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromBase64(text) {
  const plain = atob(text), bytes = new Uint8Array(plain.length);
  for (let n = 0; n < plain.length; n++) bytes[n] = plain.charCodeAt(n);
  return bytes;
}

async function jsonOf(number) {
  return JSON.parse(new TextDecoder().decode(await bytesOf(number)));
}

/* Arrays by name: each is stored as planes of bytes, the lowest byte of all numbers first. */
async function columnsOf(number, columns, count) {
  const bytes = await bytesOf(number), found = {};
  let at = 0;
  for (const [name, planes] of columns) {
    const values = new Float64Array(count);
    for (let plane = 0, weight = 1; plane < planes; plane++, weight *= 256)
      for (let n = 0; n < count; n++) values[n] += bytes[at++] * weight;
    found[name] = values;
  }
  blocks.delete(number);
  return found;
}
