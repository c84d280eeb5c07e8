/* Drawing of lines: each column of pixels shows the share of its time by kind; wide activities get borders and names. */
const KINDS = data.kinds.map(([name, color, strip], number) => ({ number, name, color, strip, pixel: pixel(color) }));
/* Top and height of each strip of a line, as parts of its height. Without NVTX ranges, calls have all of a thread's. */
const DEVICE = { 0: [0, 0.5], 1: [0.5, 0.32], 2: [0.82, 0.18] };
const THREAD = { 3: [0, 0.21], 4: [0.21, 0.21], 5: [0.42, 0.21], 1: [0.63, 0.37] };
/* The critical path runs between strips (`along` of a line), so that it hides no name. */
const BARE_THREAD = { 1: [0.15, 0.85] };
const stripOf = (line, kind) => line.strips[KINDS[kind].strip] || [0, 1];

/* Add the share of an interval to the columns that it covers. */
function spread(columns, from, to, share) {
  const last = columns.length;
  if (to <= 0 || from >= last) return;
  from = Math.max(from, 0);
  to = Math.min(to, last);
  const first = Math.floor(from), end = Math.min(Math.floor(to), last - 1);
  if (first === end) { columns[first] += (to - from) * share; return; }
  columns[first] += (first + 1 - from) * share;
  for (let x = first + 1; x < end; x++) columns[x] += share;
  columns[end] += (to - end) * share;
}

/* Shares of a line's columns by kind, of exact activities where they are there and finer than bins. */
function columnsOfLine(lines, line, view, width) {
  const found = new Map(), scale = width / (view.to - view.from);
  const of = kind => { if (!found.has(kind)) found.set(kind, new Float32Array(width)); return found.get(kind); };
  const own = lines.binsSuffice(view.from, view.to, width) ? null : lines.activitiesOf(line.number);
  const spans = own ? lines.data.exact_spans.filter(([start, end]) => start < view.to && end > view.from) : [];
  for (const [start, end] of spans) {
    const low = Math.max(start, view.from), high = Math.min(end, view.to), [first, after] = touching(own, low, high);
    for (let n = first; n < after; n++) {
      if (own.end[n] < low) continue;
      const x = (Math.max(own.start[n], low) - view.from) * scale, to = (Math.min(own.end[n], high) - view.from) * scale;
      spread(of(own.kind[n]), x, to, 1);
    }
  }
  if (spans.length === 1 && spans[0][0] <= view.from && spans[0][1] >= view.to) return found;
  const inside = time => spans.some(([start, end]) => start <= time && time < end);
  const edges = lines.edges, low = Math.max(0, above(edges, view.from) - 1), high = Math.min(edges.length - 1, above(edges, view.to));
  for (const [kind, shares] of lines.sharesOf(line.number) || [])
    for (let n = low; n < high; n++)
      if (shares[n] && !(spans.length && inside((edges[n] + edges[n + 1]) / 2)))
        spread(of(kind), (edges[n] - view.from) * scale, (edges[n + 1] - view.from) * scale, shares[n] / 100);
  return found;
}

/* Paint the columns of a line into an image: kinds of a strip stand on each other. */
function paintLine(image, line, columns, top, height) {
  const { pixels, width } = image;
  for (const strip of new Set(KINDS.map(kind => kind.strip))) {
    const kinds = KINDS.filter(kind => kind.strip === strip && columns.has(kind.number));
    if (!kinds.length) continue;
    const [at, part] = line.strips[strip] || [0, 1], base = Math.round(top + (at + part) * height);
    const room = base - Math.round(top + at * height);
    for (let x = 0; x < width; x++) {
      let filled = 0;
      for (const kind of kinds) {
        const share = columns.get(kind.number)[x];
        if (share <= 0) continue;
        const until = Math.min(room, filled + Math.max(1, Math.round(share * room)));
        for (let y = base - 1 - filled; y >= base - until; y--) if (y >= 0 && y < image.height) pixels[y * width + x] = kind.pixel;
        filled = until;
      }
    }
  }
}

