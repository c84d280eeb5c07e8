"""Intervals in frames: cut to a time, covered time by group, joined and parted rows. Times are int64 ns."""

from __future__ import annotations

import polars as pl

from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Spans, intersection, time_in, union


def covered(frame: pl.DataFrame, window: Spans | None = None) -> Spans:
    """Return the union of the intervals of a frame (start, end) inside a window."""
    spans = union(frame["start"].to_numpy(), frame["end"].to_numpy())
    return spans if window is None else intersection(spans, window)


def covered_by(axis: Axis, frame: pl.DataFrame, column: str, window: Spans | None = None) -> Spans:
    """Return the union of the intervals of a frame, inside a window, for each value of an integer column by itself.

    The values are the groups of the axis, on which the spans lie.
    """
    spans = axis.union(*(frame[c].to_numpy() for c in (column, "start", "end")))
    return spans if window is None else intersection(spans, axis.spread(window))


def covered_time(chosen: pl.Expr | None = None) -> pl.Expr:
    """Return the time (ns) that the union of the intervals of a group covers, or of the `chosen` ones, to aggregate by.

    The rows come in order of start.
    """
    start, end = (pl.col(c) if chosen is None else pl.col(c).filter(chosen) for c in ("start", "end"))
    # An interval adds the time behind the latest end of the intervals before it.
    return (end - pl.max_horizontal(start, end.cum_max().shift(1))).clip(lower_bound=0).sum()


def at_longest(time: str | pl.Expr, at: str = "start") -> pl.Expr:
    """Return the instant `at` of the longest `time` of a group, of equal ones the latest, to aggregate by."""
    return pl.col(at).sort_by(time, at).last()


def known_sum(column: str) -> pl.Expr:
    """Return the sum of the known values of a column, null where none is known, to aggregate by."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum()).alias(column)


def length() -> pl.Expr:
    """Return the recorded length (ns) of each row of WORK."""
    return (pl.col("end") - pl.col("start")) * ~pl.col("instant")


def cut_to(frame: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Return the intervals that touch [low, high), cut at its borders."""
    kept = frame.filter((pl.col("end") > low) & (pl.col("start") < high))
    return kept.with_columns(pl.col("start").clip(lower_bound=low), pl.col("end").clip(upper_bound=high))


def ns_inside(frame: pl.DataFrame, spans: Spans) -> pl.Series:
    """Return `ns`, the time of each interval of a frame (start, end) inside spans."""
    ns = time_in(spans, frame["end"].to_numpy())
    ns -= time_in(spans, frame["start"].to_numpy())
    return pl.Series("ns", ns)


def whole_with_ns(frame: pl.DataFrame, spans: Spans) -> pl.DataFrame:
    """Return the intervals that touch spans, whole, with `ns`: their time inside the spans, 0 of an instant."""
    kept = frame.with_columns(ns_inside(frame, spans)).filter(pl.col("ns") > 0)
    return kept.with_columns(pl.col("ns") * ~pl.col("instant")) if "instant" in frame.columns else kept


def cut_with_ns(frame: pl.DataFrame, spans: Spans) -> pl.DataFrame:
    """Return the intervals that touch spans, cut at the outermost of these, with `ns`: their time inside the spans."""
    kept = whole_with_ns(frame, spans)
    if kept.is_empty():
        return kept
    low, high = int(spans.start[0]), int(spans.end[-1])
    return kept.with_columns(pl.col("start").clip(lower_bound=low), pl.col("end").clip(upper_bound=high))


def joined_in_row(intervals: pl.DataFrame, *same: str) -> pl.DataFrame:
    """Join intervals that follow each other without a gap and have equal values in the columns `same`.

    Intervals are in order. Returns `same`, start and end.
    """
    equal = [pl.col(c) == pl.col(c).shift(1) for c in same]
    goes_on = pl.all_horizontal(*equal, pl.col("start") == pl.col("end").shift(1)).fill_null(False)
    numbered = intervals.group_by((~goes_on).cum_sum().alias("number"), maintain_order=True)
    return numbered.agg(pl.col(*same, "start").first(), pl.col("end").last()).drop("number")


def parts_by(frame: pl.DataFrame, column: str) -> dict[int, pl.DataFrame]:
    """Return the rows of a frame by the value of an integer column, in order of the values."""
    low, high = frame[column].min(), frame[column].max()
    # Often all rows are of one rank or one device, and need no copy.
    if isinstance(low, int) and low == high and not frame[column].null_count():
        return {low: frame}
    parts = frame.partition_by(column, as_dict=True, maintain_order=True)
    return {int(key): part for (key,), part in sorted(parts.items(), key=lambda item: item[0])}
