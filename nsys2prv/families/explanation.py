"""Families whose events explain the whole run: waiting, critical path, causes of idle time, queues, tensor activity.

They declare the event types. The match stage makes the events of waiting, and the analysis all others: see
analysis/explained_events.py, and of tensor activity analysis/metrics/estimates.py.
"""

from __future__ import annotations

from nsys2prv.families.family import whole_run_family
from nsys2prv.model.event_types import CRITICAL_PATH, IDLE_CAUSE, LAUNCH_QUEUE, TENSOR_ESTIMATE, WAITED_FOR, WAITING

WAITING_FAMILY = whole_run_family(
    "waiting", "Waiting and transfer of NCCL kernels and MPI calls", (WAITING, WAITED_FOR)
)
CRITICAL_PATH_FAMILY = whole_run_family(
    "critical_path", "Critical path of the window of interest", (CRITICAL_PATH,), default=False
)
IDLE_CAUSES_FAMILY = whole_run_family(
    "idle_causes", "Causes of the idle time of devices in the window of interest", (IDLE_CAUSE,), default=False
)
LAUNCH_QUEUES_FAMILY = whole_run_family(
    "launch_queues", "Number of activities that are launched and wait on each stream", (LAUNCH_QUEUE,), default=False
)
# Families that need the dependency graph.
EXPLANATION_FAMILIES = (CRITICAL_PATH_FAMILY.name, IDLE_CAUSES_FAMILY.name, LAUNCH_QUEUES_FAMILY.name)
# The kernels of a GPU and its samples may be in different reports.
TENSOR_ESTIMATE_FAMILY = whole_run_family(
    "tensor_estimate", "Tensor activity of kernel classes (estimate)", (TENSOR_ESTIMATE,)
)