/* Borders and names of activities that are wide enough to see them; those that a search finds are framed. */
function drawNames(context, lines, line, view, area, found) {
  const own = lines.activitiesOf(line.number);
  if (!own || !own.start.length) return;
  const scale = area.width / (view.to - view.from), [first, after] = touching(own, view.from, view.to);
  const least = 4 / scale;
  if (found) {
    context.globalAlpha = 0.72;
    context.fillStyle = area.track;
    context.fillRect(area.left, area.top, area.width, area.height);
    context.globalAlpha = 1;
  }
  let drawn = -1;
  const font = context.font;
  for (let n = first; n < after; n++) {
    if (own.end[n] < view.from) continue;
    const hit = found && found.has(own.name[n]);
    if (!hit && (own.length[n] < least || found)) continue;
    const x = area.left + Math.max(0, (own.start[n] - view.from) * scale);
    const end = area.left + Math.min(area.width, (own.end[n] - view.from) * scale);
    const [at, part] = stripOf(line, own.kind[n]), top = area.top + at * area.height, height = part * area.height;
    if (hit && end <= drawn) continue;
    if (hit) drawn = Math.max(end, x + 2);
    /* An inner call covers the name of the outer one. */
    context.fillStyle = KINDS[own.kind[n]].color;
    context.fillRect(x, top, Math.max(hit ? 2 : 0, end - x), height);
    context.fillStyle = area.track;
    if (own.start[n] > view.from && end - x >= 4) context.fillRect(x, top, 0.75, height);
    if (height < 8 || end - x < 30) continue;
    context.font = `${height < 11 ? 9 : 11}px system-ui, sans-serif`;
    context.fillStyle = textOn(KINDS[own.kind[n]].color);
    context.fillText(cut(context, lines.names.name[own.name[n]], end - x - 8), x + 4, top + height / 2 + 0.5);
  }
  context.font = font;
}

function textOn(hex) {
  const [red, green, blue] = rgb(hex);
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#000" : "#fff";
}

/* The critical path: along the lines that it runs on, and down or up where it goes to another. */
function drawPath(context, lines, view, area, placeOf) {
  const { path } = lines, scale = area.width / (view.to - view.from);
  if (!path || !path.start.length) return;
  const along = new Path2D(), across = new Path2D();
  let lastX = -1, lastY = null;
  const begin = Math.max(0, above(path.start, view.from) - 1);
  for (let n = begin; n < path.start.length && path.start[n] <= view.to; n++) {
    const end = path.start[n] + path.length[n], y = placeOf(path.line[n]);
    if (y === null || end < view.from) { lastY = null; continue; }
    const x = area.left + Math.max(0, (path.start[n] - view.from) * scale), to = area.left + Math.min(area.width, (end - view.from) * scale);
    if (y === lastY && to - lastX < 0.5) continue;
    if (lastY !== null && lastY !== y && x - lastX <= 2) { across.moveTo(x, lastY); across.lineTo(x, y); }
    along.moveTo(x, y);
    along.lineTo(to, y);
    lastX = to;
    lastY = y;
  }
  for (const [line, color, width] of [[across, area.mark, 1], [along, area.halo, 4.5], [along, area.mark, 2.25]]) {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.stroke(line);
  }
}

/* The scale of time, and the iterations above it. */
function drawAxis(context, side, view, area) {
  const scale = area.width / (view.to - view.from), x = time => area.left + (time - view.from) * scale;
  context.clearRect(0, 0, area.left + area.width, 44);
  const [low, high] = side.window;
  context.fillStyle = area.track;
  context.fillRect(clamp(x(low), area.left, area.left + area.width), 0, Math.max(0, Math.min(x(high), area.left + area.width) - Math.max(x(low), area.left)), 20);
  context.textAlign = "left";
  context.fillStyle = area.soft;
  if (area.left > 90) context.fillText(side.marks.length ? "iterations" : "window", 8, 10);
  let drawn = area.left - 30;
  for (const [number, start, end] of side.marks) {
    if (end < view.from || start > view.to) continue;
    const from = Math.max(x(start), area.left), width = Math.min(x(end), area.left + area.width) - from;
    context.fillStyle = area.edge;
    if (x(start) >= area.left) context.fillRect(x(start), 2, 1, 16);
    const text = String(number);
    if (from + 4 < drawn || context.measureText(text).width + 6 > Math.max(width, 0)) continue;
    context.fillStyle = area.text;
    context.fillText(text, from + 4, 10);
    drawn = from + 10 + context.measureText(text).width;
  }
  const { step, times } = ticks(view.from, view.to, Math.max(1, Math.floor(area.width / 110)));
  for (const time of times) {
    const text = tickText(time, step, view.to), width = context.measureText(text).width;
    context.fillStyle = area.soft;
    context.fillRect(x(time), 38, 1, 6);
    context.fillText(text, clamp(x(time) - width / 2, area.left, area.left + area.width - width - 2), 30);
  }
}
