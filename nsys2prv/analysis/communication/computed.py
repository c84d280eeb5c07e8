"""Time in which devices compute while ranks communicate, of all exchanges in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, Times, time_in


def computed_until(
    run: Run, exchanges: pl.DataFrame, window: Spans, columns: Sequence[str], chosen: pl.Expr | None = None
) -> list[Times]:
    """Return for each column of times the time (ns) inside the window that each exchange's devices compute until then.

    It counts from a begin that all columns of an exchange share, so only differences of a row mean something.
    `exchanges`: EXCHANGE; the devices of an NCCL kernel are its own, those of an MPI call all of its task. `chosen`:
    the compute that counts, by columns of WORK (None: all).
    """
    useful = run.work.filter(pl.col("kind").is_in(USEFUL_KINDS), *([] if chosen is None else [chosen]))
    tasks = len(run.tasks)
    axis = axis_over(window, tasks + len(run.devices))
    by_owner = [
        useful.select(by, "start", "end") for by in (pl.col("task").alias("by"), pl.col("device").alias("by") + tasks)
    ]
    spans = covered_by(axis, pl.concat(by_owner), "by", window)
    by = exchanges.select(pl.coalesce(pl.col("device") + tasks, "task")).to_series().to_numpy()
    return [time_in(spans, axis.at(by, exchanges[c].to_numpy())) for c in columns]
