"""PRV lines by columns, and their order.

Every line is `kind:cpu:1:task:thread:time:tail`. Lines are sorted by time. At one time ends come before begins, the end
of the shorter interval and the begin of the longer one first. Row, type, value and the rest of the line decide what is
still equal.

Lines are made by the thread that asks for them (`select_seq`): several windows are under way at a time, and handing a
query to Polars' own threads and back takes 50 to 100 us.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

# Least number that a column can hold.
LEAST = np.iinfo(np.int64).min
STATE_RECORD, EVENT_RECORD, MESSAGE_RECORD = 1, 2, 3
# Paraver takes times and values for doubles: up to here they are exact.
EXACT = 2**53
# Below this number of points, finding their distinct numbers takes longer than making a text of each.
FEW_POINTS = 4000
# Columns of a line that order it. `order` is the length of an interval, negative at its begin.
LINE = {
    "time": pl.Int64(),
    "phase": pl.UInt8(),
    "order": pl.Int64(),
    "row": pl.Int64(),
    "type": pl.Int64(),
    "value": pl.Int64(),
    "kind": pl.UInt8(),
    "tail": pl.String(),
}
WRITTEN = ("kind", "row", "time", "tail")
# Columns of lines that have no end, length, type or value of their own.
_BEGIN, _ZERO = pl.lit(1, pl.UInt8), pl.lit(0, pl.Int64)
_LINE_ORDER = ("time", "phase", "order", "row", "type", "value", "kind", "tail")


class RowNumbers(NamedTuple):
    """The CPU, task and thread of each row of a trace, by which its lines name the row (all from 1 on)."""

    cpu: npt.NDArray[np.int64]
    task: npt.NDArray[np.int64]
    thread: npt.NDArray[np.int64]

    def as_text(self) -> pl.Series:
        """Return `cpu:1:task:thread` of each row."""
        rows = pl.DataFrame({"cpu": self.cpu, "appl": 1, "task": self.task, "thread": self.thread})
        return rows.select(pl.concat_str(pl.all(), separator=":")).to_series()


def event_lines(points: pl.DataFrame, combinations: pl.DataFrame, pairs: Mapping[str, int]) -> pl.DataFrame:
    """Make lines (LINE) of points with time, phase, length, row, `combination`, and columns of further values.

    `combinations` has type, value and columns of further values, in the rows that the points' numbers name: the common
    part of many points becomes a text once. `pairs` names the event types of further values; null is not written.
    """
    at = points["combination"]
    parts: list[pl.Expr] = []
    common = [_written(combinations, "type"), _written(combinations, "value", ":")]
    for column in _in_order(pairs):
        if column in combinations.columns:
            common.append(_pair(combinations, column, pairs))
        else:
            parts += [*_gathered(combinations, common, at), _pair(points, column, pairs)]
            common = []
    parts += _gathered(combinations, common, at)
    begins = pl.col("phase") > 0
    order = pl.when(begins).then(-pl.col("length")).otherwise(pl.col("length"))
    tail = parts[0] if len(parts) == 1 else pl.concat_str(parts)
    of_type, value = (pl.lit(combinations[column].gather(at)) for column in ("type", "value"))
    return _lines(points, EVENT_RECORD, tail, phase=pl.col("phase"), order=order, of_type=of_type, value=value)


def _gathered(combinations: pl.DataFrame, common: Sequence[pl.Expr], at: pl.Series) -> list[pl.Expr]:
    """Return the texts of combinations for each point; none where no column is common."""
    return [pl.lit(combinations.select_seq(pl.concat_str(common)).to_series().gather(at))] if common else []


def sample_lines(points: pl.DataFrame, pairs: Mapping[str, int]) -> pl.DataFrame:
    """Make lines (LINE) of points with time, row and columns of values, one line a time; null is not written."""
    in_order = _in_order(pairs)
    measured = (c for c in in_order if points[c].null_count() < points.height)
    joined = pl.concat_str(pl.lit(""), *(_pair(points, c, pairs) for c in measured)).str.slice(1)
    first_type = pl.coalesce(pl.when(pl.col(c).is_not_null()).then(pairs[c]) for c in in_order)
    return _lines(points, EVENT_RECORD, joined, of_type=first_type.cast(pl.Int64), value=pl.coalesce(in_order))


def state_lines(points: pl.DataFrame) -> pl.DataFrame:
    """Make lines (LINE) of states with time, end, row, state."""
    tail = pl.concat_str(["end", "state"], separator=":")
    return _lines(points, STATE_RECORD, tail, order=pl.col("time") - pl.col("end"), value=pl.col("state"))


def message_lines(points: pl.DataFrame, numbers: RowNumbers) -> pl.DataFrame:
    """Make lines (LINE) of messages with time, row, received, to_row, size, tag."""
    receiver = numbers.as_text().gather(points["to_row"])
    received = points["received"].cast(pl.String)
    fields = [points["time"], receiver, received, received, number_texts(points["size"]), number_texts(points["tag"])]
    return _lines(points, MESSAGE_RECORD, pl.concat_str(map(pl.lit, fields), separator=":"))


def _lines(
    points: pl.DataFrame,
    kind: int,
    tail: pl.Expr,
    *,
    phase: pl.Expr = _BEGIN,
    order: pl.Expr = _ZERO,
    of_type: pl.Expr = _ZERO,
    value: pl.Expr = _ZERO,
) -> pl.DataFrame:
    """Make lines (LINE) of one kind of points with time and row, from expressions of their other columns."""
    return points.select_seq(
        "time",
        phase.alias("phase"),
        order.alias("order"),
        "row",
        of_type.alias("type"),
        value.alias("value"),
        pl.lit(kind, pl.UInt8).alias("kind"),
        tail=tail,
    )


def _in_order(pairs: Mapping[str, int]) -> list[str]:
    return sorted(pairs, key=lambda c: pairs[c])


def _pair(rows: pl.DataFrame, column: str, pairs: Mapping[str, int]) -> pl.Expr:
    """Return `:type:value` of each row; the empty text where it is null."""
    return _written(rows, column, f":{pairs[column]}:")


def _written(points: pl.DataFrame, column: str, before: str = "") -> pl.Expr:
    """Return the number of each row behind `before`; the empty text where it is null."""
    if points.height < FEW_POINTS:
        return pl.concat_str(pl.lit(before), column).fill_null("")
    return pl.lit(number_texts(points[column], before))


def number_texts(values: pl.Series, before: str = "") -> pl.Series:
    """Write the number (Int64) of each row behind `before`; the empty text where it is null.

    Where numbers lie close together, each is made a text once: some seven times as quick as once a row.
    """
    low, high = values.min(), values.max()
    if not isinstance(low, int) or not isinstance(high, int) or high - low > len(values) or low == LEAST:
        return pl.select(pl.concat_str(pl.lit(before), values).fill_null("")).to_series()
    null = low - 1
    nulls = values.null_count() > 0
    at = (values.fill_null(null) if nulls else values).to_numpy() - null
    held = np.zeros(high - null + 1, dtype=np.bool_)
    held[at] = True
    distinct = pl.lit(pl.Series(np.flatnonzero(held) + null))
    written = pl.concat_str(pl.lit(before), distinct)
    if nulls:
        written = pl.when(distinct != null).then(written).otherwise(pl.lit(""))
    number = np.cumsum(held, dtype=np.uint32) - 1
    # One query: starting a second one would cost more than its work.
    return pl.select(written.gather(pl.Series(number[at]))).to_series()


def sort_lines(parts: Iterable[pl.DataFrame], kept: Sequence[str] = WRITTEN) -> pl.DataFrame:
    """Sort all lines in the order of a body. `kept`: the columns that are still needed."""
    # In one piece: to gather texts out of several takes two to three times as long.
    lines = pl.concat(parts, rechunk=True)
    # By time alone first: that is quick where the parts are in its order, and few lines share theirs.
    times = lines["time"].to_numpy()
    order = np.argsort(times, kind="stable")
    time = times[order]
    again = time[1:] == time[:-1]
    tied = np.flatnonzero(np.append(again, False) | np.append(False, again))
    order[tied] = order[tied][lines[order[tied]].select(pl.arg_sort_by(_LINE_ORDER)).to_series()]
    return lines.select(kept).select(pl.all().gather(order))


def write_lines(lines: pl.DataFrame, numbers: RowNumbers, sink: IO[bytes]) -> None:
    """Write sorted lines (WRITTEN) as text."""
    objects = numbers.as_text().gather(lines["row"])
    body = pl.DataFrame([lines["kind"], objects.alias("objects"), lines["time"], lines["tail"]])
    body.write_csv(sink, include_header=False, separator=":", quote_style="never", line_terminator="\n")
