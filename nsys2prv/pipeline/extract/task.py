"""What extraction is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nsys2prv.intervals.classes import Rules
from nsys2prv.intervals.reduction_options import ALL, Reduction
from nsys2prv.pipeline.store.points import Span


class ExtractTask(NamedTuple):
    """What to extract from one report. `folder` None: only look, write nothing but slices of it.

    `scratch`: where those go without `folder`; None: where the system has temporary files.
    `anchors`: look for what tells its clock from others.
    `whole`: spill intervals and messages as they are, for analysis, instead of points; `metrics`: parts of the names of
    GPU metrics to spill one by one, in pieces of their table. `estimates`: spill those metrics, and what devices do,
    beside the points. `less`: what the user can do without. `hold`: keep points in memory instead of in files, of a
    run so short that this process encodes it as well. `beside`: families that other tasks of the report extract.
    `timed`: families of which only is wanted when they are drawn, with the time of GPU metrics that are not spilled.
    """

    path: Path
    families: tuple[str, ...]
    folder: Path | None
    name: str
    span: Span | None = None
    ranges: tuple[str, ...] = ()
    rules: Rules | None = None
    anchors: bool = False
    whole: bool = False
    metrics: tuple[str, ...] = ()
    estimates: bool = False
    less: Reduction = ALL
    scratch: Path | None = None
    hold: bool = False
    beside: tuple[str, ...] = ()
    timed: tuple[str, ...] = ()
