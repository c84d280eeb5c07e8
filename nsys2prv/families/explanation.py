"""Critical path, causes of idle time, and launch queues: events that are made when the whole run is known.

The frames come from other families (see analysis/explained_events.py).
"""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.event_types import CRITICAL_PATH, IDLE_CAUSE, LAUNCH_QUEUE


def _frames(source: Source, state: None) -> Frames[None]:
    yield from ()


CRITICAL_PATH_FAMILY = Family(
    name="critical_path",
    title="Critical path of the window of interest",
    draws=(),
    reads={},
    emits=(CRITICAL_PATH,),
    frames=_frames,
    makes_rows=False,
    default=False,
    within=True,
)
IDLE_CAUSES_FAMILY = Family(
    name="idle_causes",
    title="Causes of the idle time of devices in the window of interest",
    draws=(),
    reads={},
    emits=(IDLE_CAUSE,),
    frames=_frames,
    makes_rows=False,
    default=False,
    within=True,
)
LAUNCH_QUEUES_FAMILY = Family(
    name="launch_queues",
    title="Number of activities that are launched and wait on each stream",
    draws=(),
    reads={},
    emits=(LAUNCH_QUEUE,),
    frames=_frames,
    makes_rows=False,
    default=False,
    within=True,
)
EXPLAINED = (CRITICAL_PATH_FAMILY.name, IDLE_CAUSES_FAMILY.name, LAUNCH_QUEUES_FAMILY.name)
