/* Tables: folded, unpacked when they are opened, sorted by a click on a head; all rows are there. */
const ROWS_AT_ONCE = 400;

/* A value as the column shows it. */
function shownValue(value, scale, digits) {
  if (value === null || value === undefined) return "";
  return digits === null || typeof value !== "number" ? String(value) : (value * scale).toFixed(digits);
}

function addTable(parent, table) {
  const made = element("details", parent, null, "table"), summary = element("summary", made, table.title);
  made.id = "table-" + parent.dataset.side + "-" + table.key;
  element("span", summary, counted(table.rows, "row"));
  made.addEventListener("toggle", async () => {
    if (!made.open || made.dataset.filled) return;
    made.dataset.filled = "yes";
    if (table.note) element("p", made, table.note, "note");
    fill(made, table, await jsonOf(table.block));
  });
  return made;
}

function fill(parent, table, values) {
  const box = element("div", parent, null, "box"), made = element("table", box);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", table.title);
  const caption = element("caption", made, table.title, "hidden"), head = element("tr", element("thead", made));
  let order = Array.from({ length: table.rows }, (_, n) => n), sorted = -1, down = false, drawn = 0;
  const body = element("tbody", made), more = element("p", parent, null, "note");
  const numeric = table.columns.map(([, , digits]) => digits !== null);
  const most = table.columns.map(([title], c) => /%$/.test(title) ? 100 : 0);

  function cell(line, row, c) {
    const [title, scale, digits] = table.columns[c], value = values[c][row], made = element("td", line, shownValue(value, scale, digits));
    made.className = numeric[c] ? "n" : "text";
    if (numeric[c] && value !== null) made.dataset.value = value;
    if (!numeric[c] && made.textContent.length > 60) made.title = made.textContent;
    if (most[c] && typeof value === "number" && value > 0) {
      made.classList.add("share");
      made.style.setProperty("--part", clamp(value * scale, 0, 100));
    }
  }
  function grow() {
    const until = Math.min(order.length, drawn + ROWS_AT_ONCE), part = document.createDocumentFragment();
    for (; drawn < until; drawn++) {
      const line = element("tr", part);
      for (let c = 0; c < table.columns.length; c++) cell(line, order[drawn], c);
    }
    body.append(part);
    more.textContent = drawn < order.length ? `${drawn.toLocaleString("en-US")} of ${counted(order.length, "row")}; scroll for more` : "";
  }
  function sort(c) {
    down = sorted === c ? !down : numeric[c];
    sorted = c;
    const own = values[c], sign = down ? -1 : 1;
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    /* Empty cells come last, whatever the direction. */
    order.sort((a, b) => own[a] === null || own[b] === null ? (own[a] === null) - (own[b] === null) || a - b : sign * compare(own[a], own[b]) || a - b);
    [...head.children].forEach((one, n) => one.setAttribute("aria-sort", n === c ? (down ? "descending" : "ascending") : "none"));
    body.replaceChildren();
    drawn = 0;
    grow();
  }
  table.columns.forEach(([title], c) => {
    const one = element("th", head, null, numeric[c] ? "n" : "");
    one.scope = "col";
    one.setAttribute("aria-sort", "none");
    button(one, title.trim() || "value", null, () => sort(c));
  });
  box.addEventListener("scroll", () => { if (drawn < order.length && box.scrollTop + box.clientHeight > box.scrollHeight - 600) grow(); });
  grow();
}

function addTables(parent, title, tables, number) {
  if (!tables.length) return;
  const made = element("section", parent);
  made.dataset.side = number;
  element("h2", made, title);
  if (tables.length > 4) button(element("div", made, null, "tools"), "Open all", "Open all tables", event => {
    const open = event.target.textContent === "Open all";
    made.querySelectorAll("details").forEach(one => { one.open = open; });
    event.target.textContent = open ? "Close all" : "Open all";
    event.target.setAttribute("aria-label", event.target.textContent + " tables");
  });
  for (const table of tables) addTable(made, table);
}
