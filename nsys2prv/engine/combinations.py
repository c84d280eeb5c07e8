"""What events have in common: type, value and most attributes repeat, from launch to launch of a kernel.

Each combination of them is kept once, and becomes a text once: points of kernels take a quarter of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl


class Points(NamedTuple):
    """Points sorted by time; those of events have a column `combination`, the number of a row of `combinations`."""

    data: pl.DataFrame
    combinations: pl.DataFrame | None = None


def combinations(rows: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """For each row its number among the distinct ones (`combination`, UInt32), and these, in no particular order."""
    seed = 0
    while True:
        hashes = rows.hash_rows(seed=seed)
        distinct = hashes.unique().sort()
        number = np.searchsorted(distinct.to_numpy(), hashes.to_numpy())
        one_of_each = np.empty(len(distinct), dtype=np.int64)
        one_of_each[number] = np.arange(len(number))
        at, table = pl.Series("combination", number, dtype=pl.UInt32), rows[one_of_each]
        # Should different rows have one hash, another seed tells them apart.
        if table[at].equals(rows):
            return at, table
        seed += 1


def together(parts: Sequence[Points]) -> Points:
    """The points of all parts in order of time, each part's combinations numbered on from those of the parts before."""
    if len(parts) == 1:
        return parts[0]
    tables: list[pl.DataFrame] = []
    data = []
    for points, table in parts:
        if table is not None:
            before = pl.lit(sum(t.height for t in tables), pl.UInt32)
            points = points.with_columns(pl.col("combination") + before)
            tables.append(table)
        data.append(points)
    in_order = pl.concat(data).sort("time", maintain_order=True)
    return Points(in_order, pl.concat(tables, how="diagonal") if tables else None)
