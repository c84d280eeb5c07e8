"""Critical path, causes of idle time, and launch queues: types of events that the analysis makes of the whole run.

See analysis/explained_events.py. They are off by default.
"""

from __future__ import annotations

from nsys2prv.families.whole_run_family import whole_run_family
from nsys2prv.model.event_types import CRITICAL_PATH, IDLE_CAUSE, LAUNCH_QUEUE

CRITICAL_PATH_FAMILY = whole_run_family(
    "critical_path", "Critical path of the window of interest", (CRITICAL_PATH,), default=False
)
IDLE_CAUSES_FAMILY = whole_run_family(
    "idle_causes", "Causes of the idle time of devices in the window of interest", (IDLE_CAUSE,), default=False
)
LAUNCH_QUEUES_FAMILY = whole_run_family(
    "launch_queues", "Number of activities that are launched and wait on each stream", (LAUNCH_QUEUE,), default=False
)
EXPLANATION_FAMILIES = (CRITICAL_PATH_FAMILY.name, IDLE_CAUSES_FAMILY.name, LAUNCH_QUEUES_FAMILY.name)
