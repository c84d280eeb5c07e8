"""Points, made from frames: rows of one time each, most of them a line of the PRV. Frames are cut to a span here.

An interval that is drawn is two points, its begin and its end. Stored once instead, sorted by start, it takes as long
on the long report (3.01 against 3.05 s of processor time), but a window then reads every earlier batch with an interval
that is still open: where calls last a fixed share of a run, reading grows with the square of its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.intervals.spans import Span
from nsys2prv.model.event_types import (
    BLOCK,
    DYNAMIC_SHARED,
    GRID,
    KERNEL_CLASS,
    KERNEL_FAMILY,
    MEMORY_BYTES,
    MEMORY_DESTINATION,
    MEMORY_SOURCE,
    NCCL_BYTES,
    NCCL_COMMUNICATOR,
    NCCL_OPERATION,
    REGISTERS,
    STATIC_SHARED,
    is_unique,
)
from nsys2prv.model.frames import EMPTY, Intervals, Messages, States
from nsys2prv.model.losses import Loss, Tally
from nsys2prv.pipeline.store.combinations import combinations

END, BEGIN = 0, 1
# Attributes of an interval that analysis needs beside its type and value.
WHOLE_ATTRIBUTES = tuple(
    t.key
    for t in (
        *(KERNEL_CLASS, KERNEL_FAMILY, *GRID, *BLOCK, REGISTERS, STATIC_SHARED, DYNAMIC_SHARED),
        *(MEMORY_BYTES, MEMORY_SOURCE, MEMORY_DESTINATION),
        *(NCCL_BYTES, NCCL_COMMUNICATOR, NCCL_OPERATION),
    )
)


class Points(NamedTuple):
    """The rows of a spill: sorted by time, ends of operations by their key.

    Those of events have a column `combination`, the number of a row of `combinations`. These have the columns of
    COMBINATION and one an attribute, null where it is not written.
    """

    data: pl.DataFrame
    combinations: pl.DataFrame | None = None


def meeting(frame: Intervals, span: Span | None) -> Intervals:
    """Return the intervals that meet a span, uncut."""
    if span is None:
        return frame
    return Intervals(frame.data.filter(_meets(span)), frame.attributes)


def _meets(span: Span) -> pl.Expr:
    """Return True for what has some of its time in a span."""
    return (pl.col("end") > span.start) & (pl.col("start") < span.end)


def _clipped(span: Span) -> list[pl.Expr]:
    """Return start and end, cut at the borders of a span."""
    return [pl.col("start").clip(lower_bound=span.start), pl.col("end").clip(upper_bound=span.end)]


def cut_intervals(frame: Intervals, span: Span | None, tally: Tally) -> Intervals:
    """Return the intervals within a span, cut at its borders.

    A column `length` keeps their uncut length: of two intervals cut at the same border the outer one begins first.
    """
    if span is None:
        return frame
    inside = meeting(frame, span).data
    tally.count(Loss.OUTSIDE, frame.data.height - inside.height)
    lasting = inside.with_columns(length=pl.col("end") - pl.col("start"))
    return Intervals(lasting.with_columns(_clipped(span)), frame.attributes)


def cut_states(frame: States, span: Span | None, tally: Tally) -> States:
    """Return the states within a span, cut at its borders."""
    if span is None:
        return frame
    inside = frame.data.filter(_meets(span))
    tally.count(Loss.OUTSIDE, frame.data.height - inside.height)
    return States(inside.with_columns(_clipped(span)))


def cut_messages(frame: Messages, span: Span | None, tally: Tally) -> Messages:
    """Return the messages that lie within a span whole: half of a line cannot be drawn."""
    if span is None:
        return frame
    inside = frame.data.filter(
        # A message sent at the very end is not drawn, as its call is not.
        pl.col("time").is_between(span.start, span.end, closed="left"),
        pl.col("received").is_between(span.start, span.end),
    )
    tally.count(Loss.OUTSIDE, frame.data.height - inside.height)
    return Messages(inside)


def event_points(frame: Intervals) -> Points:
    """Return begin and end of each interval: time, phase, length, place, combination, unique attributes.

    Combinations have the other attributes. Attributes of value 0 are not written (null); the end sets the written ones
    to 0.
    """
    data = frame.data
    unique = [a for a in frame.attributes if is_unique(a)]
    number, table = combinations(data.select("slot", "value", *(a for a in frame.attributes if a not in unique)))
    length = pl.col("length") if "length" in data.columns else (pl.col("end") - pl.col("start")).alias("length")
    begins, ends = (
        data.select(
            pl.col(time).alias("time"),
            pl.lit(phase, pl.UInt8).alias("phase"),
            length,
            "place",
            number,
            *(_if_set(a, pl.col(a) if phase == BEGIN else pl.lit(0, pl.Int64)) for a in unique),
        )
        for time, phase in (("start", BEGIN), ("end", END))
    )
    return Points(pl.concat([begins, ends]).sort("time", maintain_order=True), table)


def _if_set(attribute: str, value: pl.Expr) -> pl.Expr:
    return pl.when(pl.col(attribute) != 0).then(value).alias(attribute)


def merged_points(every: Sequence[Points]) -> Points:
    """Merge points in order of time, and number the combinations of each on from those before."""
    if len(every) == 1:
        return every[0]
    tables: list[pl.DataFrame] = []
    data = []
    for points, table in every:
        if table is not None:
            before = pl.lit(sum(t.height for t in tables), pl.UInt32)
            points = points.with_columns(pl.col("combination") + before)
            tables.append(table)
        data.append(points)
    in_order = pl.concat(data).sort("time", maintain_order=True)
    return Points(in_order, pl.concat(tables, how="diagonal") if tables else None)


def whole_intervals(frame: Intervals, attributes: tuple[str, ...]) -> Points:
    """Return intervals sorted by start: time (the start), end as recorded, place, slot, value, attributes."""
    end = pl.when(EMPTY).then("start").otherwise("end").alias("end") if EMPTY in frame.data.columns else pl.col("end")
    columns = [pl.col("start").alias("time"), end, "place", "slot", "value", *attributes]
    return Points(frame.data.select(columns).sort("time", maintain_order=True))


def message_points(frame: Messages) -> Points:
    """Return messages sorted by the time they are sent."""
    return Points(frame.data.sort("time", maintain_order=True))


def row_points(intervals: pl.DataFrame, further: Sequence[str] = ()) -> pl.DataFrame:
    """Return begin and end of intervals on rows of the trace: time, phase, length, row, combination, further; sorted.

    `intervals` have start, end, row, `combination` (a number from 1 on), and `further` columns. At an end, 0 stands for
    the combination and for further values that are not null.
    """
    sides = [
        intervals.select(
            pl.col(side).alias("time"),
            pl.lit(phase, pl.UInt8).alias("phase"),
            (pl.col("end") - pl.col("start")).alias("length"),
            "row",
            (pl.col("combination") * phase).cast(pl.UInt32),
            *(pl.col(c) * phase for c in further),
        )
        for side, phase in (("start", BEGIN), ("end", END))
    ]
    return pl.concat(sides).sort("time", "row", "phase", "length")


def state_points(frame: States) -> Points:
    """Return states sorted by the time they begin: time, end, place, state."""
    return Points(frame.data.rename({"start": "time"}).sort("time", maintain_order=True))
