/* The page: timelines, iterations and tables of its runs; links of findings; light and dark. */
const timelines = data.sides.map((side, number) => new Timeline(byId("timelines"), side, number));

function dark() {
  return document.documentElement.dataset.theme === "dark";
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  for (const timeline of timelines) timeline.draw();
  document.dispatchEvent(new Event("themed"));
}

/* A link of a finding: the run, the time to show, the instant to mark, and the rank. */
function follow() {
  const asked = new URLSearchParams(location.hash.slice(1)), timeline = timelines[Number(asked.get("run"))];
  if (!timeline || !asked.has("from") || !asked.has("to")) return;
  timeline.at = asked.has("at") ? Number(asked.get("at")) : undefined;
  timeline.show(Number(asked.get("from")), Number(asked.get("to")));
  const line = asked.get("rank") && timeline.rows && timeline.rows.find(one => one.rank === Number(asked.get("rank")));
  if (line) timeline.reveal(line.number);
  timeline.frame.parentElement.scrollIntoView();
}

const system = matchMedia("(prefers-color-scheme: dark)");
setTheme(system.matches ? "dark" : "light");
system.addEventListener("change", () => setTheme(system.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark"));
window.addEventListener("hashchange", follow);
/* A click on the link of the place that is shown already goes there again. */
document.addEventListener("click", event => {
  const link = event.target.closest("a.go");
  if (link && link.hash === location.hash) { event.preventDefault(); follow(); }
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(event.target.tagName)) {
    event.preventDefault();
    timelines[0].search.focus();
  }
});

if (timelines.length > 1) {
  const link = on => timelines.forEach(one => { one.others = on ? timelines.filter(other => other !== one) : []; });
  link(true);
  checkbox(timelines[0].tools, "move both runs, each from the begin of its window", true, link);
}
if (data.tables.length) {
  addTables(byId("both"), "Figures of both runs", data.tables, "both");
  byId("both").querySelectorAll("details").forEach(one => { one.open = true; });
}
data.sides.forEach((side, number) => addTables(byId("tables"), data.sides.length > 1 ? "Tables of " + side.name : "Tables", side.tables, number));

async function start() {
  for (const timeline of timelines) addSearch(timeline);
  await Promise.all(timelines.map(timeline => timeline.load()));
  follow();
  /* The timelines are seen before the rest is made. */
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  await Promise.all(timelines.map(addStrip));
  document.documentElement.dataset.ready = "yes";
}
start();
