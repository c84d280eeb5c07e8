"""OpenMP regions of host threads, by kind: parallel regions, tasks, worksharing, synchronization, locks, events."""

from __future__ import annotations

from nsys2prv.families.calls import COLUMNS, call_intervals
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import OPENMP
from nsys2prv.report import schema

# Kinds of regions hold each other (a parallel region holds tasks, these hold barriers), so each has an event type.
TABLES_OF_KIND = {
    "parallel": ("PARALLEL", "THREAD"),
    "task": ("TASK",),
    "worksharing": ("WORKSHARE", "MASTER", "REDUCTION"),
    "synchronization": ("SYNC_REGION",),
    "waiting": ("SYNC_REGION_WAIT", "MUTEX_WAIT"),
    "critical": ("CRITICAL_SECTION",),
    "event": (
        "TASK_CREATE",
        "TASK_SCHEDULE",
        "CANCEL",
        "MUTEX_RELEASED",
        "LOCK_INIT",
        "LOCK_DESTROY",
        "DISPATCH",
        "FLUSH",
    ),
}


def _frames(source: Source, state: None) -> Frames[None]:
    for kind, parts in TABLES_OF_KIND.items():
        yield call_intervals(source, [schema.OPENMP[p] for p in parts], OPENMP[kind])


FAMILY = Family(
    name="openmp",
    title="OpenMP regions",
    draws=tuple(schema.OPENMP.values()),
    reads=dict.fromkeys(schema.OPENMP.values(), COLUMNS),
    emits=tuple(OPENMP.values()),
    frames=_frames,
    public=("openmp",),
    sliced=True,
    calls="openmp",
)
