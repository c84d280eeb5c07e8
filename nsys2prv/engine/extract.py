"""Extract: one report in, its points spilled, a small summary out. Runs anywhere, on one report at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from nsys2prv.activities import FAMILIES, Family, Source
from nsys2prv.activities.anchors import anchors
from nsys2prv.activities.relations import DEVICE_TABLES, DEVICE_WORK_READS
from nsys2prv.engine import points
from nsys2prv.engine.ends import end_keys
from nsys2prv.engine.metric_spill import spill_metrics
from nsys2prv.engine.points import Span
from nsys2prv.engine.spill import write_spill
from nsys2prv.merge.summary import PLACE_USE, SAMPLE_EDGE, FamilyCount, Kind, Spill, Summary
from nsys2prv.paraver.event_types import GPU_METRIC
from nsys2prv.report import Report, open_report, schema
from nsys2prv.report.schema import Table
from nsys2prv.timeline.classes import Rules
from nsys2prv.timeline.frames import ANCHOR, COLLECTIVE, Drawn, Ends, Intervals, Samples, States, Tally
from nsys2prv.timeline.reduction import ALL, Reduction, reduced


@dataclass(frozen=True, slots=True)
class ExtractTask:
    """What to extract from one report. `folder` None: only look, write nothing.

    `anchors`: look for what tells its clock from others.
    `whole`: spill intervals and messages as they are, for analysis, instead of points; `metrics`: parts of the names of
    GPU metrics to spill one by one, in pieces of their table. `less`: what the user can do without.
    """

    path: Path
    families: tuple[str, ...]
    folder: Path | None
    name: str
    span: Span | None = None
    ranges: tuple[str, ...] = ()
    rules: Rules | None = None
    anchors: bool = False
    whole: bool = False
    metrics: tuple[str, ...] = ()
    less: Reduction = ALL


def read_columns(families: Sequence[Family]) -> dict[Table, tuple[str, ...]]:
    """Columns of each table that any of the families needs, or the relation between device activity and calls."""
    reads = [family.reads for family in families]
    if any(table in needed for needed in reads for table in DEVICE_TABLES):
        reads.append(DEVICE_WORK_READS)
    columns: dict[Table, tuple[str, ...]] = {}
    for needed in reads:
        for table, names in needed.items():
            columns[table] = tuple(dict.fromkeys(columns.get(table, ()) + names))
    return columns


def extract(task: ExtractTask) -> Summary:
    """Read one report, spill the points of its families, and summarise. Raises ReportError, OutputError."""
    families = [f for f in FAMILIES if f.name in task.families]
    columns = read_columns(families)
    with open_report(task.path) as report, ThreadPoolExecutor(1) as reader:
        ahead = {t.name: reader.submit(report.table, t, names) for t, names in columns.items() if report.has(t)}
        source = Source(report, columns, task.rules, less=task.less, ahead=ahead)
        gathered = _Gathered(task)
        for family in families:
            gathered.take(family, source)
            for table in family.reads:
                if not any(table in later.reads for later in families[families.index(family) + 1 :]):
                    source.release(table)
        if task.metrics:
            gathered.take_metrics(source)
        return gathered.summary(report, source)


@dataclass
class _Gathered:
    """What accumulates over the families of a report."""

    task: ExtractTask
    spills: list[Spill] = field(default_factory=list)
    sampled: list[tuple[int, Spill]] = field(default_factory=list)
    uses: list[pl.DataFrame] = field(default_factory=list)
    edges: list[pl.DataFrame] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    counts: dict[str, FamilyCount] = field(default_factory=dict)
    ends: list[Spill] = field(default_factory=list)
    collectives: dict[int, int] = field(default_factory=dict)

    def take(self, family: Family, source: Source) -> None:
        """Frames of one family: cut, count, turn into points, spill."""
        source.tally = Tally()
        if not _concerns(family, source.report):
            self.counts[family.name] = FamilyCount(0)
            return
        by_kind: dict[tuple[Kind, tuple[str, ...]], list[pl.DataFrame]] = {}
        for frame in family.frames(source):
            if isinstance(frame, Ends):
                self._keep_ends(family, frame, source)
                continue
            cut = _cut(frame, self.task.span, source.tally)
            cut = reduced(cut, self.task.less, GPU_METRIC in family.emits, source.tally)
            if cut.data.is_empty():
                continue
            source.tally.rows += cut.data.height
            self._count(family, cut, source)
            kind, columns, made = self._points(cut)
            by_kind.setdefault((kind, columns), []).append(made)
        for number, ((kind, columns), parts) in enumerate(by_kind.items()):
            self._spill(f"{family.name}.{number}", family.name, kind, columns, parts)
        self.counts[family.name] = FamilyCount(source.tally.rows, source.tally.dropped)

    def _keep_ends(self, family: Family, frame: Ends, source: Source) -> None:
        """Spill ends whole: what the other ranks have within the chosen time is known only when they are matched."""
        data = frame.data
        counted = data.filter(pl.col("kind") == COLLECTIVE).group_by("member").len()
        for member, n in counted.rows():
            self.collectives[member] = self.collectives.get(member, 0) + n
        if self.task.folder is None or data.is_empty():
            return
        keys = end_keys(data, source.members.table["communicator"].to_list())
        keyed = data.with_columns(pl.Series("key", keys)).sort("key", maintain_order=True)
        path = self.task.folder / f"{self.task.name}.{family.name}.ends{len(self.ends)}.arrow"
        self.ends.append(write_spill(path, "ends", family.name, keyed, (), sorted_by="key"))

    def _points(self, frame: Drawn) -> tuple[Kind, tuple[str, ...], pl.DataFrame]:
        if self.task.whole and isinstance(frame, Intervals):
            kept = tuple(a for a in frame.attributes if a in points.WHOLE_ATTRIBUTES)
            return "events", kept, points.whole(frame, kept)
        if isinstance(frame, Intervals):
            return "events", frame.attributes, points.event_points(frame)
        if isinstance(frame, Samples):
            made, edges = points.sample_points(frame)
            self.edges.append(edges)
            return "samples", frame.columns, made
        if isinstance(frame, States):
            return "states", (), points.state_points(frame)
        return "messages", (), points.message_points(frame)

    def _count(self, family: Family, frame: Drawn, source: Source) -> None:
        data = frame.data
        if isinstance(frame, Intervals):
            by_slot = data.group_by("slot").len()
            for slot, rows in by_slot.rows():
                self._use(source.slots.keys[slot], rows)
            for a in frame.attributes:
                self._use(a, int(data[a].fill_null(0).ne(0).sum()))
            spans = _lasting(data)
        elif isinstance(frame, States):
            spans = _lasting(data)
        elif isinstance(frame, Samples):
            for c in frame.columns:
                self._use(c, data[c].count())
            spans = data.group_by("place").agg(rows=pl.len(), first=pl.col("time").min(), last=pl.col("time").max())
        else:
            return
        use = spans.with_columns(family=pl.lit(family.name), makes_rows=pl.lit(family.makes_rows))
        self.uses.append(use.select(pl.col(c).cast(t) for c, t in PLACE_USE.items()))

    def take_metrics(self, source: Source) -> None:
        """Samples of the metrics asked for, each GPU and metric a spill of its own."""
        for place, spill in spill_metrics(source, self.task):
            self.sampled.append((place, spill))
            use = (place, "gpu_metrics", False, spill.rows, int(spill.first[0]), int(spill.last[-1]))
            self.uses.append(pl.DataFrame([use], schema=PLACE_USE, orient="row"))

    def _use(self, key: str, rows: int) -> None:
        self.used[key] = self.used.get(key, 0) + rows

    def _spill(self, name: str, family: str, kind: Kind, columns: tuple[str, ...], parts: list[pl.DataFrame]) -> None:
        made = parts[0] if len(parts) == 1 else pl.concat(parts).sort("time", maintain_order=True)
        if self.task.folder is None or made.is_empty():
            return
        path = self.task.folder / f"{self.task.name}.{name}.arrow"
        self.spills.append(write_spill(path, kind, family, made, columns))

    def summary(self, report: Report, source: Source) -> Summary:
        """All that the plan needs to know of the report."""
        return Summary(
            path=report.path,
            name=report.name,
            identity=report.identity,
            places=source.places.table,
            uses=pl.concat([pl.DataFrame(schema=PLACE_USE), *self.uses]),
            edges=pl.concat([pl.DataFrame(schema=SAMPLE_EDGE), *self.edges]),
            slots=tuple(source.slots.keys),
            used=self.used,
            labels=source.labels.texts(),
            preferred=source.preferred,
            spills=tuple(self.spills),
            counts=self.counts,
            off=_off(report, self.task.families),
            spans=_range_spans(source, self.task.ranges) if self.task.ranges else {},
            losses=tuple(report.admitted_losses()),
            remarks=tuple(dict.fromkeys(source.remarks)),
            members=source.members.table.with_columns(
                collectives=pl.col("id").replace_strict(self.collectives, default=0, return_dtype=pl.Int64)
            ),
            ends=tuple(self.ends),
            anchors=anchors(report) if self.task.anchors else pl.DataFrame(schema=ANCHOR),
            sampled=tuple(self.sampled),
        )


def _concerns(family: Family, report: Report) -> bool:
    """Whether the report has a table of the family's; those that only say what launched what are everybody's."""
    own = {*family.draws, *(t for t in family.reads if t not in DEVICE_WORK_READS)}
    return not own or any(map(report.holds, own))


def _lasting(data: pl.DataFrame) -> pl.DataFrame:
    """Rows, first begin and last end on each place."""
    return data.group_by("place").agg(rows=pl.len(), first=pl.col("start").min(), last=pl.col("end").max())


def _off(report: Report, families: Sequence[str]) -> dict[str, int]:
    """Rows of each family that was not asked for; one that draws no rows of its own leaves nothing out."""
    rows = {f.name: f.rows_in(report) for f in FAMILIES if f.draws and f.name not in families}
    return {family: n for family, n in rows.items() if n}


def _cut(frame: Drawn, span: Span | None, tally: Tally) -> Drawn:
    if isinstance(frame, Intervals):
        return points.cut_intervals(frame, span, tally)
    if isinstance(frame, Samples):
        return points.cut_samples(frame, span, tally)
    if isinstance(frame, States):
        return points.cut_states(frame, span, tally)
    return points.cut_messages(frame, span, tally)


def _range_spans(source: Source, wanted: Sequence[str]) -> dict[str, tuple[int, int]]:
    """First begin and last end of the NVTX ranges `TEXT` or `TEXT@DOMAIN`."""
    source.columns = {**source.columns, schema.NVTX: tuple(schema.NVTX.columns)}
    ranges = source.ranges().drop_nulls("end")
    spans = {}
    for name in wanted:
        text, _, domain = name.rpartition("@") if "@" in name else (name, "", "")
        found = ranges.filter(pl.col("text") == text)
        if "@" in name:
            found = found.filter(pl.col("domain") == ("" if domain == "default" else domain))
        if found.height:
            low, high = found.select(pl.col("start").min(), pl.col("end").max().alias("high")).row(0)
            spans[name] = (low, high)
    return spans
