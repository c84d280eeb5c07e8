"""Families whose events are made of the whole run, not of the rows of one report: they declare the event types.

The match stage makes the events of waiting, `analysis/explained_events.py` those of critical path, causes of idle time
and launch queues, `analysis/metrics/estimates.py` those of tensor activity, and `analysis/ncu/events.py` those of
Nsight Compute.
"""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_type import EventType
from nsys2prv.model.event_types import CRITICAL_PATH, IDLE_CAUSE, LAUNCH_QUEUE, TENSOR_ESTIMATE, WAITED_FOR, WAITING
from nsys2prv.model.ncu_types import NCU_FIGURES, NCU_JOINED, NCU_STALL


def _no_frames(source: Source, state: None) -> Frames[None]:
    yield from ()


def _family(name: str, title: str, emits: tuple[EventType, ...], default: bool = True) -> Family:
    return Family(
        name=name,
        title=title,
        draws=(),
        reads={},
        emits=emits,
        frames=_no_frames,
        makes_rows=False,
        default=default,
        within=True,
    )


WAITING_FAMILY = _family("waiting", "Waiting and transfer of NCCL kernels and MPI calls", (WAITING, WAITED_FOR))
CRITICAL_PATH_FAMILY = _family(
    "critical_path", "Critical path of the window of interest", (CRITICAL_PATH,), default=False
)
IDLE_CAUSES_FAMILY = _family(
    "idle_causes", "Causes of the idle time of devices in the window of interest", (IDLE_CAUSE,), default=False
)
LAUNCH_QUEUES_FAMILY = _family(
    "launch_queues", "Number of activities that are launched and wait on each stream", (LAUNCH_QUEUE,), default=False
)
# Families that need the dependency graph.
EXPLANATION_FAMILIES = (CRITICAL_PATH_FAMILY.name, IDLE_CAUSES_FAMILY.name, LAUNCH_QUEUES_FAMILY.name)
# The kernels of a GPU and its samples may be in different reports.
TENSOR_ESTIMATE_FAMILY = _family("tensor_estimate", "Tensor activity of kernel classes (estimate)", (TENSOR_ESTIMATE,))
NCU_FAMILY = _family(
    "ncu",
    "Figures of Nsight Compute on kernels (--ncu)",
    (NCU_JOINED, *NCU_FIGURES.values(), NCU_STALL),
    default=False,
)
