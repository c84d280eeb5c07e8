"""Critical path and causes of idle time: events that the dependency graph gives when the whole run is known.

The frames come from other families (see analysis/explained_events.py).
"""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.event_types import CRITICAL_PATH, IDLE_CAUSE


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
EXPLAINED = (CRITICAL_PATH_FAMILY.name, IDLE_CAUSES_FAMILY.name)
