/* Mouse, wheel, touch and keys of a timeline. A plain wheel is left to the page. */
function listenToPointer(timeline) {
  const { box, axis } = timeline;
  const inside = event => event.clientX - box.getBoundingClientRect().left;
  const lineAt = event => {
    const y = event.clientY - box.getBoundingClientRect().top + box.scrollTop, row = Math.floor(y / timeline.height);
    return timeline.rows[row] && { line: timeline.rows[row], part: (y - row * timeline.height - 1) / (timeline.height - 3) };
  };
  const slack = () => 1.5 * (timeline.view.to - timeline.view.from) / timeline.area().width;
  const activity = event => {
    const at = lineAt(event);
    return at && inside(event) >= timeline.left && activityAt(timeline.lines, at.line, timeline.timeAt(inside(event)), slack(), stripAt(at.line, at.part));
  };
  let drag = null;

  for (const part of [box, axis]) part.addEventListener("wheel", event => {
    if (event.ctrlKey) timeline.zoom(event.deltaY > 0 ? 1.25 : 0.8, timeline.timeAt(inside(event)));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) timeline.move((event.deltaX || event.deltaY) / 1500);
    else return;
    event.preventDefault();
  }, { passive: false });

  box.addEventListener("pointerdown", event => {
    if (event.button || event.offsetX > box.clientWidth) return;
    drag = { x: event.clientX, ...timeline.view, moved: false };
    if (event.pointerType === "mouse") box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", event => {
    if (drag && event.buttons) {
      const by = (drag.x - event.clientX) * (drag.to - drag.from) / timeline.area().width;
      drag.moved = drag.moved || Math.abs(event.clientX - drag.x) > 3;
      if (drag.moved) { tip.hide(); timeline.show(drag.from + by, drag.to + by); return; }
    }
    const at = lineAt(event);
    if (!at) tip.hide();
    else if (inside(event) < timeline.left) tip.show(lineName(at.line), event.clientX, event.clientY);
    else tip.show(pointedText(timeline.lines, at.line, timeline.view, timeline.timeAt(inside(event)), at.part, timeline.area().width), event.clientX, event.clientY);
  });
  box.addEventListener("pointerup", event => {
    if (drag && !drag.moved) { timeline.pick(activity(event) || null); if (lineAt(event)) timeline.cursor = timeline.place.get(lineAt(event).line.number); }
    drag = null;
  });
  box.addEventListener("pointercancel", () => { drag = null; });
  box.addEventListener("pointerleave", () => tip.hide());
  box.addEventListener("dblclick", event => { timeline.pick(activity(event) || null); if (timeline.picked) timeline.showPicked(true); });
  for (const name of ["focus", "blur"]) box.addEventListener(name, () => timeline.draw());

  let from = null;
  axis.addEventListener("pointerdown", event => { if (event.button) return; from = inside(event); axis.setPointerCapture(event.pointerId); });
  axis.addEventListener("pointermove", event => {
    const time = timeline.timeAt(inside(event));
    tip.show(from === null ? axisText(timeline, time) : `${ms(timeline.timeAt(from))} to ${ms(time)}: ${lasting(Math.abs(time - timeline.timeAt(from)))}`, event.clientX, event.clientY);
  });
  axis.addEventListener("pointercancel", () => { from = null; });
  axis.addEventListener("pointerup", event => {
    if (from === null) return;
    const to = inside(event), times = [timeline.timeAt(from), timeline.timeAt(to)].sort((a, b) => a - b);
    if (Math.abs(to - from) > 3) timeline.show(...times);
    from = null;
  });
  axis.addEventListener("dblclick", event => {
    const found = iterationAt(timeline, timeline.timeAt(inside(event)));
    if (found) timeline.show(found[1], found[2]);
  });
  axis.addEventListener("pointerleave", () => tip.hide());
}

const iterationAt = (timeline, time) => timeline.side.marks.find(([, start, end]) => start <= time && time < end);

function axisText(timeline, time) {
  const found = iterationAt(timeline, time);
  return ms(time) + (found ? `\niteration ${found[0]}: ${lasting(found[2] - found[1])} over all ranks` : "");
}

/* Act on a key; true if it was one of the timeline's. */
function pressed(timeline, event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return false;
  const steps = { ArrowLeft: -1, ArrowRight: 1 }, step = steps[event.key];
  if (step && event.shiftKey) next(timeline, step);
  else if (step) timeline.move(step * 0.2);
  else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    timeline.cursor = clamp(timeline.cursor + (event.key === "ArrowUp" ? -1 : 1), 0, Math.max(0, timeline.rows.length - 1));
    const line = timeline.rows[timeline.cursor];
    if (line) { timeline.reveal(line.number); timeline.chosen.textContent = lineName(line); }
    timeline.draw();
  } else if (event.key === "+" || event.key === "=") timeline.zoom(0.5);
  else if (event.key === "-" || event.key === "_") timeline.zoom(2);
  else if (event.key === "Home") timeline.show(timeline.home.from, timeline.home.to);
  else if (event.key === "End") timeline.show(...timeline.full);
  else if (event.key === "Enter" && timeline.picked) timeline.showPicked(true);
  else if (event.key === "Escape") { timeline.at = undefined; timeline.pick(null); timeline.endSearch(); }
  else return false;
  return true;
}

/* Select the next or previous activity of the line that is selected. */
function next(timeline, step) {
  const line = timeline.rows[timeline.cursor], own = line && timeline.lines.activitiesOf(line.number);
  if (!own || !own.start.length) return;
  const same = timeline.picked && timeline.picked.line === line;
  const from = same ? timeline.picked.index + step : above(own.start, timeline.view.from) - (step < 0 ? 1 : 0);
  timeline.pick({ line, index: clamp(from, 0, own.start.length - 1) });
  timeline.showPicked();
}
