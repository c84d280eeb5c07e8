"""How good an alignment is: how far apart ends of one operation lie, and what happens before its cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nsys2prv.run.clocks.clock import Clock

COLLECTIVE = ("collective", "init")


def corrected(anchors: pl.DataFrame, stated: Sequence[Clock], clocks: Sequence[Clock]) -> pl.DataFrame:
    """Anchors of `observations.gather` with their times (on the stated clocks) as the clocks tell them."""
    slope = pl.Series([c.slope - 1 for c in clocks], dtype=pl.Float64)
    offset = pl.Series([c.offset - s.offset for c, s in zip(clocks, stated, strict=True)], dtype=pl.Int64)
    own = anchors["report"].to_numpy()
    rows = anchors.with_columns(by=offset.gather(own), slope=slope.gather(own))
    return rows.with_columns(
        pl.col(c) + pl.col("by") + ((pl.col(c) - pl.col("origin")) * pl.col("slope")).round().cast(pl.Int64)
        for c in ("start", "end")
    ).drop("by", "slope")


def residuals(anchors: pl.DataFrame) -> pl.DataFrame:
    """Of each end of a collective: report, unit, time, residual: ns after the median of all ranks' ends."""
    ends = anchors.filter(pl.col("kind") == "collective")
    middle = pl.col("end").median().over("operation")
    return ends.select("report", "unit", time="end", residual=(pl.col("end") - middle).round().cast(pl.Int64))


def violations(anchors: pl.DataFrame, reports: int) -> list[int]:
    """For each report what it ends before its cause: collectives left before the last rank entered, early receives."""
    entered = pl.col("start").max().over("operation")
    left_early = anchors.filter((pl.col("kind") == "collective") & (pl.col("end") < entered))
    sent, received = (anchors.filter(pl.col("kind") == k).unique("operation", keep="none") for k in ("send", "recv"))
    both = received.join(sent.select("operation", sent="start"), on="operation")
    early = both.filter(pl.col("end") < pl.col("sent"))
    found = np.concatenate([left_early["report"].to_numpy(), early["report"].to_numpy()]).astype(np.int64)
    counts: list[int] = np.bincount(found, minlength=reports).tolist()
    return counts
