"""Families of activities: their declaration. `source.py` has what a family makes its frames of."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import TableColumns
from nsys2prv.model.event_type import EventType, TypeBlock
from nsys2prv.model.frames import Frame
from nsys2prv.report.declaration import Table
from nsys2prv.report.report import Report

# Kinds of work of devices, and of calls of host threads, that the analysis tells apart.
DeviceWork = Literal["kernel", "nccl", "graph", "copy"]
HostCall = Literal["cuda", "synchronization", "mpi", "os", "openmp"]
State = TypeVar("State")
# The frames of one slice, as they are made, and then the state for the next slice.
Frames = Generator[Frame, None, State]


def stateless() -> None:
    """Return no state, for a family that needs nothing from earlier slices."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family: what it reads, what it emits, and the function that makes its frames.

    `frames(source, state)` yields the frames of one slice and returns the state for the next slice: an object of a type
    of the family's own, with all that later slices need of this one. `state()` makes the state before the first slice.
    `draws`: the tables whose rows it draws (it may read others to know more of them); `count` counts those rows in a
    report where they are not all of the tables'. `makes_rows`: whether its events give a host thread a row of its own
    (streams and metrics always have one). `default`: whether it is translated without being asked for. `public`: the
    public nsys2prv's names of it (`-t`). `seen`: whether real reports had it; else it follows NVIDIA's documentation.
    `sliced`: whether it can be given a large report slice by slice; the others are given all of their tables at once.
    `work`, `calls`: the kind of device work, or of calls of host threads, that its intervals are to the analysis.
    `within`: whether its events lie within the time of the events that it is made of.
    `anchors`: true where it yields anchors between clocks if `source.options.anchors` asks for them.
    """

    name: str
    title: str
    draws: tuple[Table, ...]
    reads: TableColumns
    emits: tuple[EventType | TypeBlock, ...]
    frames: Callable[[Source, Any], Frames[Any]]
    state: Callable[[], Any] = stateless
    count: Callable[[Report], int] | None = None
    makes_rows: bool = True
    default: bool = True
    public: tuple[str, ...] = ()
    seen: bool = True
    sliced: bool = False
    work: DeviceWork | None = None
    calls: HostCall | None = None
    within: bool = False
    anchors: bool = False

    def __post_init__(self) -> None:
        """Refuse a sliced family with a table without a cut: its rows would be drawn in every slice."""
        for table in (*self.draws, *self.reads) if self.sliced else ():
            if table.cut is None and (table in self.draws or table.time is not None):
                raise ValueError(
                    f"family {self.name} is sliced, but table {table.name} does not say how it is cut; "
                    "give it a cut in nsys2prv/report/schema.py, or leave out sliced=True"
                )

    def rows_in(self, report: Report) -> int:
        """Return the number of rows of a report that the family draws."""
        return self.count(report) if self.count else sum(report.rows(t) for t in self.draws)
