"""Kernels that a host launches again and again between two waits for its device, as for each input of a server."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.hosts.launcher_waits import waits_of_launchers
from nsys2prv.analysis.facts.thresholds import BETWEEN_WAITS, NEARLY_ALL, WAITS_IN_GRAPH


def kernels_between_waits(case: Case) -> int:
    """Return how many kernels hosts launch between two waits for their devices if these are the same; else 0.

    Kernels are the same by their number and names. BETWEEN_WAITS kernels or fewer are a step of a loop.
    """
    waits = waits_of_launchers(case).select("row", wait="start").unique().sort("wait")
    launched = case.kernels.select("launched", "name", row="caller_row").drop_nulls().sort("launched")
    if waits.is_empty() or launched.is_empty():
        return 0
    placed = launched.join_asof(waits, left_on="launched", right_on="wait", by="row", check_sortedness=False)
    # The order within a row of kernels does not matter: sums of hashes are the same.
    names = pl.col("name").to_physical().hash().sum()
    rows = placed.group_by("row", "wait").agg(names=names, kernels=pl.len())
    alike = rows.group_by("kernels", "names").len().sort(pl.col("kernels") * pl.col("len"), descending=True)
    kernels, _, count = alike.row(0)
    many = count >= WAITS_IN_GRAPH.value * case.step_count and kernels > BETWEEN_WAITS.value
    if not many or kernels * count < NEARLY_ALL.value * launched.height:
        return 0
    return int(kernels)
