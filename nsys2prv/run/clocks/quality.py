"""Quality of an alignment: distances between ends of one operation, and effects before their cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nsys2prv.run.clocks.clock import Clock


def on_clocks(anchors: pl.DataFrame, stated: Sequence[Clock], clocks: Sequence[Clock]) -> pl.DataFrame:
    """Convert shared anchors (see `observations.shared_anchors`) from the stated clocks to the given ones."""
    slope = pl.Series([c.slope - 1 for c in clocks], dtype=pl.Float64)
    offset = pl.Series([c.offset - s.offset for c, s in zip(clocks, stated, strict=True)], dtype=pl.Int64)
    own = anchors["report"].to_numpy()
    rows = anchors.with_columns(by=offset.gather(own), slope=slope.gather(own))
    return rows.with_columns(
        pl.col(c) + pl.col("by") + ((pl.col(c) - pl.col("origin")) * pl.col("slope")).round().cast(pl.Int64)
        for c in ("start", "end")
    ).drop("by", "slope")


def residuals(anchors: pl.DataFrame) -> pl.DataFrame:
    """Return report, time and residual (ns after the median rank) of each end of a collective.

    Of two ranks, it is their distance: each is only half of that from the median.
    """
    ends = anchors.filter(pl.col("kind") == "collective")
    middle, count = pl.col("end").median().over("operation"), pl.len().over("operation")
    away = (pl.col("end") - middle) * pl.when(count == 2).then(2).otherwise(1)
    return ends.select("report", time="end", residual=away.round().cast(pl.Int64))


def violations(anchors: pl.DataFrame, reports: int) -> list[int]:
    """Count effects before their cause by report: collectives left before all entered, early receives."""
    entered = pl.col("start").max().over("operation")
    left_early = anchors.filter((pl.col("kind") == "collective") & (pl.col("end") < entered))
    sent, received = (anchors.filter(pl.col("kind") == k).unique("operation", keep="none") for k in ("send", "recv"))
    both = received.join(sent.select("operation", sent="start"), on="operation")
    early = both.filter(pl.col("end") < pl.col("sent"))
    found = np.concatenate([left_early["report"].to_numpy(), early["report"].to_numpy()]).astype(np.int64)
    counts: list[int] = np.bincount(found, minlength=reports).tolist()
    return counts
