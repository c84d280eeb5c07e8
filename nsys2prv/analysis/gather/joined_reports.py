"""Frames of single reports as one frame of the run, in order of time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from nsys2prv.run.plan import Plan

# The number of the report that a row is from, beside the columns of a frame until the reports are joined.
OF_REPORT = {"report": pl.Int64()}


def join_reports(plan: Plan, parts: list[pl.DataFrame], columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Join parts in order of start. Rows that two reports of one process recorded count once. Empties `parts`."""
    schema = {**OF_REPORT, **columns}
    frame = pl.concat([pl.DataFrame(schema=schema), *parts])
    parts.clear()
    if plan.objects.shared:
        shared = pl.col("task").is_in([t - 1 for t in plan.objects.shared])
        same = ["row", "start", "end", *(c for c in ("kind", "name", "domain", "text") if c in columns)]
        again = pl.when(shared).then(pl.int_range(pl.len()).over([*same, "report"])).otherwise(pl.int_range(pl.len()))
        frame = frame.with_columns(again=again).unique([*same, "again"], keep="first", maintain_order=True)
    order = None if _in_order(frame) else frame.select(pl.arg_sort_by("start", "row", maintain_order=True)).to_series()
    # Column by column, each freed when it is copied: all at once take the memory twice.
    return pl.DataFrame({name: _ordered(frame.drop_in_place(name), order) for name in columns})


def _in_order(frame: pl.DataFrame) -> bool:
    """Return whether rows come in order of start, then of row."""
    start, row = frame["start"].to_numpy(), frame["row"].to_numpy()
    before, after = slice(None, -1), slice(1, None)
    equal = start[before] == start[after]
    return bool(np.all((start[before] < start[after]) | equal & (row[before] <= row[after])))


def _ordered(column: pl.Series, order: pl.Series | None) -> pl.Series:
    return column.rechunk() if order is None else column.gather(order)
