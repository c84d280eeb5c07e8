"""The pause that starves devices most: between which activities it lies, and in which range of the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.findings.case import Case
from nsys2prv.analysis.findings.starved import idle_gaps
from nsys2prv.analysis.findings.thresholds import ONE_PLACE
from nsys2prv.analysis.idle import open_ranges
from nsys2prv.families.nvtx.range_patterns import pattern_of


class Pause(NamedTuple):
    """Idle times of devices between two activities: their names, and the innermost range that is mostly open.

    `range`: empty without one; `share`: of the time without launched work.
    """

    after: str
    before: str
    range: str
    share: float


def chief_pause(case: Case) -> Pause | None:
    """Return where at least half of the time without launched work lies; None where it lies at many places."""
    gaps = _gaps(case)
    total = int(gaps["ns"].sum())
    by_place = gaps.group_by("after", "before").agg(pl.col("ns").sum()).sort("ns", "after", "before")
    if by_place.is_empty() or by_place["ns"][-1] < ONE_PLACE.value * total:
        return None
    after, before, ns = by_place.row(-1)
    own = gaps.filter(pl.col("after") == after, pl.col("before") == before)
    return Pause(after, before, _range(case, own), ns / total)


def _gaps(case: Case) -> pl.DataFrame:
    """Return device, task, start, `ns`, and the names of the activities around each idle time without launched work."""
    axis, _, found = idle_gaps(case.found)
    names = case.run.work.sort("device", "start").select("device", "task", pl.col("name").cast(pl.String))
    # An idle time after the last activity of a run has none behind it, one before the first has none before it.
    at = found["before"].to_numpy()
    inside = (at > 0) & (at < names.height)
    found, at = found.filter(pl.Series(inside)), at[inside]
    around = (
        names[at].select("device", "task", before="name").hstack(names[at - 1].select(other="device", after="name"))
    )
    start = found["start"].to_numpy()
    placed = around.with_columns(
        start=pl.Series(axis.time(start)),
        ns=found["until"] - found["start"],
        own=pl.Series(np.asarray(axis.group(start))),
    )
    return placed.filter(pl.col("device") == pl.col("own"), pl.col("other") == pl.col("own"), pl.col("ns") > 0)


def _range(case: Case, gaps: pl.DataFrame) -> str:
    """Return the text of the innermost range, with `#` for numbers, that is open in most of some idle times.

    The range of an iteration says nothing: empty for it.
    """
    numbered = gaps.sort("task", "start").with_row_index("gap").with_columns(end=pl.col("start") + pl.col("ns"))
    ranges = open_ranges(numbered, case.found.main_ranges).join(numbered.select("gap", "ns"), on="gap")
    by_text = ranges.group_by(text=pattern_of(pl.col("range"))).agg(pl.col("ns").sum()).sort("ns", "text")
    mostly = by_text.filter(
        pl.col("ns") >= ONE_PLACE.value * int(gaps["ns"].sum()),
        pl.col("text").ne_missing(pl.lit(case.found.iteration_pattern)),
    )
    return "" if mostly.is_empty() else str(mostly["text"][-1])
