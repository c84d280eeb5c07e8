/* What lies under the pointer, what is selected, and how both are said. */

/* The activity of a line nearest to a time, within `slack` ns: the shortest that holds it, else the nearest one. */
function activityAt(lines, line, time, slack, strip) {
  const own = lines.activitiesOf(line.number);
  if (!own) return null;
  const [first, after] = touching(own, time - slack, time + slack);
  let best = -1, lowest = Infinity, near = 0;
  for (let n = first; n < after; n++) {
    if (own.end[n] < time - slack || (strip !== undefined && KINDS[own.kind[n]].strip !== strip)) continue;
    near++;
    const holds = own.start[n] <= time && time < Math.max(own.end[n], own.start[n] + 1);
    const rank = holds ? own.length[n] : 1e15 + Math.max(own.start[n] - time, time - own.end[n]);
    if (rank < lowest) { best = n; lowest = rank; }
  }
  return best < 0 ? null : { line, index: best, near };
}

/* The strip of a line at a part of its height. */
function stripAt(line, part) {
  const found = Object.entries(line.strips).find(([, [at, height]]) => part >= at && part < at + height);
  return found && Number(found[0]);
}

/* Name, kind, times and what else is known of an activity: [term, text]. */
function described(lines, { line, index }) {
  const own = lines.activitiesOf(line.number), kind = KINDS[own.kind[index]], note = own.note[index];
  const facts = [["", lines.names.name[own.name[index]]], ["kind", kind.name], ["at", ms(own.start[index])],
    ["lasts", lasting(own.length[index])], ["on", lineName(line)]];
  if (kind.name === "waiting" && note) facts.push(["waits for", "rank " + (note - 1)]);
  else if (note) facts.push(["moves", bytesText(note)]);
  return facts;
}

function bytesText(count) {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (count >= size) return `${+(count / size).toPrecision(4)} ${unit}`;
  return count + " B";
}

const lineName = line => `rank ${line.rank}, ${line.kind === "main" ? "main thread " : ""}${line.label}, on ${line.host}`;
const lineLabel = line => line.kind === "main" ? `main, ${line.label}` : line.label;
const factsText = facts => facts.map(([term, text]) => (term ? `${term} ` : "") + text).join("\n");

/* What a column of a line shows: an activity, or the shares of the bin. */
function pointedText(lines, line, view, time, part, width) {
  const slack = 1.5 * (view.to - view.from) / width, strip = stripAt(line, part);
  const found = activityAt(lines, line, time, slack, strip);
  if (found) return factsText(described(lines, found)) + (found.near > 2 ? `\n(one of ${found.near} here; zoom in)` : "");
  const columns = columnsOfLine(lines, line, { from: time - slack, to: time + slack }, 1), said = [];
  for (const [kind, [share]] of columns) if (share > 0.005) said.push(`${KINDS[kind].name} ${Math.round(Math.min(share, 1) * 100)} %`);
  const how = lines.isExact(time, time) ? "" : "\nShares of time in a bin; single activities are not on the page here";
  return `${lineName(line)}\n${ms(time)}: ${said.join(", ") || "nothing"}${how}`;
}
