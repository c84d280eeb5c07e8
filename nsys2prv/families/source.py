"""One report as families see it: what they read, and how they make frames of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.families.device_work import device_work
from nsys2prv.families.nvtx_events import NvtxEvents, read_nvtx_events
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.intervals.classes import Rules
from nsys2prv.intervals.lanes import LanedIntervals, crossing_lanes
from nsys2prv.intervals.reduction_options import UNREDUCED, Reduction
from nsys2prv.intervals.shortest import end_of, ends_of
from nsys2prv.model.device_kinds import DeviceKind, LaunchCount
from nsys2prv.model.frames import EMPTY, INTERVAL, Intervals
from nsys2prv.model.interning import Labels, Members, Places, Slots, distinct_of
from nsys2prv.model.losses import Loss, Tally
from nsys2prv.report.declaration import Table
from nsys2prv.report.report import Report
from nsys2prv.report.tables import ReadPiece

# ns by which device activity may seem to begin before its call, since host and device have different clocks.
CLOCK_SLACK = 1_000_000


class Slice(NamedTuple):
    """A slice of time of a report, or all of it.

    `until`: no call of later slices begins before this time (ns). `range_counts`: NVTX events of the whole report by
    globalTid, domainId and eventType (`len`), where this is but a slice of it.
    """

    number: int = 0
    last: bool = True
    until: int = np.iinfo(np.int64).max
    range_counts: pl.DataFrame | None = None


class FamilyOptions(NamedTuple):
    """Options of a report that change what families make.

    `rules`: of kernel classes (None: the packaged ones). `anchors`: make anchors between clocks, too. `wait_calls`:
    yield calls that make streams and threads wait, beside what is drawn of them. `pthreads_apart`: pthread calls have
    an event type of their own, and are no OS calls.
    """

    rules: Rules | None = None
    reduction: Reduction = UNREDUCED
    anchors: bool = False
    wait_calls: bool = False
    pthreads_apart: bool = False


@dataclass
class ReportNotes:
    """Notes that families take of a whole report beside their frames, for its summary."""

    # Remarks for the user, as sentences.
    remarks: list[str] = field(default_factory=list)
    # Calls that put work on a device and did not fail, by process (globalPid) and kind of work.
    launches: dict[tuple[int, DeviceKind], LaunchCount] = field(default_factory=dict)
    # Processes (globalPid) and kinds of work of which work with a time was recorded.
    working: set[tuple[int, DeviceKind]] = field(default_factory=set)
    # The report's own number of an event type that a block numbers, such as a metric's id.
    preferred: dict[str, int] = field(default_factory=dict)


@dataclass
class _Current:
    """The current slice of a report: its device work, its NVTX events, and the lanes taken from earlier slices."""

    slice: Slice = field(default_factory=Slice)
    device_work: dict[str, pl.DataFrame] | None = None
    nvtx: NvtxEvents | None = None
    on_streams: LanedIntervals = field(default_factory=LanedIntervals.none)
    crossing: LanedIntervals = field(default_factory=LanedIntervals.none)


@dataclass
class Source:
    """One report as families see it.

    A large report comes slice by slice (see report.slicing): `go_on_to` leads to the next. Numbers, lanes and notes go
    on over the slices. `for_family` gives each family a source with its own tally; the rest is shared.
    """

    # What families read: by `table`, `ranges`, `device_work`.
    tables: SourceTables
    options: FamilyOptions = field(default_factory=FamilyOptions)
    # The report's numbers of places, texts, event types and members of communicators, given as families meet them.
    places: Places = field(default_factory=Places)
    labels: Labels = field(default_factory=Labels)
    slots: Slots = field(default_factory=Slots)
    members: Members = field(default_factory=Members)
    # Rows that the family leaves out or alters.
    tally: Tally = field(default_factory=Tally)
    notes: ReportNotes = field(default_factory=ReportNotes)
    _now: _Current = field(default_factory=_Current)

    def for_family(self, tally: Tally) -> Source:
        """Return this source for one family, whose losses go to `tally`."""
        return replace(self, tally=tally)

    def for_anchors(self) -> Source:
        """Return a source of the same tables with numbers and notes of its own, to look for anchors alone."""
        return Source(self.tables, FamilyOptions(rules=self.options.rules, anchors=True))

    @property
    def report(self) -> Report:
        """Return the report."""
        return self.tables.report

    @property
    def slice(self) -> Slice:
        """Return the slice of the report that the source holds."""
        return self._now.slice

    @property
    def last(self) -> int:
        """Return the time of the report's last event (ns), at which open intervals end."""
        return self.tables.last

    def go_on_to(self, present: Slice, ahead: dict[str, ReadPiece]) -> None:
        """Go on to a slice. `ahead`: those of its tables that are being read."""
        self.follow(present)
        self.tables.go_on_to(ahead)

    def follow(self, present: Slice) -> None:
        """Go on to a slice to which another source has gone with the tables of both."""
        # Not before: rows of another family in the same slice may still meet these.
        self._now.crossing = self._now.crossing.kept(self.slice.until)
        self._now.slice = present
        self._now.device_work = self._now.nvtx = None

    def table(self, table: Table) -> pl.DataFrame:
        """Return the needed columns of a table; rows that lack a needed value are left out and counted."""
        return self.tables.table(table)

    def pieces(self, table: Table, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield columns of a table of the whole report, piece by piece. Rows left out are not counted."""
        return self.tables.pieces(table, columns)

    def device_work(self, table: Table) -> pl.DataFrame:
        """Return rows of one of DEVICE_TABLES with `place`, and `caller`, `called` of the launching call.

        See the module `device_work`.
        """
        if self._now.device_work is None:
            self._now.device_work, held = device_work(
                self.table, self.places, self._now.on_streams, self.options.reduction.merge_streams
            )
            self._now.on_streams = held.kept(self.slice.until - CLOCK_SLACK)
        return self._now.device_work[table.name]

    def ranges(self) -> pl.DataFrame:
        """Return NVTX events with text, domain name and place: see NvtxEvents."""
        return self._nvtx().ranges

    def nccl_operations(self) -> pl.DataFrame:
        """Return NVTX events that are operations of NCCL on the device: see NvtxEvents."""
        return self._nvtx().operations

    def _nvtx(self) -> NvtxEvents:
        if self._now.nvtx is None:
            self._now.nvtx = read_nvtx_events(self.table, self.report.strings)
        return self._now.nvtx

    def texts(self, ids: pl.Series) -> pl.Series:
        """Return texts of StringIds; an id without a string reads `string <id>`."""
        texts = self.report.texts(ids)
        if not texts.null_count():
            return texts
        rows = pl.DataFrame({"id": ids, "text": texts})
        return rows.select(pl.coalesce("text", pl.format("string {}", "id")).alias("text"))["text"]

    def count_missing_texts(self, ids: pl.Series) -> None:
        """Count the rows whose id StringIds lacks. The loss quotes the name of the series, such as `textId`."""
        distinct, at = distinct_of(ids)
        lacking = self.report.lacks_strings(distinct)
        if lacking.any():
            self.tally.count(Loss.NO_STRING, int(lacking.gather(at).sum()), ids.name)

    def label_ids(self, key: str, ids: pl.Series, clean: Callable[[pl.Expr], pl.Expr] | None = None) -> pl.Series:
        """Return label numbers of StringIds under an event type's key; `clean` turns the text into the label.

        Rows whose id StringIds lacks are counted.
        """
        self.count_missing_texts(ids)
        distinct, at = distinct_of(ids)
        texts = self.texts(distinct)
        if clean is not None:
            texts = pl.DataFrame({"text": texts}).select(clean(pl.col("text")))["text"]
        return self.labels.ids(key, texts).gather(at).alias("label")

    def slot(self, key: str) -> pl.Expr:
        """Return the column `slot` of intervals of one event type, given its key."""
        return pl.lit(self.slots.number(key)).alias("slot")

    def intervals(self, frame: pl.DataFrame, attributes: tuple[str, ...] = ()) -> Intervals:
        """Make intervals from a frame with start, end, place, slot, value; an empty or negative one lasts 1 ns.

        Where any is empty, the column EMPTY says which: analysis counts no time of it.
        """
        length = frame["end"] - frame["start"]
        self.tally.count(Loss.NEGATIVE, int((length < 0).sum()))
        types: dict[str, pl.DataType] = {**INTERVAL, **dict.fromkeys(attributes, pl.Int64())}
        values = {c: pl.col(c) for c in types} | {"end": end_of()}
        if (empty := length <= 0).any():
            types, values = types | {EMPTY: pl.Boolean()}, values | {EMPTY: pl.lit(empty)}
        return Intervals(frame.select(value.cast(types[c]).alias(c) for c, value in values.items()), attributes)

    def thread_intervals(self, frame: pl.DataFrame, attributes: tuple[str, ...] = ()) -> Intervals:
        """Make intervals on host threads from a frame with start, end, globalTid, slot, value.

        Intervals of one thread and event type that cross, instead of nesting, go to a further lane.
        """
        self.tally.count(Loss.ROW_OF_NO_THREAD, frame["globalTid"].null_count())
        place = self.places.threads(frame["globalTid"].fill_null(0))
        return self._nested(place, frame, attributes)

    def stream_intervals(self, frame: pl.DataFrame, attributes: tuple[str, ...]) -> Intervals:
        """Make intervals on streams from a frame with start, end, place, slot, value.

        Intervals of one stream and event type that cross, instead of nesting, go to a further lane.
        """
        return self._nested(self.places.in_first_lane(frame["place"]), frame, attributes)

    def _nested(self, place: pl.Series, frame: pl.DataFrame, attributes: tuple[str, ...]) -> Intervals:
        """Make intervals on places. Intervals that cross go to further lanes."""
        lane = self._nesting_lanes(place, frame)
        if lane.any():
            place = self.places.in_lanes(place, pl.Series(lane))
        return self.intervals(frame.with_columns(place.alias("place")), attributes)

    def _nesting_lanes(self, place: pl.Series, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return lanes in which intervals of one place and event type nest, with those open from earlier slices."""
        group = place.cast(pl.Int64).to_numpy() << 16 | frame["slot"].cast(pl.Int64).to_numpy()
        start = frame["start"].to_numpy()
        end = ends_of(start, frame["end"].to_numpy())
        own = self._now.crossing.of(group)
        lane = crossing_lanes(group, start, end, own)
        if not self.slice.last:
            here = LanedIntervals(group, start, end, lane).kept(self.slice.until)
            self._now.crossing = self._now.crossing.and_more(here)
        return lane


def after(earlier: pl.DataFrame | None, frame: pl.DataFrame) -> pl.DataFrame:
    """Prepend the rows kept from earlier slices."""
    return frame if earlier is None else pl.concat([earlier, frame])
