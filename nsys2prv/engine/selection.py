"""What of a run is wanted, and how its reports become one. Light: the command line reads its options with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nsys2prv.engine.catalogue import KNOWN
from nsys2prv.timeline.less import ALL, Reduction

if TYPE_CHECKING:
    from nsys2prv.merge.clocks import Align, Offsets
    from nsys2prv.merge.ranks import RankFrom

__all__ = ["ALL", "Reduction", "RunOptions", "Selection"]

# The GPU metric that analysis looks at when none is named: part of its name.
TENSOR = "tensor active"
BY_DEFAULT = tuple(f.name for f in KNOWN if f.default)


class Selection(NamedTuple):
    """What of the run is translated, and how kernels are classed.

    `families`: names as in docs/trace.md; `time`: merged ns, None for an open side; `nvtx`: `RANGE` or `RANGE@DOMAIN`;
    `classes`: a file of rules of kernel classes that are tried before the packaged ones; `less`: what of it the user
    can do without.
    """

    families: tuple[str, ...] = BY_DEFAULT
    time: tuple[int | None, int | None] | None = None
    nvtx: str | None = None
    classes: Path | None = None
    less: Reduction = ALL


class RunOptions(NamedTuple):
    """How reports become one run.

    `align`: how clocks are put on one (docs/clocks.md); `offsets`: taken instead of a fit; `hosts`: pattern of report
    names -> host; `rank_from`: where ranks come from; `ranks`: those to keep (None: all); `every_thread`: rows also for
    host threads whose families make none.
    """

    align: Align = "auto"
    offsets: Offsets | None = None
    hosts: Mapping[str, str] = {}
    rank_from: RankFrom = "auto"
    ranks: frozenset[int] | None = None
    every_thread: bool = False

    @property
    def fits_clocks(self) -> bool:
        """Whether what crosses reports is to be looked at for their clocks."""
        return self.offsets is not None or self.align in ("auto", "collectives")
