"""Profiler overhead: times in which a thread worked for the profiler instead of the program."""

from __future__ import annotations

from nsys2prv.families.calls import COLUMNS, call_intervals
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import PROFILER_OVERHEAD
from nsys2prv.report import schema

TABLES = (schema.PROFILER_OVERHEAD, schema.CUPTI_OVERHEAD)


def _frames(source: Source, state: None) -> Frames[None]:
    yield call_intervals(source, TABLES, PROFILER_OVERHEAD)


FAMILY = Family(
    name="overhead",
    title="Profiler overhead",
    draws=TABLES,
    reads=dict.fromkeys(TABLES, COLUMNS),
    emits=(PROFILER_OVERHEAD,),
    frames=_frames,
    makes_rows=False,
    default=False,
    sliced=True,
)
