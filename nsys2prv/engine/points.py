"""Points: one row a line of the PRV, keyed by one time, made from frames. Cutting to a span of time happens here."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.paraver.event_types import (
    KERNEL_CLASS,
    KERNEL_FAMILY,
    MEMORY_BYTES,
    NCCL_BYTES,
    NCCL_COMMUNICATOR,
    NCCL_OPERATION,
)
from nsys2prv.timeline.frames import Intervals, Messages, States, Tally

END, BEGIN = 0, 1
# What analysis needs to know of an interval beside its type and value.
WHOLE_ATTRIBUTES = tuple(
    t.key for t in (KERNEL_CLASS, KERNEL_FAMILY, MEMORY_BYTES, NCCL_BYTES, NCCL_COMMUNICATOR, NCCL_OPERATION)
)
# Families whose intervals are what devices do, and what estimates need to know of them.
WORK_FAMILIES = ("kernels", "nccl", "graphs", "memory")
WORK_ATTRIBUTES = (KERNEL_CLASS.key, KERNEL_FAMILY.key)
OF_CLASS = "of_class"
OUTSIDE = "outside the chosen time"


class Span(NamedTuple):
    """A span of a report's own time, [start, end) in ns."""

    start: int
    end: int


def cut_intervals(frame: Intervals, span: Span | None, tally: Tally) -> Intervals:
    """Intervals within a span, cut at its borders.

    A column `length` keeps what they lasted: by it the outer of two that were cut at the same border begins first.
    """
    if span is None:
        return frame
    inside = frame.data.filter((pl.col("end") > span.start) & (pl.col("start") < span.end))
    tally.drop(OUTSIDE, frame.data.height - inside.height)
    lasting = inside.with_columns(length=pl.col("end") - pl.col("start"))
    cut = lasting.with_columns(pl.col("start").clip(lower_bound=span.start), pl.col("end").clip(upper_bound=span.end))
    return Intervals(cut, frame.attributes)


def cut_states(frame: States, span: Span | None, tally: Tally) -> States:
    """States within a span, cut at its borders."""
    if span is None:
        return frame
    inside = frame.data.filter((pl.col("end") > span.start) & (pl.col("start") < span.end))
    tally.drop(OUTSIDE, frame.data.height - inside.height)
    return States(
        inside.with_columns(pl.col("start").clip(lower_bound=span.start), pl.col("end").clip(upper_bound=span.end))
    )


def cut_messages(frame: Messages, span: Span | None, tally: Tally) -> Messages:
    """Messages that lie within a span whole: half of a line cannot be drawn."""
    if span is None:
        return frame
    inside = frame.data.filter((pl.col("time") >= span.start) & (pl.max_horizontal("time", "received") <= span.end))
    tally.drop(OUTSIDE, frame.data.height - inside.height)
    return Messages(inside)


def event_points(frame: Intervals, of_class: bool = False) -> pl.DataFrame:
    """Begin and end of each interval, sorted by time: time, phase, length, place, slot, value, attributes.

    Attributes of value 0 are not written; the others are set to 0 by the end. `of_class`: ends too say which class of
    kernels they are of, in a column OF_CLASS that is not written.
    """
    data, attributes = frame.data, frame.attributes
    known = [pl.col(KERNEL_CLASS.key).alias(OF_CLASS)] if of_class and KERNEL_CLASS.key in attributes else []
    length = pl.col("length") if "length" in data.columns else (pl.col("end") - pl.col("start")).alias("length")
    begins = data.select(
        pl.col("start").alias("time"),
        pl.lit(BEGIN, pl.UInt8).alias("phase"),
        length,
        "place",
        "slot",
        "value",
        *(pl.when(pl.col(a) != 0).then(pl.col(a)) for a in attributes),
        *known,
    )
    ends = data.select(
        pl.col("end").alias("time"),
        pl.lit(END, pl.UInt8).alias("phase"),
        length,
        "place",
        "slot",
        pl.lit(0, pl.Int64).alias("value"),
        *(pl.when(pl.col(a) != 0).then(pl.lit(0, pl.Int64)).alias(a) for a in attributes),
        *known,
    )
    return pl.concat([begins, ends]).sort("time", maintain_order=True)


def whole(frame: Intervals, attributes: tuple[str, ...]) -> pl.DataFrame:
    """Intervals sorted by start: time (the start), end, place, slot, value, attributes."""
    columns = [pl.col("start").alias("time"), "end", "place", "slot", "value", *attributes]
    return frame.data.select(columns).sort("time", maintain_order=True)


def message_points(frame: Messages) -> pl.DataFrame:
    """Messages sorted by the time they are sent."""
    return frame.data.sort("time", maintain_order=True)


def state_points(frame: States) -> pl.DataFrame:
    """States sorted by the time they begin: time, end, place, state."""
    return frame.data.rename({"start": "time"}).sort("time", maintain_order=True)
