"""The part of a run that is selected: families, a span of time, rules of kernel classes, reductions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nsys2prv.families.registry import DEFAULT_FAMILIES
from nsys2prv.intervals.reduction_options import ALL, Reduction


class Selection(NamedTuple):
    """The part of the run that is translated, and the rules of kernel classes.

    `families`: names as in docs/trace.md; `time`: merged ns, None for an open
    side; `nvtx`: `RANGE` or `RANGE@DOMAIN`; `classes`: a file of rules of kernel classes that are tried before the
    packaged ones; `less`: data that may be reduced.
    """

    families: tuple[str, ...] = DEFAULT_FAMILIES
    time: tuple[int | None, int | None] | None = None
    nvtx: str | None = None
    classes: Path | None = None
    less: Reduction = ALL
