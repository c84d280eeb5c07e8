"""Families of activities: their declaration, and the source from which they make their frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.families import relations
from nsys2prv.families.nccl_rows import NvtxRows, nvtx_rows
from nsys2prv.families.sound_rows import sound_rows
from nsys2prv.intervals.classes import Rules
from nsys2prv.intervals.lanes import LanedIntervals, crossing_lanes
from nsys2prv.intervals.reduction_options import UNREDUCED, Reduction
from nsys2prv.intervals.shortest import end_of, ends_of
from nsys2prv.model.activities import DeviceWork, HostCall
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.event_type import EventType, TypeBlock
from nsys2prv.model.frames import EMPTY, INTERVAL, Frame, Intervals
from nsys2prv.model.interning import Labels, Members, Places, Slots, distinct_of
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.model.losses import Loss, Tally
from nsys2prv.report.declaration import Cut, Table
from nsys2prv.report.report import Report
from nsys2prv.report.tables import ReadPiece

TableColumns = Mapping[Table, tuple[str, ...]]
State = TypeVar("State")
# The frames of one slice, as they are made, and then the state for the next slice.
Frames = Generator[Frame, None, State]

# ns by which device activity may seem to begin before its call, since host and device have different clocks.
CLOCK_SLACK = 1_000_000


def stateless() -> None:
    """Return no state, for a family that needs nothing from earlier slices."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family: what it reads, what it emits, and the function that makes its frames.

    `frames(source, state)` yields the frames of one slice and returns the state for the next slice: an object of a type
    of the family's own, with all that later slices need of this one. `state()` makes the state before the first slice.
    `draws`: the tables whose rows it draws (it may read others to know more of them); `count` counts those rows in a
    report where they are not all of the tables'. `makes_rows`: whether its events give a host thread a row of its own
    (streams and metrics always have one). `default`: whether it is translated without being asked for. `public`: the
    public nsys2prv's names of it (`-t`). `seen`: whether real reports had it; else it follows NVIDIA's documentation.
    `sliced`: whether it can be given a large report slice by slice; the others are given all of their tables at once.
    `work`, `calls`: the kind of device work, or of calls of host threads, that its intervals are to the analysis.
    `within`: whether it draws nothing outside the time of the events that it is made of.
    `anchors`: true where it yields anchors between clocks when `Source.anchors` asks for them.
    """

    name: str
    title: str
    draws: tuple[Table, ...]
    reads: TableColumns
    emits: tuple[EventType | TypeBlock, ...]
    frames: Callable[[Source, Any], Frames[Any]]
    state: Callable[[], Any] = stateless
    count: Callable[[Report], int] | None = None
    makes_rows: bool = True
    default: bool = True
    public: tuple[str, ...] = ()
    seen: bool = True
    sliced: bool = False
    work: DeviceWork | None = None
    calls: HostCall | None = None
    within: bool = False
    anchors: bool = False

    def __post_init__(self) -> None:
        """Refuse a sliced family with a table without a cut: its rows would be drawn in every slice."""
        for table in (*self.draws, *self.reads) if self.sliced else ():
            if table.cut is None and (table in self.draws or table.time is not None):
                raise ValueError(
                    f"family {self.name} is sliced, but table {table.name} does not say how it is cut; "
                    "give it a cut in nsys2prv/report/schema.py, or leave out sliced=True"
                )

    def rows_in(self, report: Report) -> int:
        """Return the number of rows of a report that the family draws."""
        return self.count(report) if self.count else sum(report.rows(t) for t in self.draws)


class Slice(NamedTuple):
    """A slice of time of a report, or all of it.

    `until`: no call of later slices begins before this time (ns).
    """

    number: int = 0
    last: bool = True
    until: int = np.iinfo(np.int64).max


@dataclass
class _Current:
    """The current slice of a report: its tables and relations, and the lanes that are taken from earlier slices."""

    slice: Slice = field(default_factory=Slice)
    # Tables read, or being read on another thread: reading one takes as long as working on another.
    ahead: dict[str, ReadPiece] = field(default_factory=dict)
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    device_work: dict[str, pl.DataFrame] | None = None
    nvtx: NvtxRows | None = None
    on_streams: LanedIntervals = field(default_factory=LanedIntervals.none)
    crossing: LanedIntervals = field(default_factory=LanedIntervals.none)
    # Time of the report's last event, once it is known.
    last: int | None = None


@dataclass
class Source:
    """One report as families see it: tables read once, relations, and the numbers of places, types and labels.

    A large report comes slice by slice (see report.slicing): `go_on_to` leads to the next. Numbers and lanes go on over
    the slices. `of` gives each family a source with its own tally; the rest is shared.
    """

    report: Report
    columns: TableColumns
    # Rules of kernel classes; None: the packaged ones.
    rules: Rules | None = None
    reduction: Reduction = UNREDUCED
    limits: Limits = DEFAULT_LIMITS
    # True where anchors between clocks are wanted.
    anchors: bool = False
    # True where calls that make streams and threads wait are wanted, beside what is drawn of them.
    wait_calls: bool = False
    # True where pthread calls have an event type of their own, and are no OS calls.
    pthreads_apart: bool = False
    # Tables of the report that families with another source draw, too.
    beside: tuple[Table, ...] = ()
    places: Places = field(default_factory=Places)
    labels: Labels = field(default_factory=Labels)
    slots: Slots = field(default_factory=Slots)
    members: Members = field(default_factory=Members)
    tally: Tally = field(default_factory=Tally)
    # Rows left out of tables, whichever family reads them first.
    left_out: dict[Table, Tally] = field(default_factory=dict)
    # Tables that are read once more, whole. Their left-out rows were counted slice by slice.
    counted: frozenset[Table] = frozenset()
    # Remarks on the report for the user, as sentences.
    remarks: list[str] = field(default_factory=list)
    # Calls that put work on a device and did not fail, by process (globalPid) and kind of work.
    launches: Counter[tuple[int, DeviceKind]] = field(default_factory=Counter)
    # Processes (globalPid) and kinds of work of which work with a time was recorded.
    working: set[tuple[int, DeviceKind]] = field(default_factory=set)
    # The report's own number of an event type that a block numbers, such as a metric's id.
    preferred: dict[str, int] = field(default_factory=dict)
    # NVTX events of the whole report by globalTid, domainId and eventType (`len`), where this is a slice of it.
    all_ranges: pl.DataFrame | None = None
    _now: _Current = field(default_factory=_Current)

    def of(self, tally: Tally) -> Source:
        """Return this source for one family, whose losses go to `tally`."""
        return replace(self, tally=tally)

    @property
    def slice(self) -> Slice:
        """Return the slice of the report that the source holds."""
        return self._now.slice

    def go_on_to(self, part: Slice, ahead: dict[str, ReadPiece]) -> None:
        """Go on to a slice, whose tables are `ahead`."""
        self._go_on(part)
        self._now.ahead = ahead
        self._now.tables.clear()

    def follow(self, other: Source) -> None:
        """Go to the slice of another source of the report, and share its tables and their counts of left-out rows."""
        self._go_on(other.slice)
        self._now.ahead, self._now.tables = other._now.ahead, other._now.tables
        self.left_out, self.counted = other.left_out, other.counted

    def _go_on(self, part: Slice) -> None:
        # Not before: rows of another family in the same slice may still meet these.
        self._now.crossing = self._now.crossing.kept(self.slice.until)
        self._now.slice = part
        self._now.device_work = self._now.nvtx = None

    def table(self, table: Table) -> pl.DataFrame:
        """Return the needed columns of a table; rows that lack a needed value are left out and counted."""
        if table.name not in self._now.tables:
            again = table in self.left_out
            tally = Tally() if self._is_counted(table) else self.left_out.setdefault(table, Tally())
            if not again:
                self._count_lacking(table, tally)
            read = self._now.ahead.pop(table.name, None)
            frame = read() if read else self.report.table(table, self.columns.get(table))
            self._now.tables[table.name] = sound_rows(table, frame, tally, table.in_all_slices if again else None)
        return self._now.tables[table.name]

    def _is_counted(self, table: Table) -> bool:
        """Return True if the left-out rows of a table were counted: one that is not cut is the same in each slice."""
        cut = table.cut in (Cut.BY_TIME, Cut.BY_CALL) and self.report.has(table)
        return table in self.counted or (table in self.left_out and not cut)

    def _count_lacking(self, table: Table, tally: Tally) -> None:
        """Count the rows of a table that the export holds without needed columns, or ones that all versions have."""
        if not self.report.has(table):
            if rows := self.report.rows(table):
                tally.count(Loss.LACKS_COLUMNS, rows, table.name, ", ".join(self.report.missing(table)))
        elif lacking := self.report.lacking(table, self.columns.get(table, ())):
            tally.count(Loss.LACKS_DETAIL, self.report.rows(table), table.name, ", ".join(lacking))

    def pieces(self, table: Table, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield columns of a table of the whole report, piece by piece. Rows left out are not counted."""
        for read in self.report.pieces(table, columns, self.limits.piece_rows(len(columns))):
            yield sound_rows(table, read(), Tally())

    def release(self, table: Table) -> None:
        """Forget a table that no later family reads."""
        self._now.tables.pop(table.name, None)
        self._now.ahead.pop(table.name, None)

    def device_work(self, table: Table) -> pl.DataFrame:
        """Return rows of one of DEVICE_TABLES with `place`, and `caller`, `called` of the launching call.

        See relations.device_work.
        """
        if self._now.device_work is None:
            self._now.device_work, held = relations.device_work(
                self.table, self.places, self._now.on_streams, self.reduction.merge_streams
            )
            self._now.on_streams = held.kept(self.slice.until - CLOCK_SLACK)
        return self._now.device_work[table.name]

    def ranges(self) -> pl.DataFrame:
        """Return NVTX events with text, domain name and place: see relations.ranges."""
        return self._nvtx().ranges

    def nccl_operations(self) -> pl.DataFrame:
        """Return NVTX events that are operations of NCCL on the device: see NvtxRows."""
        return self._nvtx().operations

    def _nvtx(self) -> NvtxRows:
        if self._now.nvtx is None:
            self._now.nvtx = nvtx_rows(self.table, self.report.strings)
        return self._now.nvtx

    @property
    def last(self) -> int:
        """Return the time of the report's last event (ns), at which open intervals end."""
        if self._now.last is None:
            tables = dict.fromkeys((*self.columns, *self.beside))
            self._now.last = max((last for t in tables if (last := self.report.last(t)) is not None), default=0)
        return self._now.last

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
        place = self.places.in_lanes(frame["place"], pl.repeat(0, frame.height, dtype=pl.Int64, eager=True))
        return self._nested(place, frame, attributes)

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
