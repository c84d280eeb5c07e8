/* The data of one run's timeline: its lines, shares of time by bins, exact activities, names and critical path. */
class Lines {
  constructor(side, changed) {
    this.data = side.timeline;
    this.changed = changed;
    this.lines = [];
    this.bins = new Map();
    this.exact = new Map();
    this.edges = [];
    for (const [start, end, count] of this.data.stretches)
      for (let n = 0; n < count; n++) this.edges.push(start + (end - start) * n / count);
    this.edges.push(this.data.duration);
  }

  async load() {
    const [lines, names, path] = await Promise.all([
      jsonOf(this.data.lines), jsonOf(this.data.names), columnsOf(this.data.path.block, this.data.path.columns, this.data.path.count)]);
    const ranges = this.data.bins.some(block => block.kinds.some(kind => KINDS[kind].strip > 2)), thread = ranges ? THREAD : BARE_THREAD;
    this.lines = lines.map(([kind, rank, host, label], number) =>
      ({ number, kind, rank, host, label, strips: kind === "device" ? DEVICE : thread,
        along: kind === "device" ? 0.5 : ranges ? 0.63 : 0.07 }));
    this.names = names;
    this.path = path;
  }

  async loadAll() {
    await Promise.all(this.data.exact.map((_, n) => this.loadExact(n)));
  }

  blockOf(list, line) {
    let low = 0, high = list.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (list[middle].first <= line) low = middle; else high = middle - 1;
    }
    return low;
  }

  /* Shares of a line by kind: [kind, Uint8Array of percent by bin]; null until they are there. */
  sharesOf(line) {
    const number = this.blockOf(this.data.bins, line), block = this.data.bins[number];
    if (!block) return null;
    if (!this.bins.has(number)) {
      this.bins.set(number, null);
      bytesOf(block.block).then(bytes => { this.bins.set(number, bytes); this.changed(); });
    }
    const bytes = this.bins.get(number), width = this.edges.length - 1;
    return bytes && block.kinds.map((kind, n) => {
      const at = (n * block.lines + line - block.first) * width;
      return [kind, bytes.subarray(at, at + width)];
    });
  }

  /* Exact activities of a line, in order of start; null until they are there. `reach`: latest end so far. */
  activitiesOf(line) {
    if (!this.data.exact.length) return null;
    const number = this.blockOf(this.data.exact, line);
    if (!this.exact.has(number)) this.loadExact(number).then(this.changed);
    const found = this.exact.get(number);
    return found instanceof Map ? found.get(line) : null;
  }

  loadExact(number) {
    const known = this.exact.get(number);
    if (known) return known instanceof Map ? Promise.resolve() : known;
    const loading = this.unpackExact(number);
    this.exact.set(number, loading);
    return loading;
  }

  async unpackExact(number) {
    const { first, counts, columns, block } = this.data.exact[number];
    const all = await columnsOf(block, columns, counts.reduce((sum, count) => sum + count, 0));
    const found = new Map();
    let at = 0;
    counts.forEach((count, n) => {
      const own = {};
      for (const name of Object.keys(all)) own[name] = all[name].subarray(at, at + count);
      own.end = new Float64Array(count);
      own.reach = new Float64Array(count);
      for (let i = 0, reach = 0; i < count; i++) {
        if (i) own.start[i] += own.start[i - 1];
        own.end[i] = own.start[i] + own.length[i];
        own.reach[i] = reach = Math.max(reach, own.end[i]);
      }
      found.set(first + n, own);
      at += count;
    });
    this.exact.set(number, found);
  }

  /* Is every activity of a time on the page? */
  isExact(from, to) {
    return this.data.exact_spans.some(([start, end]) => start <= from && to <= end);
  }

  binWidth(from, to) {
    let width = 0;
    for (const [start, end, count] of this.data.stretches)
      if (start < to && end > from) width = Math.max(width, (end - start) / count);
    return width;
  }

  /* Are bins as fine as the columns of a view? Then they are drawn. Columns are pixels of the device. */
  binsSuffice(from, to, columns) {
    return this.binWidth(from, to) * columns <= to - from;
  }
}

/* Indices of the activities of a line that touch a time: [first, after]. Some before `after` may have ended. */
function touching(own, from, to) {
  return [above(own.reach, from), above(own.start, to)];
}
