/* One run's timeline: the view of it, and how mouse, wheel and keys move it. */
const AXIS = 44, NAMED = 24;

class Timeline {
  constructor(parent, side, number) {
    this.side = side;
    this.number = number;
    this.lines = new Lines(side, () => this.draw());
    this.full = [0, side.timeline.duration];
    const pad = Math.max(1, (side.window[1] - side.window[0]) * 0.02);
    this.home = { from: Math.max(0, side.window[0] - pad), to: Math.min(this.full[1], side.window[1] + pad) };
    if (this.home.to <= this.home.from) this.home = { from: 0, to: this.full[1] };
    this.view = { ...this.home };
    this.shown = { device: true, main: true, thread: side.timeline.count <= NAMED, path: true };
    this.others = [];
    this.cursor = 0;
    this.draw = onceAFrame(() => this.drawNow());
    this.build(parent);
  }

  build(parent) {
    const made = element("section", parent);
    made.setAttribute("aria-label", "Timeline of " + this.side.name);
    element("h2", made, data.sides.length > 1 ? "Timeline of " + this.side.name : "Timeline");
    this.tools = element("div", made, null, "tools");
    button(this.tools, "\u2212", "Zoom out", () => this.zoom(2));
    button(this.tools, "+", "Zoom in", () => this.zoom(0.5));
    button(this.tools, "Window", null, () => this.show(this.home.from, this.home.to));
    button(this.tools, "Whole run", null, () => this.show(...this.full));
    const parts = this.side.timeline.path.count ? ["device", "main", "thread", "path"] : ["device", "main", "thread"];
    const titles = { device: "devices", main: "main threads", thread: "other threads", path: "critical path" };
    for (const kind of parts) checkbox(this.tools, titles[kind], this.shown[kind], on => { this.shown[kind] = on; this.layOut(); });
    this.legend(made);
    this.frame = element("div", made, null, "timeline");
    this.axis = element("canvas", this.frame, null, "axis");
    this.axis.setAttribute("role", "img");
    this.box = element("div", this.frame, null, "rows");
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "group");
    this.space = element("div", this.box);
    this.canvas = element("canvas", this.space);
    this.canvas.setAttribute("role", "img");
    this.status = element("p", made, null, "status");
    this.chosen = element("p", made, null, "chosen");
    this.chosen.setAttribute("role", "status");
    element("p", made, "Drag moves. Ctrl and wheel, + and \u2212 zoom; so does a drag along the scale of time. A double click shows one " +
      "activity. Keys: arrows move, Shift and an arrow goes from one activity to the next, Home shows the window, / searches, Esc ends.", "note");
    this.after = element("div", made);
    listenToPointer(this);
    this.box.addEventListener("keydown", event => { if (pressed(this, event)) event.preventDefault(); });
    this.box.addEventListener("scroll", this.draw);
    new ResizeObserver(() => this.layOut()).observe(this.frame);
  }

  legend(parent) {
    const made = element("ul", parent, null, "legend"), kinds = new Set(this.side.timeline.bins.flatMap(block => block.kinds));
    const item = (text, color) => {
      const one = element("li", made), mark = element("i", one, null, color ? "" : "path");
      if (color) mark.style.background = color;
      one.append(text);
    };
    for (const kind of KINDS) if (kinds.has(kind.number)) item(kind.name, kind.color);
    if (this.side.timeline.path.count) item("critical path");
  }

  async load() {
    await this.lines.load();
    this.layOut();
  }

  /* The lines that are shown, their height, and the width of their names. */
  layOut() {
    this.rows = this.lines.lines.filter(line => this.shown[line.kind]);
    this.place = new Map(this.rows.map((line, n) => [line.number, n]));
    this.width = this.frame.clientWidth - (this.box.offsetWidth - this.box.clientWidth);
    this.left = this.width < 600 ? 76 : 150;
    this.height = this.rows.length <= NAMED ? 42 : 20;
    this.space.style.height = Math.max(this.rows.length * this.height, 1) + "px";
    this.box.setAttribute("aria-label", `Timeline of ${this.side.name}: ${counted(this.rows.length, "line")}. Arrow keys move, plus and minus zoom.`);
    this.draw();
  }

  area() {
    return { left: this.left, width: Math.max(1, Math.floor(this.width - this.left)) };
  }

  /* Number of columns that are drawn, each a pixel of the device. */
  columns() {
    return Math.max(1, Math.floor(this.area().width * (window.devicePixelRatio || 1)));
  }

  drawNow() {
    if (!this.rows) return;
    const { view } = this, area = this.area(), height = Math.min(this.box.clientHeight, this.rows.length * this.height) || 1;
    for (const name of ["track", "text", "soft", "edge", "mark", "halo", "back"]) area[name] = themeColor(name);
    drawAxis(fitted(this.axis, this.width, AXIS), this.side, view, area);
    const context = fitted(this.canvas, this.width, height), ratio = window.devicePixelRatio || 1;
    const top = this.box.scrollTop, first = Math.floor(top / this.height), shown = this.rows.slice(first, first + Math.ceil(height / this.height) + 1);
    const columns = this.columns();
    const image = context.createImageData(columns, Math.max(1, Math.round(height * ratio)));
    const painted = { pixels: new Uint32Array(image.data.buffer), width: columns, height: image.height };
    painted.pixels.fill(pixel(area.back));
    shown.forEach((line, n) => {
      const at = ((first + n) * this.height - top + 1) * ratio, high = (this.height - 3) * ratio;
      const low = Math.max(0, Math.round(at)), end = clamp(Math.round(at + high), 0, image.height);
      painted.pixels.fill(pixel(area.track), low * columns, Math.max(low, end) * columns);
      paintLine(painted, line, columnsOfLine(this.lines, line, view, columns), at, high);
    });
    context.putImageData(image, Math.round(area.left * ratio), 0);
    shown.forEach((line, n) => {
      const y = (first + n) * this.height - top;
      drawNames(context, this.lines, line, view, { ...area, top: y + 1, height: this.height - 3 }, this.found);
      this.drawLabel(context, line, y, area);
    });
    const along = number => this.place.has(number) ? (this.place.get(number) + this.lines.lines[number].along) * this.height - top : null;
    context.save();
    context.beginPath();
    context.rect(area.left, 0, area.width, height);
    context.clip();
    if (this.shown.path) drawPath(context, this.lines, view, area, along);
    this.drawMarks(context, area, height, top);
    context.restore();
    this.say();
  }

  drawLabel(context, line, y, area) {
    const room = area.left - 12, middle = y + this.height / 2, current = this.rows[this.cursor] === line && document.activeElement === this.box;
    if (current) { context.fillStyle = area.edge; context.fillRect(0, y, area.left - 4, this.height - 1); }
    context.fillStyle = area.text;
    if (this.height < 30) { context.fillText(cut(context, `${line.rank} \u00b7 ${lineLabel(line)}`, room), 6, middle); return; }
    context.fillText(cut(context, "rank " + line.rank, room), 6, middle - 7);
    context.fillStyle = area.soft;
    context.fillText(cut(context, lineLabel(line), room), 6, middle + 7);
  }

  /* The place that a finding or a link names, and the frame of what is selected. */
  drawMarks(context, area, height, top) {
    const scale = area.width / (this.view.to - this.view.from), x = time => area.left + (time - this.view.from) * scale;
    if (this.at !== undefined) {
      context.fillStyle = area.mark;
      for (let y = 0; y < height; y += 8) context.fillRect(x(this.at), y, 1, 5);
    }
    const picked = this.picked, own = picked && this.lines.activitiesOf(picked.line.number);
    if (!own || !this.place.has(picked.line.number)) return;
    const [at, part] = stripOf(picked.line, own.kind[picked.index]), y = this.place.get(picked.line.number) * this.height - top + 1;
    context.strokeStyle = area.mark;
    context.lineWidth = 2;
    context.strokeRect(x(own.start[picked.index]), y + at * (this.height - 3), Math.max(3, own.length[picked.index] * scale), part * (this.height - 3));
  }

  /* Say what is shown, and whether it is exact. */
  say() {
    const { from, to } = this.view, of = this.lines.data, bin = this.lines.binWidth(from, to);
    const fine = this.lines.binsSuffice(from, to, this.columns());
    let how = "Every activity is drawn; those narrower than a pixel share a column.";
    if (!fine && !this.lines.isExact(from, to)) how = `Binned: shares of time in bins of ${lasting(bin)}. ${this.exactText()}`;
    else if (fine) how = `Each column shows shares of time, in bins of ${lasting(bin)}. ${of.kept < of.activities ? this.exactText() : "Zoom in for single activities."}`;
    this.status.textContent = `Shown: ${ms(from)} to ${ms(to)}, ${lasting(to - from)}. ${how}`;
    this.canvas.setAttribute("aria-label", this.status.textContent);
    this.axis.setAttribute("aria-label", `Scale of time from ${ms(from)} to ${ms(to)}, ${counted(this.side.marks.length, "iteration")}`);
  }

  exactText() {
    const of = this.lines.data, spans = of.exact_spans.map(([start, end]) => `${ms(start)} to ${ms(end)}`);
    if (of.kept === of.activities) return "Zoom in for single activities.";
    const listed = spans.slice(0, 3).join(", ") + (spans.length > 3 ? ` and ${spans.length - 3} more spans` : "");
    return `Of ${counted(of.activities, "activity").replace("activitys", "activities")} the page holds ${of.kept.toLocaleString("en-US")} one by one: those of ${listed || "no time"}.`;
  }

  /* Show a time, as far as the run has it, and at least 20 ns. */
  show(from, to, together = true) {
    const span = clamp(to - from, 20, this.full[1]), begin = clamp(from, 0, this.full[1] - span);
    this.view = { from: begin, to: begin + span };
    if (together) for (const other of this.others) other.show(begin - this.side.window[0] + other.side.window[0],
      begin + span - this.side.window[0] + other.side.window[0], false);
    this.draw();
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    const { from, to } = this.view, span = clamp((to - from) * factor, 20, this.full[1]), part = (at - from) / (to - from);
    this.show(at - part * span, at + (1 - part) * span);
  }

  move(part) {
    const by = (this.view.to - this.view.from) * part;
    this.show(this.view.from + by, this.view.to + by);
  }

  timeAt(x) {
    const area = this.area();
    return this.view.from + (this.view.to - this.view.from) * clamp((x - area.left) / area.width, 0, 1);
  }

  /* Scroll the lines so that one is inside the box. */
  reveal(line) {
    if (!this.place.has(line)) return;
    const top = this.place.get(line) * this.height, { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + this.height > scrollTop + clientHeight) this.box.scrollTop = top - clientHeight / 2 + this.height / 2;
    this.cursor = this.place.get(line);
  }

  pick(found) {
    this.picked = found;
    this.chosen.replaceChildren();
    if (found) for (const [term, text] of described(this.lines, found)) {
      element("b", this.chosen, term || "Selected:");
      this.chosen.append(text + "  ");
    }
    this.draw();
  }

  /* Show the selected activity, in the middle half of the view unless it is there already. */
  showPicked(close = false) {
    const own = this.lines.activitiesOf(this.picked.line.number), start = own.start[this.picked.index], length = own.length[this.picked.index];
    const span = close ? Math.max(length * 3, 200) : Math.max(this.view.to - this.view.from, length * 1.2);
    if (close || start < this.view.from || start + length > this.view.to) this.show(start + length / 2 - span / 2, start + length / 2 + span / 2);
    this.reveal(this.picked.line.number);
    this.draw();
  }
}
