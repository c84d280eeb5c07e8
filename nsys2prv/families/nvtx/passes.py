"""Passes of numbered ranges: the numbers of iterations begin again, as those of the batches of each epoch."""

from __future__ import annotations

import polars as pl

# Numbers of iterations rise: passes have so many of them or more, on average.
FEWEST_OF_PASS = 4


def repeats_of(ranges: pl.DataFrame) -> pl.Series:
    """Return the pass that each range belongs to, from 0 (Int64), in the order of `ranges`.

    `ranges`: task, start (ns), number and `stem`, the text but for the number. Ranges of several tasks belong
    together if number and pass are equal. All ranges of a pass have its number: if recording begins with 5, 6 and 7
    of a first epoch, 0 to 7 of the next one are of pass 1. A new pass begins where the rest of the text changes, or
    where a number is smaller than the one before it. Numbers that fall more often than a quarter of the time, or never
    come again, tell no pass: then it is how many times the number came before on the task.
    """
    by = ["task", "stem"]
    own = ranges.select("task", "stem", "start", "number").with_row_index("at").sort(*by, "start", "at")
    own = own.with_columns(
        falls=(pl.col("number") < pl.col("number").shift(1).over(by)).fill_null(False).cast(pl.Int64),
        again=pl.len().over(*by, "number") > 1,
        begun=pl.col("start").min().over("stem"),
    )
    rising = pl.col("again").any().over("stem") & (FEWEST_OF_PASS * pl.col("falls").sum() <= pl.len()).over("stem")
    own = own.with_columns(passed=pl.when(rising).then(pl.col("falls").cum_sum().over(by)).otherwise(0))
    # A number that one task has twice within a pass, as of an iteration that was tried again.
    own = own.with_columns(nth=pl.int_range(pl.len()).over(*by, "passed", "number"))
    repeat = pl.struct("begun", "stem", "passed", "nth").rank("dense").cast(pl.Int64) - 1
    return own.with_columns(repeat=repeat).sort("at")["repeat"]
