"""Columns of numbers as texts: they take most of the time of writing lines."""

from __future__ import annotations

import numpy as np
import polars as pl

LEAST = np.iinfo(np.int64).min


def texts(values: pl.Series, before: str = "") -> pl.Series:
    """Write the number (Int64) of each row behind `before`; the empty text where it is null.

    Where numbers lie close together, each is made a text once: some seven times as quick as once a row.
    """
    low, high = values.min(), values.max()
    if not isinstance(low, int) or not isinstance(high, int) or high - low > len(values) or low == LEAST:
        return pl.select(pl.concat_str(pl.lit(before), values).fill_null("")).to_series()
    null = low - 1
    nulls = values.null_count() > 0
    at = (values.fill_null(null) if nulls else values).to_numpy() - null
    held = np.zeros(high - null + 1, dtype=np.bool_)
    held[at] = True
    distinct = pl.lit(pl.Series(np.flatnonzero(held) + null))
    written = pl.concat_str(pl.lit(before), distinct)
    if nulls:
        written = pl.when(distinct != null).then(written).otherwise(pl.lit(""))
    number = np.cumsum(held, dtype=np.uint32) - 1
    # One query: starting a second one would cost more than its work.
    return pl.select(written.gather(pl.Series(number[at]))).to_series()
