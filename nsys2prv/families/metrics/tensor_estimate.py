"""Tensor activity of each kernel's class on its GPU: an attribute of kernels, estimated when the whole run is known.

The frames come from other families: the kernels of a GPU and its samples may be in different reports (see
analysis/estimates.py).
"""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.event_types import TENSOR_ESTIMATE


def _frames(source: Source, state: None) -> Frames[None]:
    yield from ()


FAMILY = Family(
    name="tensor_estimate",
    title="Tensor activity of kernel classes (estimate)",
    draws=(),
    reads={},
    emits=(TENSOR_ESTIMATE,),
    frames=_frames,
    makes_rows=False,
    within=True,
)
