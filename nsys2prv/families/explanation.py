"""Critical path, causes of idle time, and launch queues: events that are made when the whole run is known.

The frames come from other families (see analysis/explained_events.py).
"""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.event_type import EventType
from nsys2prv.model.event_types import CRITICAL_PATH, IDLE_CAUSE, LAUNCH_QUEUE


def _frames(source: Source, state: None) -> Frames[None]:
    yield from ()


def _of_the_run(name: str, title: str, emitted: EventType) -> Family:
    """Return a family whose events are made of the whole run. It is off by default."""
    return Family(
        name=name,
        title=title,
        draws=(),
        reads={},
        emits=(emitted,),
        frames=_frames,
        makes_rows=False,
        default=False,
        within=True,
    )


CRITICAL_PATH_FAMILY = _of_the_run("critical_path", "Critical path of the window of interest", CRITICAL_PATH)
IDLE_CAUSES_FAMILY = _of_the_run(
    "idle_causes", "Causes of the idle time of devices in the window of interest", IDLE_CAUSE
)
LAUNCH_QUEUES_FAMILY = _of_the_run(
    "launch_queues", "Number of activities that are launched and wait on each stream", LAUNCH_QUEUE
)
EXPLAINED = (CRITICAL_PATH_FAMILY.name, IDLE_CAUSES_FAMILY.name, LAUNCH_QUEUES_FAMILY.name)
