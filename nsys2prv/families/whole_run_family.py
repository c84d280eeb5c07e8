"""Families whose events are made when the whole run is known: they declare the types, and draw no rows themselves."""

from __future__ import annotations

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_type import EventType


def _frames(source: Source, state: None) -> Frames[None]:
    yield from ()


def whole_run_family(name: str, title: str, emits: tuple[EventType, ...], default: bool = True) -> Family:
    """Return a family with the types of events that the match stage or the analysis makes of the whole run."""
    return Family(
        name=name,
        title=title,
        draws=(),
        reads={},
        emits=emits,
        frames=_frames,
        makes_rows=False,
        default=default,
        within=True,
    )
