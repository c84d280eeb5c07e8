"""The work of one process on a report: families to extract, folders for points, and results to return."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from nsys2prv.intervals.classes import Rules
from nsys2prv.intervals.reduction_options import UNREDUCED, Reduction
from nsys2prv.intervals.spans import Span
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True)
class Storage:
    """Folders for intermediate files, whose names begin with `name`.

    `folder`: for points; without it nothing is stored. `scratch`: for slices of a large report, instead of `folder`
    (without both: the system's temporary folder). `in_memory`: points stay in memory, for a run that the
    same process encodes.
    """

    name: str
    folder: Path | None = None
    scratch: Path | None = None
    in_memory: bool = False

    def named(self, name: str) -> Storage:
        """Return the same folders under another name."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Wanted:
    """Results of an extraction beside its summary.

    `points`: points to encode. `analyzed`: families whose intervals and messages are stored whole, for analysis.
    `metrics`: texts by which GPU metrics are chosen and stored, one a file. `anchors`: families that
    look for anchors between clocks, whether they are extracted or not. `named_range`: an NVTX range, `TEXT` or
    `TEXT@DOMAIN`, whose first begin and last end are looked up. `wait_calls`: calls that make streams and threads wait,
    for analysis. `attributes`: further attributes of analyzed intervals that are stored, too. `beyond`: analyzed
    intervals are stored also beyond the chosen time.
    """

    points: bool = True
    analyzed: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    named_range: str | None = None
    wait_calls: bool = False
    attributes: tuple[str, ...] = ()
    beyond: bool = False


@dataclass(frozen=True)
class Drawing:
    """Which events to draw, and how. `span`: on the report's clock (ns). `rules`: of kernel classes.

    `pthreads_apart`: pthread calls have an event type of their own.
    """

    span: Span | None = None
    reduction: Reduction = UNREDUCED
    rules: Rules | None = None
    pthreads_apart: bool = False


@dataclass(frozen=True)
class ReportPart:
    """Families to extract from one report. `of_report`: those of all its parts, if it has several."""

    path: Path
    families: tuple[str, ...]
    storage: Storage
    wanted: Wanted = field(default_factory=Wanted)
    drawing: Drawing = field(default_factory=Drawing)
    of_report: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS
