"""Combinations of type, value and attributes, which repeat from launch to launch of a kernel.

Each distinct combination is stored once, and points name it by number: it becomes a text once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

# The columns of a combination beside attributes. `intervals`: the number of intervals that have it.
COMBINATION = {"slot": pl.UInt16(), "value": pl.Int64(), "intervals": pl.UInt32()}


def pairs_of(combinations: pl.DataFrame) -> Mapping[str, int]:
    """Count the intervals that have each attribute."""
    attributes = combinations.columns[len(COMBINATION) :]
    counted = (pl.col("intervals").filter(pl.col(a).is_not_null()).sum().alias(a) for a in attributes)
    return combinations.select_seq(counted).row(0, named=True) if attributes else {}


def combinations(rows: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Return the number of each row's combination (UInt32), and the distinct combinations, in no order.

    Columns are slot, value and attributes. An attribute of value 0 counts as null.
    """
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
            intervals = pl.Series("intervals", np.bincount(number), dtype=COMBINATION["intervals"])
            attributes = [pl.when(pl.col(a) != 0).then(pl.col(a)) for a in rows.columns[2:]]
            return at, table.select(*rows.columns[:2], intervals, *attributes)
        seed += 1
