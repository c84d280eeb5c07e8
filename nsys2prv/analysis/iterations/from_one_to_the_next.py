"""From when to when iterations count, so that they add up to the time of a run."""

from __future__ import annotations

import polars as pl

# Share of the iterations that must still run when the one after the next begins, for ends to tell their lengths.
LEAST_OVERLAPPING = 0.5


def overlap_on_devices(spans: pl.DataFrame) -> bool:
    """Return True if most iterations still run when the one after the next begins.

    Begins say nothing of the pace of such a run: its host launches copies far ahead of the kernels that use them.
    `spans`: repeat, number, and start and end (ns) over all ranks, of all iterations.
    """
    begun = pl.col("start").shift(-2).over("repeat") < pl.col("end")
    follows = pl.col("number").shift(-2).over("repeat") == pl.col("number") + 2
    ordered = spans.sort("repeat", "start", "number")
    share = ordered.select((begun & follows).sum() / follows.sum()).item()
    return share is not None and share > LEAST_OVERLAPPING


def from_one_to_the_next(spans: pl.DataFrame, by_ends: bool) -> pl.DataFrame:
    """Return the iterations in order of time, with `begin` and `until` (ns).

    They last from their begin to that of the next one; without a next one to their own end. `by_ends`: from the end of
    the one before to their own; without one before from their own begin. `spans`: see `overlap_on_devices`.
    """
    # Those that a chosen time cuts begin together. A lower number may come later, as where a run was recorded from the
    # middle of an epoch on.
    ordered = spans.sort("repeat", "start", "number")
    if by_ends:
        follows = pl.col("number").shift(1).over("repeat") == pl.col("number") - 1
        ordered = ordered.with_columns(row=(~follows.fill_null(False)).cum_sum())
        # In steps: a window within a window is an error of older Polars.
        ordered = ordered.with_columns(until=pl.col("end").cum_max().over("row"))
        before = pl.col("until").shift(1).over("row")
        return ordered.with_columns(begin=pl.coalesce(before, "start")).drop("row")
    goes_on = pl.col("number").shift(-1).over("repeat") == pl.col("number") + 1
    after = pl.when(goes_on).then(pl.col("start").shift(-1).over("repeat"))
    return ordered.with_columns(begin="start", until=pl.coalesce(after, "end"))
