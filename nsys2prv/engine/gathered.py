"""What accumulates while a report is extracted: points spilled, uses of places, counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from nsys2prv.activities import FAMILIES, Family, Source
from nsys2prv.activities.anchors import anchors
from nsys2prv.activities.relations import DEVICE_WORK_READS
from nsys2prv.engine import points
from nsys2prv.engine.ends import end_keys
from nsys2prv.engine.metric_spill import ColumnFiles, spill_metrics
from nsys2prv.engine.samples import SampleRun, finished
from nsys2prv.engine.spill import hold_points, write_spill
from nsys2prv.engine.task import ExtractTask
from nsys2prv.merge.summary import PLACE_USE, FamilyCount, Kind, Spill, Summary
from nsys2prv.paraver.event_types import EVENT_TYPES, GPU_METRIC, block_of
from nsys2prv.paraver.lines import EXACT
from nsys2prv.report.report import Report
from nsys2prv.timeline.frames import (
    ANCHOR,
    SAMPLE,
    Drawn,
    Ends,
    Intervals,
    Samples,
    States,
    Tally,
)
from nsys2prv.timeline.reduction import Averages, reduced


@dataclass
class Gathered:
    """What accumulates over the families of a report."""

    task: ExtractTask
    spills: list[Spill] = field(default_factory=list)
    sampled: list[tuple[int, Spill]] = field(default_factory=list)
    columns: ColumnFiles = field(init=False)
    work: list[Spill] = field(default_factory=list)
    uses: list[pl.DataFrame] = field(default_factory=list)
    edges: list[pl.DataFrame] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    runs: dict[tuple[str, int], SampleRun] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    # Numbers and counts of anchors are their own.
    beside: Source | None = None
    anchors: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ANCHOR))
    ends: list[Spill] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = ColumnFiles(self.task)

    def take(self, family: Family, source: Source) -> None:
        """Frames of one family, in one slice of the report: cut, count, turn into points, spill."""
        source.tally = self.tallies.setdefault(family.name, Tally())
        by_kind: dict[tuple[Kind, tuple[str, ...]], list[pl.DataFrame]] = {}
        if not _concerns(family, source.report):
            return
        for frame in family.frames(source):
            if isinstance(frame, Ends):
                self._keep_ends(family, frame, source)
                continue
            cut = reduced(self._cut(family, frame, source), self.task.less, source.tally)
            if cut.data.is_empty():
                continue
            if self.task.estimates:
                self._keep_for_estimates(family, frame, cut)
            source.tally.rows += cut.data.height
            self._count(family, cut, source)
            kind, columns, made = self._points(family, cut, source)
            by_kind.setdefault((kind, columns), []).append(made)
        if source.slice.last:
            for made in self._last_samples(family, source):
                by_kind.setdefault(("samples", _measured(made)), []).append(made)
        for number, ((kind, columns), parts) in enumerate(by_kind.items()):
            self._spill(f"{family.name}.{source.slice.number}.{number}", family.name, kind, columns, parts)

    def look(self, source: Source) -> None:
        """What is asked for beside the families, in one slice of the report."""
        self._take_ranges(source)
        if self.task.anchors:
            self._take_anchors(source)

    def _take_ranges(self, source: Source) -> None:
        """First begin and last end of the NVTX ranges `TEXT` or `TEXT@DOMAIN` that are asked for."""
        for name in self.task.ranges:
            text, at, domain = name.rpartition("@") if "@" in name else (name, "", "")
            named = pl.col("text") == text
            if at:
                named &= pl.col("domain") == ("" if domain == "default" else domain)
            found = source.ranges().drop_nulls("end").filter(named)
            if found.height:
                low, high = found.select(pl.col("start").min(), pl.col("end").max().alias("high")).row(0)
                before = self.spans.get(name, (low, high))
                self.spans[name] = (min(low, before[0]), max(high, before[1]))

    def _take_anchors(self, source: Source) -> None:
        """What tells the report's clock from others."""
        if self.beside is None:
            self.beside = Source(source.report, source.columns, source.rules)
        self.beside.follow(source)
        found = anchors(self.beside)
        self.anchors = self.anchors if found is None else found

    def _cut(self, family: Family, frame: Drawn, source: Source) -> Drawn:
        """What lies within the chosen span."""
        span, tally = self.task.span, source.tally
        if isinstance(frame, Intervals):
            return points.cut_intervals(frame, span, tally)
        if isinstance(frame, Samples):
            return self._run(family, frame).taken(frame, tally)
        if isinstance(frame, States):
            return points.cut_states(frame, span, tally)
        return points.cut_messages(frame, span, tally)

    def _run(self, family: Family, frame: Samples) -> SampleRun:
        """What is known of the samples of a place, which a frame of them has alone, from the slices before."""
        place = int(frame.data["place"][0]) if frame.data.height else -1
        every = self.task.less.metrics_every if GPU_METRIC in family.emits else 0
        return self.runs.setdefault((family.name, place), SampleRun(self.task.span, Averages(every) if every else None))

    def _last_samples(self, family: Family, source: Source) -> Iterator[pl.DataFrame]:
        """Points that were kept back until no slice can hold more samples."""
        for key in [k for k in self.runs if k[0] == family.name]:
            run = self.runs.pop(key)
            if (rest := run.rest(source.tally)) is not None:
                source.tally.rows += rest.data.height
                self._count(family, rest, source)
            made, edges = run.points(rest, last=True)
            self.edges.append(edges)
            yield made

    def _keep_ends(self, family: Family, frame: Ends, source: Source) -> None:
        """Spill ends whole: what the other ranks have within the chosen time is known only when they are matched."""
        data = frame.data
        if self.task.folder is None or data.is_empty():
            return
        keys = end_keys(data, source.members.table["communicator"].to_list())
        keyed = data.with_columns(pl.Series("key", keys)).sort("key", maintain_order=True)
        path = self.task.folder / f"{self.task.name}.{family.name}.ends{len(self.ends)}.arrow"
        self.ends.append(write_spill(path, "ends", family.name, keyed, (), sorted_by="key"))

    def _keep_for_estimates(self, family: Family, frame: Drawn, cut: Drawn) -> None:
        """Spill what runs on devices, and the samples to be explained by it, those beyond the chosen time too."""
        if isinstance(frame, Samples) and family.name == "gpu_metrics":
            self.columns.add(frame)
        elif isinstance(cut, Intervals) and family.name in points.WORK_FAMILIES and self.task.folder is not None:
            kept = tuple(a for a in cut.attributes if a in points.WORK_ATTRIBUTES)
            path = self.task.folder / f"{self.task.name}.{family.name}.work{len(self.work)}.arrow"
            self.work.append(write_spill(path, "events", family.name, points.whole(cut, kept), kept))

    def _points(self, family: Family, frame: Drawn, source: Source) -> tuple[Kind, tuple[str, ...], pl.DataFrame]:
        if self.task.whole and isinstance(frame, Intervals):
            kept = tuple(a for a in frame.attributes if a in points.WHOLE_ATTRIBUTES)
            return "events", kept, points.whole(frame, kept)
        if isinstance(frame, Intervals):
            return "events", frame.attributes, points.event_points(frame, self.task.estimates)
        if isinstance(frame, Samples):
            made, edges = self._run(family, frame).points(frame, last=False)
            self.edges.append(edges)
            return "samples", _measured(made), made
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
                self._use(a, int(data[a].ne(0).sum()))
                _look_for_rounded(a, data[a], source)
            spans = _lasting(data)
        elif isinstance(frame, States):
            spans = _lasting(data)
        elif isinstance(frame, Samples):
            for c in frame.columns:
                self._use(c, data[c].count())
                _look_for_rounded(c, data[c], source)
            spans = data.group_by("place").agg(rows=pl.len(), first=pl.col("time").min(), last=pl.col("time").max())
        else:
            spans = _reaching(data)
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
        keep = hold_points if self.task.hold else write_spill
        self.spills.append(keep(path, kind, family, made, columns))

    def summary(self, report: Report, source: Source) -> Summary:
        """All that the plan needs to know of the report."""
        return Summary(
            path=report.path,
            name=report.name,
            identity=report.identity,
            places=source.places.table,
            uses=_all_uses(self.uses),
            edges=finished(self.edges),
            slots=tuple(source.slots.keys),
            used=self.used,
            labels=source.labels.texts(),
            preferred=source.preferred,
            spills=tuple(self.spills),
            counts={f.name: FamilyCount(t.rows, t.dropped) for f in FAMILIES if (t := self.tallies.get(f.name))},
            off=_off(report, (*self.task.families, *self.task.beside)),
            spans=self.spans,
            losses=tuple(report.admitted_losses()),
            remarks=tuple(dict.fromkeys(source.remarks)),
            members=source.members.table,
            ends=tuple(self.ends),
            anchors=self.anchors,
            sampled=(*self.sampled, *self.columns.close()),
            work=tuple(self.work),
        )


