"""The points of a report: its frames cut to the chosen time, counted, turned into points, and stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from nsys2prv.families.family import Family
from nsys2prv.families.source import Slice
from nsys2prv.intervals.reduction import Averages, reduced
from nsys2prv.intervals.sampling import without_stops
from nsys2prv.model.event_types import EVENT_TYPES, GPU_METRIC, block_and_name
from nsys2prv.model.frames import Drawn, Intervals, Messages, Samples, States
from nsys2prv.model.interning import Slots
from nsys2prv.model.losses import Tally
from nsys2prv.model.schemas import to_schema
from nsys2prv.paraver.lines import EXACT
from nsys2prv.pipeline.extract.metric_files import MetricFiles
from nsys2prv.pipeline.extract.place_samples import PlaceSamples
from nsys2prv.pipeline.extract.report_part import ReportPart
from nsys2prv.pipeline.store import points
from nsys2prv.pipeline.store.combinations import pairs_of
from nsys2prv.pipeline.store.points import Points, merged_points
from nsys2prv.pipeline.store.spill import SpillOf, hold_points, write_spill
from nsys2prv.run.report_summary import PLACE_USE, Spill


@dataclass
class PointWriter:
    """A writer of the points of one report. It also counts them by place and time.

    `slots` grows meanwhile, as families go on.
    """

    part: ReportPart
    slots: Slots
    # Points to encode; intervals and messages whole, for analysis; samples of single metrics.
    spills: list[Spill] = field(default_factory=list)
    analyzed: list[Spill] = field(default_factory=list)
    metrics: MetricFiles = field(init=False)
    # PLACE_USE and SAMPLE_EDGE of each frame, rows by event type, rows by family, sentences for the user.
    uses: list[pl.DataFrame] = field(default_factory=list)
    edges: list[pl.DataFrame] = field(default_factory=list)
    rows_by_type: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    # By family and place.
    samples: dict[tuple[str, int], PlaceSamples] = field(default_factory=dict)
    # Points of the family whose frames come, until it ends.
    _to_encode: dict[SpillOf, list[Points]] = field(default_factory=dict)
    _to_analyze: dict[SpillOf, list[Points]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = MetricFiles(self.part)

    def add_frame(self, family: Family, frame: Drawn) -> None:
        """Cut a frame of a family to the chosen time, count it, and turn it into points. Raises OutputError."""
        tally = self.tallies.setdefault(family.name, Tally())
        wanted = self.part.wanted
        if wanted.points and wanted.metrics and isinstance(frame, Samples) and GPU_METRIC in family.emits:
            # Anchors and ends beyond the chosen time count, too.
            self.metrics.add_frame(frame)
        if family.name in wanted.analyzed:
            # Intervals that are too short to be drawn stay for analysis: they took time, and samples measured them.
            self._keep_whole(family, frame)
        cut = reduced(self._cut(family, frame, tally), self.part.drawing.reduction, tally)
        if cut.data.is_empty():
            return
        tally.rows += without_stops(cut.data).height if isinstance(cut, Samples) else cut.data.height
        if not wanted.points:
            self._count_frame(family, cut, None)
            return
        of, made = self._points(family, cut)
        self._count_frame(family, cut, made.combinations)
        self._to_encode.setdefault(of, []).append(made)

    def store_family(self, family: Family, present: Slice) -> None:
        """Store the points of a family after all of its frames of the present slice. Raises OutputError."""
        if present.last:
            for made in self._last_samples(family, self.tallies.setdefault(family.name, Tally())):
                of = SpillOf("samples", family.name, Samples.of(made).columns)
                self._to_encode.setdefault(of, []).append(Points(made))
        self.spills += self._stored(f"{family.name}.{present.number}", self._to_encode)
        self.analyzed += self._stored(f"{family.name}.{present.number}.whole", self._to_analyze)
        self._to_encode.clear()
        self._to_analyze.clear()

    def _cut(self, family: Family, frame: Drawn, tally: Tally) -> Drawn:
        """Cut a frame to the chosen span."""
        span = self.part.drawing.span
        if isinstance(frame, Intervals):
            return points.cut_intervals(frame, span, tally)
        if isinstance(frame, Samples):
            return self._samples_of_place(family, frame).taken(frame, tally)
        if isinstance(frame, States):
            return points.cut_states(frame, span, tally)
        return points.cut_messages(frame, span, tally)

    def _samples_of_place(self, family: Family, frame: Samples) -> PlaceSamples:
        """Return the samples so far of the place of a frame. A frame has samples of one place."""
        place = int(frame.data["place"][0]) if frame.data.height else -1
        periodic = GPU_METRIC in family.emits
        every = self.part.drawing.reduction.metrics_every if periodic else 0
        averages = Averages(every) if every else None
        return self.samples.setdefault((family.name, place), PlaceSamples(self.part.drawing.span, averages, periodic))

    def _last_samples(self, family: Family, tally: Tally) -> Iterator[pl.DataFrame]:
        """Yield the samples' points that waited for the last slice."""
        for key in [k for k in self.samples if k[0] == family.name]:
            so_far = self.samples.pop(key)
            if (rest := so_far.rest(tally)) is not None:
                tally.rows += without_stops(rest.data).height
                self._count_frame(family, rest, None)
            made, edges = so_far.points(rest, last=True)
            self.edges.append(edges)
            yield made

    def _keep_whole(self, family: Family, frame: Drawn) -> None:
        """Keep the intervals that reach into the chosen span, and messages, for analysis."""
        wanted = self.part.wanted
        if isinstance(frame, Intervals):
            frame = points.meeting(frame, None if wanted.beyond else self.part.drawing.span)
            kept = tuple(a for a in frame.attributes if a in (*points.WHOLE_ATTRIBUTES, *wanted.attributes))
            of, made = SpillOf("intervals", family.name, kept), points.whole_intervals(frame, kept)
        elif isinstance(frame, Messages):
            of, made = SpillOf("messages", family.name), points.message_points(frame)
        else:
            return
        if made.data.height:
            self._to_analyze.setdefault(of, []).append(made)

    def _points(self, family: Family, frame: Drawn) -> tuple[SpillOf, Points]:
        """Turn a frame into points."""
        if isinstance(frame, Intervals):
            made = points.event_points(frame)
            unique = tuple(a for a in frame.attributes if a in made.data.columns)
            return SpillOf("events", family.name, unique), made
        if isinstance(frame, Samples):
            changed, edges = self._samples_of_place(family, frame).points(frame, last=False)
            self.edges.append(edges)
            return SpillOf("samples", family.name, Samples.of(changed).columns), Points(changed)
        if isinstance(frame, States):
            return SpillOf("states", family.name), points.state_points(frame)
        return SpillOf("messages", family.name), points.message_points(frame)

    def _count_frame(self, family: Family, frame: Drawn, common: pl.DataFrame | None) -> None:
        """Count a drawn frame. `common`: the combinations of events, which are quicker to count."""
        data = frame.data
        if isinstance(frame, Intervals):
            self._count_types(frame, common)
            spans = _lasting(data)
        elif isinstance(frame, States):
            spans = _lasting(data)
        elif isinstance(frame, Samples):
            data = without_stops(data)
            for c in frame.columns:
                self._count_type(c, data[c].count())
                self._look_for_rounded(c, data[c])
            spans = data.group_by("place").agg(rows=pl.len(), first=pl.col("time").min(), last=pl.col("time").max())
        else:
            spans = _reaching(data)
        use = spans.with_columns(family=pl.lit(family.name), makes_rows=pl.lit(family.makes_rows))
        self.uses.append(to_schema(use, PLACE_USE))

    def _count_types(self, frame: Intervals, common: pl.DataFrame | None) -> None:
        """Count the intervals and the attributes of a frame by their event types."""
        data = frame.data
        by_slot = data.group_by("slot").len() if common is None else common.group_by("slot").agg(pl.sum("intervals"))
        for slot, rows in by_slot.rows():
            self._count_type(self.slots.keys[slot], rows)
        counted = {} if common is None else pairs_of(common)
        for a in frame.attributes:
            values = data[a] if common is None or a not in counted else common[a]
            self._count_type(a, counted[a] if a in counted else int(values.ne(0).sum()))
            self._look_for_rounded(a, values)

    def _count_type(self, key: str, rows: int) -> None:
        self.rows_by_type[key] = self.rows_by_type.get(key, 0) + rows

    def _look_for_rounded(self, key: str, values: pl.Series) -> None:
        """Remark on values that Paraver cannot tell from their neighbors."""
        low, high = values.min(), values.max()
        if isinstance(low, int) and isinstance(high, int) and not -EXACT <= low <= high <= EXACT:
            block = block_and_name(key)
            self.remarks.append(f"{block[1] if block else EVENT_TYPES[key].label}: Paraver rounds values beyond 2**53")

    def _stored(self, name: str, made: Mapping[SpillOf, list[Points]]) -> Iterator[Spill]:
        """Store points, merged by kind and columns, in files whose names begin with `name`."""
        storage = self.part.storage
        store = hold_points if storage.in_memory else write_spill
        for number, (of, frames) in enumerate(made.items()):
            merged = merged_points(frames)
            if storage.folder is not None and merged.data.height:
                path = storage.folder / f"{storage.name}.{name}.{number}.arrow"
                yield store(path, of, merged, self.part.limits.batch_rows)


def _lasting(data: pl.DataFrame) -> pl.DataFrame:
    """Return rows, first begin and last end on each place."""
    return data.group_by("place").agg(rows=pl.len(), first=pl.col("start").min(), last=pl.col("end").max())


def _reaching(data: pl.DataFrame) -> pl.DataFrame:
    """Return the first and last time of messages at each place. Messages are not counted as rows of a place."""
    ends = ("place", "time"), ("to_place", "received")
    reached = pl.concat(data.select(place=p, time=t) for p, t in ends)
    return reached.group_by("place").agg(rows=pl.lit(0), first=pl.col("time").min(), last=pl.col("time").max())
