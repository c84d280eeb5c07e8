"""Callers of OS runtime calls, for calls with a stack: the profiler takes one of long calls."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.calls import on_threads
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.host.stacks import COLUMNS, stack_labels
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import OS_CALLERS
from nsys2prv.report import schema
from nsys2prv.report.report import Report

# By depth in the stack; 0 is the OS call itself.
CALLERS = dict(enumerate(OS_CALLERS, start=1))
_HAS_STACK = pl.col("callchainId") != 0


def _frames(source: Source, state: None) -> Frames[None]:
    calls = on_threads(source, source.table(schema.OSRT).filter(_HAS_STACK))
    first, *others = (t.key for t in OS_CALLERS)
    labels = stack_labels(source, calls["callchainId"], source.table(schema.OSRT_STACKS), CALLERS)
    frame = pl.concat([calls, labels.rename({first: "value"})], how="horizontal")
    yield source.thread_intervals(frame.with_columns(slot=source.slot(first)), tuple(others))


def _count(report: Report) -> int:
    """Count OS calls with a stack, each of which is drawn once, however many rows its stack has."""
    return report.table(schema.OSRT, ["start", "callchainId"]).filter(_HAS_STACK).height


FAMILY = Family(
    name="os_callers",
    title="Callers of OS runtime calls",
    draws=(schema.OSRT_STACKS,),
    reads={schema.OSRT: ("start", "end", "globalTid", "callchainId"), schema.OSRT_STACKS: COLUMNS},
    emits=OS_CALLERS,
    frames=_frames,
    count=_count,
    makes_rows=False,
    default=False,
    within=True,
)
