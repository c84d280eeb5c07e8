"""NVTX: push/pop ranges of every domain, start/end ranges, marks, each with its category, color and payload.

NCCL's calls are the nccl family's, samples of Python stacks those of python_samples.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.nccl.nccl_calls import is_call
from nsys2prv.families.nvtx_counts import nvtx_counts
from nsys2prv.families.nvtx_events import NVTX_READS, from_profiler
from nsys2prv.families.source import Source
from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.model.frames import Intervals
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

RGB = 0xFFFFFF
_PAYLOADS = ("int64Value", "uint64Value", "int32Value", "uint32Value", "doubleValue", "floatValue")
ATTRIBUTE_TYPES = (types.NVTX_CATEGORY, types.NVTX_COLOR, types.NVTX_PAYLOAD, types.NVTX_PAYLOAD_REAL)
# A larger real payload does not fit into a 64-bit number of its precision.
LARGEST_PAYLOAD = 2**63 / 10**types.NVTX_PAYLOAD_REAL.precision
_STILL_OPEN = pl.col("end").is_null() & ~pl.col("eventType").is_in(schema.MARKS)


def closed_ranges(source: Source, events: pl.DataFrame) -> pl.DataFrame:
    """Add an `end` to NVTX events (some of Source.ranges), and count the open ranges among them."""
    source.tally.count(Loss.STILL_OPEN, events.select(_STILL_OPEN.sum()).item())
    return closed(source, events)


def closed(source: Source, events: pl.DataFrame) -> pl.DataFrame:
    """Add an `end` to NVTX events: marks end where they begin, open ranges at the report's last event."""
    lasting = events.with_columns(pl.coalesce("end", "start").alias("end"))
    if not events.select(_STILL_OPEN.any()).item():
        return lasting
    last = pl.max_horizontal("start", pl.lit(source.last))
    return events.with_columns(end=pl.when(_STILL_OPEN).then(last).otherwise(lasting["end"]))


def _frames(source: Source, state: None) -> Frames[None]:
    own = source.ranges().filter(~is_call() & ~from_profiler())
    source.count_missing_texts(own["textId"])
    events = _with_attributes(source, closed_ranges(source, own))
    yield from _push_pop(source, events.filter(pl.col("eventType").is_in(schema.PUSH_POP)))
    yield from _one_type(source, events.filter(pl.col("eventType").is_in(schema.START_END)), types.NVTX_RANGE)
    yield from _one_type(source, events.filter(pl.col("eventType").is_in(schema.MARKS)), types.NVTX_MARK)


def _with_attributes(source: Source, events: pl.DataFrame) -> pl.DataFrame:
    """Add a column for each type in ATTRIBUTE_TYPES that any of the events has."""
    # Unsigned ones beyond 2**63 were exported as negative numbers.
    unsigned = pl.when(pl.col("uint64Value") >= 0).then(pl.col("uint64Value"))
    source.tally.count(Loss.HUGE_PAYLOAD, int((events["uint64Value"] < 0).sum()))
    real = pl.coalesce("doubleValue", "floatValue")
    beyond = events.select((~(real.abs() < LARGEST_PAYLOAD)).sum()).item()
    source.tally.count(Loss.REAL_PAYLOAD, int(beyond), f"{LARGEST_PAYLOAD:.0e}")
    known = events.select(
        source.labels.ids(types.NVTX_CATEGORY.key, events["category"]).alias(types.NVTX_CATEGORY.key),
        (pl.col("color") & RGB).alias(types.NVTX_COLOR.key),
        pl.coalesce("int64Value", unsigned, "int32Value", "uint32Value").alias(types.NVTX_PAYLOAD.key),
        pl.when(real.abs() < LARGEST_PAYLOAD)
        .then(real * 10**types.NVTX_PAYLOAD_REAL.precision)
        .round()
        .cast(pl.Int64, strict=False)
        .alias(types.NVTX_PAYLOAD_REAL.key),
    )
    some = [c.name for c in known if (c.fill_null(0) != 0).any()]
    return pl.concat([events, known.select(some)], how="horizontal")


def _attributes(events: pl.DataFrame) -> tuple[str, ...]:
    return tuple(t.key for t in ATTRIBUTE_TYPES if t.key in events.columns)


def _push_pop(source: Source, ranges: pl.DataFrame) -> Iterator[Intervals]:
    numbered = [
        _numbered(source, types.NVTX_DOMAIN.of(str(domain) or types.DEFAULT_DOMAIN), part)
        for (domain,), part in ranges.group_by("domain", maintain_order=True)
    ]
    # One frame for all domains: with a thousand of them, a frame each would take longer than the ranges themselves.
    if numbered:
        yield source.thread_intervals(pl.concat(numbered), _attributes(ranges))


def _one_type(source: Source, events: pl.DataFrame, event_type: EventType) -> Iterator[Intervals]:
    yield source.thread_intervals(_numbered(source, event_type.key, events), _attributes(events))


def _numbered(source: Source, key: str, events: pl.DataFrame) -> pl.DataFrame:
    """Add the slot of an event type to events, and their texts as its values."""
    return events.with_columns(
        slot=source.slot(key),
        value=source.labels.ids(key, events["text"]),
    )


FAMILY = Family(
    name="nvtx",
    title="NVTX ranges and marks",
    draws=(schema.NVTX,),
    reads={**NVTX_READS, schema.NVTX: (*NVTX_READS[schema.NVTX], "category", "color", *_PAYLOADS)},
    emits=(types.NVTX_DOMAIN, types.NVTX_RANGE, types.NVTX_MARK, *ATTRIBUTE_TYPES),
    frames=_frames,
    # The table also holds names of domains and threads, and rows of other families.
    count=lambda report: nvtx_counts(report).ranges,
    public=("nvtx", "nvtx_pushpop_trace", "nvtx_startend_trace"),
    sliced=True,
)
