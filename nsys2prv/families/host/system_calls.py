"""System calls recorded by the kernel, also of libraries that OS runtime tracing does not know."""

from __future__ import annotations

from nsys2prv.families.calls import COLUMNS, call_intervals
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import SYSTEM_CALL
from nsys2prv.report import schema

TABLES = (schema.SYSCALLS,)


def _frames(source: Source, state: None) -> Frames[None]:
    yield call_intervals(source, TABLES, SYSTEM_CALL)


FAMILY = Family(
    name="system_calls",
    title="System calls",
    draws=TABLES,
    reads=dict.fromkeys(TABLES, COLUMNS),
    emits=(SYSTEM_CALL,),
    frames=_frames,
    makes_rows=False,
    sliced=True,
)
