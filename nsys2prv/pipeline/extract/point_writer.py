"""What is made of a report's frames: cut to the chosen time, counted, turned into points, spilled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from nsys2prv.families.family import Family, Slice
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.intervals.reduction import Averages, reduced
from nsys2prv.model.event_types import EVENT_TYPES, GPU_METRIC, block_of
from nsys2prv.model.frames import SAMPLE, Drawn, Intervals, Samples, States
from nsys2prv.model.interning import Slots
from nsys2prv.model.losses import Tally
from nsys2prv.paraver.lines import EXACT
from nsys2prv.pipeline.extract.metric_files import MetricFiles
from nsys2prv.pipeline.extract.samples import SampleRun
from nsys2prv.pipeline.extract.task import ExtractTask
from nsys2prv.pipeline.store import points
from nsys2prv.pipeline.store.combinations import Points, merged_points, pairs_of
from nsys2prv.pipeline.store.spill import hold_points, write_spill
from nsys2prv.run.report_summary import PLACE_USE, Kind, Spill


@dataclass
class Spilled:
    """Spills of a report, and what their frames say beside. `slots` grows meanwhile, as families go on."""

    task: ExtractTask
    slots: Slots
    spills: list[Spill] = field(default_factory=list)
    metrics: MetricFiles = field(init=False)
    work: list[Spill] = field(default_factory=list)
    uses: list[pl.DataFrame] = field(default_factory=list)
    edges: list[pl.DataFrame] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    runs: dict[tuple[str, int], SampleRun] = field(default_factory=dict)
    # Points of the family whose frames come, until it ends.
    _made: dict[tuple[Kind, tuple[str, ...]], list[Points]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = MetricFiles(self.task)

    def take(self, family: Family, frame: Drawn) -> None:
        """A frame of a family. Raises OutputError."""
        tally = self.tallies.setdefault(family.name, Tally())
        if self.task.estimates and isinstance(frame, Samples) and family.name == GPU_METRICS.name:
            # Those beyond the chosen time, too.
            self.metrics.add_frame(frame)
        if self.task.estimates and isinstance(frame, Intervals) and family.work:
            # What is too short to be drawn, too: the samples measured it.
            self._keep_work(family, frame)
        cut = reduced(self._cut(family, frame, tally), self.task.less, tally)
        if cut.data.is_empty():
            return
        tally.rows += cut.data.height
        if family.name in self.task.timed:
            self._count(family, cut, None)
            return
        kind, columns, made = self._points(family, cut)
        self._count(family, cut, made.combinations)
        self._made.setdefault((kind, columns), []).append(made)

    def end(self, family: Family, part: Slice) -> None:
        """All frames of a family in a slice of the report were taken. Raises OutputError."""
        if part.last:
            for made in self._last_samples(family, self.tallies.setdefault(family.name, Tally())):
                self._made.setdefault(("samples", _measured(made)), []).append(Points(made))
        for number, ((kind, columns), parts) in enumerate(self._made.items()):
            self._spill(f"{family.name}.{part.number}.{number}", family.name, kind, columns, parts)
        self._made.clear()

    def _cut(self, family: Family, frame: Drawn, tally: Tally) -> Drawn:
        """What lies within the chosen span."""
        span = self.task.span
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

    def _last_samples(self, family: Family, tally: Tally) -> Iterator[pl.DataFrame]:
        """Points that were kept back until no slice can hold more samples."""
        for key in [k for k in self.runs if k[0] == family.name]:
            run = self.runs.pop(key)
            if (rest := run.rest(tally)) is not None:
                tally.rows += rest.data.height
                self._count(family, rest, None)
            made, edges = run.points(rest, last=True)
            self.edges.append(edges)
            yield made

    def _keep_work(self, family: Family, frame: Intervals) -> None:
        """Spill what runs on devices within the chosen time, whole, for estimates."""
        frame = points.meeting(frame, self.task.span)
        if self.task.folder is None or frame.data.is_empty():
            return
        kept = tuple(a for a in frame.attributes if a in points.WORK_ATTRIBUTES)
        path = self.task.folder / f"{self.task.name}.{family.name}.work{len(self.work)}.arrow"
        self.work.append(write_spill(path, "events", family.name, points.whole(frame, kept), kept))

    def _points(self, family: Family, frame: Drawn) -> tuple[Kind, tuple[str, ...], Points]:
        if self.task.whole and isinstance(frame, Intervals):
            kept = tuple(a for a in frame.attributes if a in points.WHOLE_ATTRIBUTES)
            return "events", kept, points.whole(frame, kept)
        if isinstance(frame, Intervals):
            made = points.event_points(frame)
            return "events", tuple(a for a in frame.attributes if a in made.data.columns), made
        if isinstance(frame, Samples):
            changed, edges = self._run(family, frame).points(frame, last=False)
            self.edges.append(edges)
            return "samples", _measured(changed), Points(changed)
        if isinstance(frame, States):
            return "states", (), points.state_points(frame)
        return "messages", (), points.message_points(frame)

    def _count(self, family: Family, frame: Drawn, common: pl.DataFrame | None) -> None:
        """`common`: the combinations of events, from which they are counted sooner."""
        data = frame.data
        if isinstance(frame, Intervals):
            self._count_events(frame, common)
            spans = _lasting(data)
        elif isinstance(frame, States):
            spans = _lasting(data)
        elif isinstance(frame, Samples):
            for c in frame.columns:
                self._use(c, data[c].count())
                self._look_for_rounded(c, data[c])
            spans = data.group_by("place").agg(rows=pl.len(), first=pl.col("time").min(), last=pl.col("time").max())
        else:
            spans = _reaching(data)
        use = spans.with_columns(family=pl.lit(family.name), makes_rows=pl.lit(family.makes_rows))
        self.uses.append(use.select(pl.col(c).cast(t) for c, t in PLACE_USE.items()))

    def _count_events(self, frame: Intervals, common: pl.DataFrame | None) -> None:
        data = frame.data
        by_slot = data.group_by("slot").len() if common is None else common.group_by("slot").agg(pl.sum("intervals"))
        for slot, rows in by_slot.rows():
            self._use(self.slots.keys[slot], rows)
        counted = {} if common is None else pairs_of(common)
        for a in frame.attributes:
            values = data[a] if common is None or a not in counted else common[a]
            self._use(a, counted[a] if a in counted else int(values.ne(0).sum()))
            self._look_for_rounded(a, values)

    def _use(self, key: str, rows: int) -> None:
        self.used[key] = self.used.get(key, 0) + rows

    def _look_for_rounded(self, key: str, values: pl.Series) -> None:
        """Remark on values that Paraver cannot tell from their neighbours."""
        low, high = values.min(), values.max()
        if isinstance(low, int) and isinstance(high, int) and not -EXACT <= low <= high <= EXACT:
            block = block_of(key)
            self.remarks.append(f"{block[1] if block else EVENT_TYPES[key].label}: Paraver rounds values beyond 2**53")

    def _spill(self, name: str, family: str, kind: Kind, columns: tuple[str, ...], parts: list[Points]) -> None:
        made = merged_points(parts)
        if self.task.folder is None or made.data.is_empty():
            return
        path = self.task.folder / f"{self.task.name}.{name}.arrow"
        keep = hold_points if self.task.hold else write_spill
        self.spills.append(keep(path, kind, family, made, columns))


def _lasting(data: pl.DataFrame) -> pl.DataFrame:
    """Rows, first begin and last end on each place."""
    return data.group_by("place").agg(rows=pl.len(), first=pl.col("start").min(), last=pl.col("end").max())


def _reaching(data: pl.DataFrame) -> pl.DataFrame:
    """First and last time at which messages reach each place. They are rows of no place: either end hides them."""
    ends = ("place", "time"), ("to_place", "received")
    reached = pl.concat(data.select(place=p, time=t) for p, t in ends)
    return reached.group_by("place").agg(rows=pl.lit(0), first=pl.col("time").min(), last=pl.col("time").max())


def _measured(points: pl.DataFrame) -> tuple[str, ...]:
    return tuple(c for c in points.columns if c not in SAMPLE)
