/* Search of names: all activities of the run count, those that the page holds one by one are framed. */
const MOST_RESULTS = 200;

function addSearch(timeline) {
  const input = element("input", timeline.tools);
  input.type = "search";
  input.placeholder = "Search kernels, calls, ranges ( / )";
  input.setAttribute("aria-label", "Search names of kernels, calls and ranges in " + timeline.side.name);
  const box = element("div", null, null, "results");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Names found in " + timeline.side.name);
  const said = element("p", box, null, "note"), list = element("ul", box);
  said.setAttribute("role", "status");
  let hits = [], at = -1;

  function search() {
    const wanted = input.value.trim().toLowerCase(), { names } = timeline.lines;
    hits = wanted && names ? names.name.flatMap((name, n) => name.toLowerCase().includes(wanted) ? [n] : []) : [];
    timeline.found = wanted ? new Set(hits) : null;
    at = -1;
    list.replaceChildren();
    if (!wanted) box.remove(); else timeline.tools.after(box);
    const total = hits.reduce((sum, n) => sum + names.count[n], 0);
    const held = timeline.side.timeline.kept < timeline.side.timeline.activities ? " Times that the page holds only in bins show none of them." : "";
    said.textContent = hits.length ? `${counted(hits.length, "name")}, ${total.toLocaleString("en-US")} times in the run. Enter goes from one to the next, by time.${held}` : "No name holds this text.";
    for (const n of hits.slice(0, MOST_RESULTS))
      button(element("li", list), `${names.name[n]}: ${names.count[n].toLocaleString("en-US")} times, ${lasting(names.ns[n])}; show the longest`, null, () => longest(n));
    if (hits.length > MOST_RESULTS) element("li", list, `and ${counted(hits.length - MOST_RESULTS, "more name")}: search for more of the text`, "note");
    timeline.draw();
  }

  function longest(n) {
    const { names } = timeline.lines, span = Math.max((names.end[n] - names.start[n]) * 3, 200);
    timeline.show((names.start[n] + names.end[n] - span) / 2, (names.start[n] + names.end[n] + span) / 2);
    timeline.reveal(names.line[n]);
    timeline.at = names.start[n];
    timeline.chosen.textContent = `Longest ${names.name[n]}: ${lasting(names.end[n] - names.start[n])} at ${ms(names.start[n])}`;
  }

  /* Go to the next found activity by time. All exact ones are unpacked once. */
  let inOrder = null;
  async function goOn(step) {
    if (!hits.length) return;
    await timeline.lines.loadAll();
    if (at < 0) {
      inOrder = [];
      for (const line of timeline.rows) {
        const own = timeline.lines.activitiesOf(line.number);
        for (let n = 0; own && n < own.start.length; n++) if (timeline.found.has(own.name[n])) inOrder.push({ line, index: n, start: own.start[n] });
      }
      inOrder.sort((a, b) => a.start - b.start);
      at = inOrder.findIndex(one => one.start >= timeline.view.from) - step;
    }
    if (!inOrder.length) { longest(hits[0]); return; }
    at = (at + step + inOrder.length) % inOrder.length;
    timeline.pick(inOrder[at]);
    timeline.showPicked();
    said.textContent = `${at + 1} of ${inOrder.length.toLocaleString("en-US")}`;
  }

  timeline.endSearch = () => { input.value = ""; search(); };
  input.addEventListener("input", search);
  input.addEventListener("keydown", event => {
    if (event.key === "Enter") { event.preventDefault(); goOn(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { timeline.endSearch(); timeline.box.focus(); }
  });
  timeline.search = input;
}
