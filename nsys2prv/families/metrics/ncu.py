"""Figures of Nsight Compute on kernels: types of attributes that files beside the reports hold (`--ncu`).

The analysis finds a file's kernels among the launches of the whole run (see analysis/ncu/events.py).
"""

from __future__ import annotations

from nsys2prv.families.family import whole_run_family
from nsys2prv.model.ncu_types import NCU_FIGURES, NCU_JOINED, NCU_STALL

FAMILY = whole_run_family(
    "ncu",
    "Figures of Nsight Compute on kernels (--ncu)",
    (NCU_JOINED, *NCU_FIGURES.values(), NCU_STALL),
    default=False,
)
