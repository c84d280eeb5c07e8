"""Waiting and transfer of NCCL kernels and MPI calls: types of events that the match stage makes."""

from __future__ import annotations

from nsys2prv.families.of_the_run import family_of_the_run
from nsys2prv.model.event_types import WAITED_FOR, WAITING

FAMILY = family_of_the_run("waiting", "Waiting and transfer of NCCL kernels and MPI calls", (WAITING, WAITED_FOR))
