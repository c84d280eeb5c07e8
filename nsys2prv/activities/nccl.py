"""NCCL kernels, apart from the others: they are communication."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from nsys2prv.activities.family import Family, Source
from nsys2prv.activities.kernels import EMITS, READS, count_kernels, kernel_intervals
from nsys2prv.paraver.event_types import NCCL_KERNEL
from nsys2prv.report import schema
from nsys2prv.timeline.frames import Intervals


def _frames(source: Source) -> Iterator[Intervals]:
    yield kernel_intervals(source, NCCL_KERNEL, nccl=True)


FAMILY = Family(
    name="nccl",
    title="NCCL kernels",
    draws=(schema.KERNEL,),
    reads=READS,
    emits=(NCCL_KERNEL, *EMITS),
    frames=_frames,
    count=partial(count_kernels, nccl=True),
    public="nccl",
)
