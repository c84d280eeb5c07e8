"""Waiting and transfer of NCCL kernels and MPI calls: events that the match stage makes when all ranks are known."""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.event_types import WAITED_FOR, WAITING


def _frames(source: Source, state: None) -> Frames[None]:
    yield from ()


FAMILY = Family(
    name="waiting",
    title="Waiting and transfer of NCCL kernels and MPI calls",
    draws=(),
    reads={},
    emits=(WAITING, WAITED_FOR),
    frames=_frames,
    makes_rows=False,
    within=True,
)
