"""What of a run is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nsys2prv.activities import FAMILIES
from nsys2prv.timeline.reduction import ALL, Reduction

__all__ = ["ALL", "Reduction", "Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What of the run is translated, and how kernels are classed.

    `time`: merged ns, None for an open side; `nvtx`: `RANGE` or `RANGE@DOMAIN`; `classes`: a file of rules of kernel
    classes that are tried before the packaged ones; `less`: what of it the user can do without.
    """

    families: tuple[str, ...] = tuple(f.name for f in FAMILIES if f.default)
    time: tuple[int | None, int | None] | None = None
    nvtx: str | None = None
    classes: Path | None = None
    less: Reduction = ALL
