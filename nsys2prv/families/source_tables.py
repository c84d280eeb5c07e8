"""The tables of one report as families read them, whole or slice by slice, without the rows that cannot be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.model.losses import Loss, Tally
from nsys2prv.report.declaration import TIME_LIMIT, Cut, Table
from nsys2prv.report.report import Report
from nsys2prv.report.tables import ReadPiece

TIME_COLUMNS = ("start", "end", "timestamp")


def sound_rows(
    table: Table, frame: pl.DataFrame, tally: Tally, again: tuple[str, tuple[int, ...]] | None = None
) -> pl.DataFrame:
    """Keep rows with a time and all required values. A row that lacks its end ends at its start.

    Rows of a table that may have the time elsewhere stay without it. `again`: a column, and its values in rows that
    were counted with an earlier slice.
    """
    if again is not None:
        every = Tally()
        sound = sound_rows(table, frame, every)
        if every.dropped:
            column, values = again
            sound_rows(table, frame.filter(~pl.col(column).is_in(values).fill_null(False)), tally)
        return sound
    times = [c for c in TIME_COLUMNS if c in frame.columns]
    begins = [c for c in times if c != "end" and table.other_time is None]
    required = [c for c in frame.columns if table.columns[c].required or c in begins]
    if table.zero_is_no_time and _least(frame["start"]) <= 0:
        dated = frame.filter((pl.col("start") != 0) | (pl.col("end") != 0))
        tally.count(Loss.NO_TIME, frame.height - dated.height)
        frame = dated
    # Mostly nothing is wrong, and a quick check takes a sixth of the time, or less.
    if all(_is_plausible(frame[c]) for c in times) and not any(frame[c].null_count() for c in required):
        return frame
    limited = (pl.when(pl.col(c).is_between(-TIME_LIMIT, TIME_LIMIT)).then(pl.col(c)) for c in times)
    limited_rows = frame.with_columns(limited)
    timed = limited_rows.drop_nulls(begins) if begins else limited_rows
    tally.count(Loss.NO_TIME, frame.height - timed.height)
    needed = [c for c in frame.columns if table.columns[c].required and c not in times]
    whole = timed.drop_nulls(needed) if needed else timed
    tally.count(Loss.INCOMPLETE, timed.height - whole.height, " or ".join(needed))
    if "end" in times and table.columns["end"].required:
        tally.count(Loss.NO_END, whole["end"].null_count())
        whole = whole.with_columns(pl.col("end").fill_null(pl.col("start")))
    return whole


def _least(times: pl.Series) -> int:
    """Return the earliest of these times; 1 if there is none."""
    low = times.min()
    return low if isinstance(low, int) else 1


def _is_plausible(times: pl.Series) -> bool:
    """Return True if all of these times are possible."""
    low, high = times.min(), times.max()
    return not isinstance(low, int) or not isinstance(high, int) or -TIME_LIMIT <= low <= high <= TIME_LIMIT


TableColumns = Mapping[Table, tuple[str, ...]]


@dataclass
class SourceTables:
    """The tables of the present slice of a report: each is read once, for all families.

    `columns`: those that are read of each table; `beside`: tables that families with another source draw, too.
    """

    report: Report
    columns: TableColumns
    beside: tuple[Table, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    # Rows left out of each table, whichever family reads it first.
    left_out: dict[Table, Tally] = field(default_factory=dict)
    # Tables whose left-out rows were counted slice by slice, and that are now read once more, whole.
    counted: frozenset[Table] = frozenset()
    # Tables of the present slice by name, read or being read on another thread: reading one takes as long as working on
    # another.
    _read: dict[str, pl.DataFrame] = field(default_factory=dict)
    _ahead: dict[str, ReadPiece] = field(default_factory=dict)
    _last: int | None = None

    def go_on_to(self, ahead: dict[str, ReadPiece]) -> None:
        """Forget all tables, and go on to those of the next slice, of which some are being read."""
        self._ahead = ahead
        self._read.clear()

    def table(self, table: Table) -> pl.DataFrame:
        """Return the needed columns of a table; rows that lack a needed value are left out and counted."""
        if table.name not in self._read:
            again = table in self.left_out
            tally = Tally() if self._is_counted(table) else self.left_out.setdefault(table, Tally())
            if not again:
                self._count_lacking(table, tally)
            read = self._ahead.pop(table.name, None)
            frame = read() if read else self.report.table(table, self.columns.get(table))
            self._read[table.name] = sound_rows(table, frame, tally, table.in_all_slices if again else None)
        return self._read[table.name]

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
        self._read.pop(table.name, None)
        self._ahead.pop(table.name, None)

    @property
    def last(self) -> int:
        """Return the time of the report's last event (ns)."""
        if self._last is None:
            tables = dict.fromkeys((*self.columns, *self.beside))
            self._last = max((last for t in tables if (last := self.report.last(t)) is not None), default=0)
        return self._last
