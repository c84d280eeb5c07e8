"""Compilation of kernels just in time, on the threads that wait for it."""

from __future__ import annotations

from nsys2prv.families.calls import COLUMNS, call_intervals
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import JIT_COMPILATION
from nsys2prv.report import schema


def _frames(source: Source, state: None) -> Frames[None]:
    yield call_intervals(source, [schema.JIT], JIT_COMPILATION)


FAMILY = Family(
    name="jit",
    title="JIT compilation",
    draws=(schema.JIT,),
    reads={schema.JIT: COLUMNS},
    emits=(JIT_COMPILATION,),
    frames=_frames,
    makes_rows=False,
    seen=False,
    sliced=True,
)
