"""Passes of numbered ranges: the numbers of iterations begin again, as those of the batches of each epoch."""

from __future__ import annotations

import polars as pl


def repeats_of(ranges: pl.DataFrame) -> pl.Series:
    """Return how many times the number of each range came before (Int64), in the order of `ranges`.

    `ranges`: task, start (ns), number and `stem`, the text but for the number. Ranges of several tasks belong
    together if number and repeat are equal. Therefore a pass counts as a whole: recording may begin within a first
    epoch, of which the numbers 5, 6 and 7 are known, and 0 to 7 of the next one all have the repeat 1. A new pass
    begins where the rest of the text changes, or where a number is smaller than the one before it, if numbers come
    again at all.
    """
    by = ["task", "stem"]
    own = ranges.select("task", "stem", "start", "number").with_row_index("at").sort(*by, "start", "at")
    own = own.with_columns(
        falls=(pl.col("number") < pl.col("number").shift(1).over(by)).fill_null(False).cast(pl.Int64),
        again=(pl.len().over(*by, "number") > 1).any().over("stem"),
        begun=pl.col("start").min().over("stem"),
    )
    own = own.with_columns(passed=pl.when("again").then(pl.col("falls").cum_sum().over(by)).otherwise(0))
    # A number that one task has twice within a pass, as of an iteration that was tried again.
    own = own.with_columns(nth=pl.int_range(pl.len()).over(*by, "passed", "number"))
    repeat = pl.struct("begun", "stem", "passed", "nth").rank("dense").cast(pl.Int64) - 1
    return own.with_columns(repeat=repeat).sort("at")["repeat"]
