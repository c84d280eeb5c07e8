/* Iterations by rank: own time against the median, orange where it is longer and blue where it is shorter. */
const SLOWER = [255, 140, 0], FASTER = [42, 120, 214], FULL = 0.2;

async function addStrip(timeline) {
  const { side } = timeline;
  if (side.iterations === null) return;
  const rows = await jsonOf(side.iterations), made = element("section", timeline.after);
  made.setAttribute("aria-label", "Iterations of " + side.name);
  element("h2", made, `Iterations \u201c${side.pattern}\u201d by rank`);
  lookAt(side, made, rows);
  const cells = stripCells(rows), said = element("p", made, null, "note");
  const alone = cells.ranks.length === 1;
  said.append("Own time against the median of " + (alone ? "all iterations" : "the ranks in the iteration") + ": ");
  said.append("20 % shorter ", element("span", null, null, "scale"), " 20 % longer. A click shows the iteration on the timeline.");
  said.querySelector(".scale").style.background = `linear-gradient(to right, rgb(${FASTER}), var(--track), rgb(${SLOWER}))`;
  const box = element("div", made, null, "strip"), space = element("div", box), canvas = element("canvas", space);
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Iterations by rank; the table Iterations has the same figures");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${counted(cells.columns.length, "iteration")} of ${counted(cells.ranks.length, "rank")}`);
  const draw = onceAFrame(() => drawStrip(canvas, box, space, cells));
  new ResizeObserver(draw).observe(box);
  box.addEventListener("scroll", draw);
  document.addEventListener("themed", draw);
  const cellAt = event => {
    const { left, width, height } = cells.layout, count = cells.columns.length;
    const x = Math.floor((event.offsetX - left + box.scrollLeft) / width), y = Math.floor((event.offsetY + box.scrollTop) / height);
    return event.offsetX >= left && x < count && cells.at.get(y * count + x);
  };
  canvas.addEventListener("pointermove", event => {
    const n = cellAt(event);
    if (n === undefined || n === false) { tip.hide(); return; }
    tip.show(`rank ${rows.rank[n]}, iteration ${rows.iteration[n]}\nown ${ms(rows.own_ns[n])} of ${ms(rows.total_ns[n])}\n` +
      `${(cells.off[n] * 100).toFixed(1)} % from the median`, event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => tip.hide());
  canvas.addEventListener("click", event => {
    const n = cellAt(event);
    if (n === undefined || n === false) return;
    timeline.show(rows.start_ns[n], rows.start_ns[n] + rows.total_ns[n]);
    const line = timeline.rows.find(one => one.rank === rows.rank[n]);
    if (line) timeline.reveal(line.number);
    timeline.frame.scrollIntoView({ block: "nearest" });
  });
}

function lookAt(side, parent, rows) {
  const found = side.slow;
  if (!found) return;
  const count = new Set(rows.iteration.map((number, n) => `${number}/${rows.repeat[n]}`)).size;
  const slow = Object.entries(found.slow).map(([rank, times]) => `rank ${rank} in ${times} of ${count}`).join(", ") || "no rank";
  element("p", parent, `Slow (own time 5 % above the median of the ranks): ${slow}. Mean own time: rank ${found.slowest} has ` +
    `the longest, rank ${found.fastest} the shortest.`);
}

/* Cells by rank and iteration, each with its distance from the median as a part of it. */
function stripCells(rows) {
  const which = n => `${rows.repeat[n]}/${rows.iteration[n]}`, times = new Map(), order = rows.own_ns.map((_, n) => n);
  const ranks = [...new Set(rows.rank)].sort((a, b) => a - b), place = new Map(ranks.map((rank, n) => [rank, n]));
  for (const n of order) {
    const key = ranks.length > 1 ? which(n) : "all";
    if (!times.has(key)) times.set(key, []);
    times.get(key).push(rows.own_ns[n]);
  }
  const median = new Map([...times].map(([key, own]) => {
    own.sort((a, b) => a - b);
    return [key, (own[own.length >> 1] + own[(own.length - 1) >> 1]) / 2];
  }));
  const columns = [...new Set(order.map(which))], column = new Map(columns.map((key, n) => [key, n]));
  const at = new Map(order.map(n => [place.get(rows.rank[n]) * columns.length + column.get(which(n)), n]));
  const off = order.map(n => rows.own_ns[n] / (median.get(ranks.length > 1 ? which(n) : "all") || 1) - 1);
  return { ranks, columns, at, off };
}

/* Draw what the box is scrolled to: from about 10,000 iterations on, browsers refuse a canvas of all of them. */
function drawStrip(canvas, box, space, cells) {
  const { ranks, columns } = cells, left = box.clientWidth < 600 ? 56 : 76;
  const width = clamp(Math.floor((box.clientWidth - left) / columns.length), 3, 60), height = ranks.length > 200 ? 4 : ranks.length > 20 ? 10 : 18;
  cells.layout = { left, width, height };
  space.style.width = left + columns.length * width + "px";
  space.style.height = ranks.length * height + 18 + "px";
  const wide = Math.min(box.clientWidth, space.clientWidth), high = Math.min(box.clientHeight, space.clientHeight);
  canvas.style.width = wide + "px";
  const context = fitted(canvas, wide, high), { scrollLeft, scrollTop } = box;
  const inside = (from, room, size, count) => [Math.floor(from / size), Math.min(count, Math.ceil((from + room) / size))];
  const [first, after] = inside(scrollLeft, wide - left, width, columns.length);
  const [top, bottom] = inside(scrollTop, high, height, ranks.length);
  paintCells(context, cells, { first, after, top, bottom, scrollLeft, scrollTop, wide: wide - left, high });
  context.fillStyle = themeColor("text");
  const everyRank = Math.ceil(14 / height), every = Math.ceil(40 / width);
  for (let n = top - top % everyRank; n < bottom; n += everyRank)
    context.fillText("rank " + ranks[n], 4, (n + 0.5 * Math.min(everyRank, ranks.length)) * height - scrollTop);
  /* A number that begins left of the cells would be cut to another one. */
  for (let n = Math.ceil(scrollLeft / width / every) * every; n < after; n += every)
    context.fillText(columns[n].split("/")[1], left + n * width - scrollLeft, ranks.length * height + 9 - scrollTop);
}

/* Paint the cells of the columns `first` to `after` and the ranks `top` to `bottom`. */
function paintCells(context, cells, { first, after, top, bottom, scrollLeft, scrollTop, wide, high }) {
  const { left, width, height } = cells.layout, count = cells.columns.length, track = rgb(themeColor("track"));
  const ratio = window.devicePixelRatio || 1;
  const image = context.createImageData(...[wide, high].map(size => Math.max(1, Math.ceil(size * ratio))));
  const pixels = new Uint32Array(image.data.buffer), gapX = width > 4 ? 1 : 0, gapY = height > 4 ? 1 : 0;
  const at = (place, most) => clamp(Math.round(place * ratio), 0, most);
  for (let row = top; row < bottom; row++) {
    const low = at(row * height - scrollTop, image.height), end = at((row + 1) * height - gapY - scrollTop, image.height);
    for (let column = first; column < after; column++) {
      const n = cells.at.get(row * count + column);
      if (n === undefined) continue;
      const off = clamp(cells.off[n] / FULL, -1, 1), full = off > 0 ? SLOWER : FASTER;
      const [red, green, blue] = track.map((part, c) => Math.round(part + (full[c] - part) * Math.abs(off)));
      const color = (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
      const from = at(column * width - scrollLeft, image.width), to = at((column + 1) * width - gapX - scrollLeft, image.width);
      for (let y = low; y < end; y++) pixels.fill(color, y * image.width + from, y * image.width + to);
    }
  }
  context.putImageData(image, Math.round(left * ratio), 0);
}
