"""Figures of Nsight Compute on kernels: attributes that files beside the reports hold (`--ncu`).

The frames come from other families: a file's kernels are found among the launches of the whole run (see
analysis/ncu/events.py).
"""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.ncu_types import NCU_FIGURES, NCU_JOINED, NCU_STALL


def _frames(source: Source, state: None) -> Frames[None]:
    yield from ()


FAMILY = Family(
    name="ncu",
    title="Figures of Nsight Compute on kernels (--ncu)",
    draws=(),
    reads={},
    emits=(NCU_JOINED, *NCU_FIGURES.values(), NCU_STALL),
    frames=_frames,
    makes_rows=False,
    default=False,
    within=True,
)