def _look_for_rounded(key: str, values: pl.Series, source: Source) -> None:
    """Remark on values that Paraver cannot tell from their neighbours."""
    low, high = values.min(), values.max()
    if isinstance(low, int) and isinstance(high, int) and not -EXACT <= low <= high <= EXACT:
        block = block_of(key)
        source.remarks.append(f"{block[1] if block else EVENT_TYPES[key].label}: Paraver rounds values beyond 2**53")


def _concerns(family: Family, report: Report) -> bool:
    """Whether the report has a table of the family's; those that only say what launched what are everybody's."""
    own = {*family.draws, *(t for t in family.reads if t not in DEVICE_WORK_READS)}
    return not own or any(map(report.holds, own))


def _all_uses(uses: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """PLACE_USE, each place of each family once."""
    every = pl.concat([pl.DataFrame(schema=PLACE_USE), *uses])
    key = ["place", "family", "makes_rows"]
    rows, first, last = pl.col("rows").sum(), pl.col("first").min(), pl.col("last").max()
    return every.group_by(key, maintain_order=True).agg(rows, first, last).select(list(PLACE_USE))


def _lasting(data: pl.DataFrame) -> pl.DataFrame:
    """Rows, first begin and last end on each place."""
    return data.group_by("place").agg(rows=pl.len(), first=pl.col("start").min(), last=pl.col("end").max())


def _reaching(data: pl.DataFrame) -> pl.DataFrame:
    """First and last time at which messages reach each place. They are rows of no place: either end hides them."""
    ends = ("place", "time"), ("to_place", "received")
    reached = pl.concat(data.select(place=p, time=t) for p, t in ends)
    return reached.group_by("place").agg(rows=pl.lit(0), first=pl.col("time").min(), last=pl.col("time").max())


def _off(report: Report, families: Sequence[str]) -> dict[str, int]:
    """Rows of each family that was not asked for; one that draws no rows of its own leaves nothing out."""
    rows = {f.name: f.rows_in(report) for f in FAMILIES if f.draws and f.name not in families}
    return {family: n for family, n in rows.items() if n}


def _measured(points: pl.DataFrame) -> tuple[str, ...]:
    return tuple(c for c in points.columns if c not in SAMPLE)
