"""Rows of a table with a time and all values that it requires."""

from __future__ import annotations

import polars as pl

from nsys2prv.model.losses import Loss, Tally
from nsys2prv.report.declaration import TIME_LIMIT, Table

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
