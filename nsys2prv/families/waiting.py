"""Waiting and transfer of NCCL kernels and MPI calls: types of events that the match stage makes."""

from __future__ import annotations

from nsys2prv.families.whole_run_family import whole_run_family
from nsys2prv.model.event_types import WAITED_FOR, WAITING

FAMILY = whole_run_family("waiting", "Waiting and transfer of NCCL kernels and MPI calls", (WAITING, WAITED_FOR))
