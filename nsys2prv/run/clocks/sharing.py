"""Check that reports of one host name can share a clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nsys2prv.run.clocks.estimate import location
from nsys2prv.run.clocks.observations import PER_PAIR, by_unit, chosen_pairs, common

# Reports of one host name are from several hosts if their times differ by more (ns), and more than this share (and this
# number) of their operations would end in one report before they began in another.
DISAGREEMENT_NS = 100_000
DISAGREEING_SHARE = 0.05
FEWEST_DISAGREEING = 2


def disagreeing(anchors: pl.DataFrame, hosts: Sequence[Sequence[int]]) -> set[int]:
    """Find hosts (numbers) whose reports' stated times contradict each other beyond doubt.

    Containers on other hosts may share a name. `hosts` lists the reports of each.
    """
    number = np.zeros(1 + max((r for reports in hosts for r in reports), default=0), dtype=np.int64)
    for host, reports in enumerate(hosts):
        number[list(reports)] = host
    ends = anchors.filter(pl.col("kind") == "collective")
    host_of = pl.Series(number[ends["report"].to_numpy()])
    ends = ends.with_columns(host=host_of, unit="report", epoch="origin")
    # Most runs end here: no rank leaves before the last rank of its host has entered.
    entered = pl.col("start").max().over("operation", "host")
    suspects = ends.filter(pl.col("end") < entered)["host"].unique()
    return {h for h in suspects if _disagree(ends.filter(pl.col("host") == h))}


def _disagree(ends: pl.DataFrame) -> bool:
    """Return True if any two reports of a host contradict each other. `ends`: of collectives, by report."""
    operations = by_unit(ends, ("collective",))
    rows = common(operations, chosen_pairs(operations))
    return any(_apart(part) for part in rows.partition_by("a", "b"))


def _apart(rows: pl.DataFrame) -> bool:
    """Return True if the times of two reports (rows of `common`) contradict each other beyond doubt."""
    early = rows.filter((pl.col("end_a") < pl.col("start_b")) | (pl.col("end_b") < pl.col("start_a"))).height
    if early < max(FEWEST_DISAGREEING, DISAGREEING_SHARE * rows.height):
        return False
    difference = (rows["end_a"] - rows["end_b"]).sort().gather_every(max(rows.height // PER_PAIR, 1)).to_numpy()
    return abs(location(difference.astype(np.float64)).value) > DISAGREEMENT_NS
