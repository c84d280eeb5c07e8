"""The options by which reports become one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nsys2prv.run.clocks import Align, Offsets
from nsys2prv.run.ranks import RankFrom


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
