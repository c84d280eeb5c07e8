"""Launch queues: the work that the host has launched on each stream and that has not begun."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import Run

# A stream by `by` columns of the caller's, and the number of activities that wait on it from `start` to `end` (ns).
# Times without waiting work are left out.
WAITING = {"start": pl.Int64(), "end": pl.Int64(), "waiting": pl.Int64()}


def waiting_work(run: Run) -> pl.DataFrame:
    """Return the activities of known launch: task, row, stream (its label), `begin` (launch) and `end` (ns)."""
    stream = pl.col("row").replace_strict(dict(enumerate(run.streams)), default="", return_dtype=pl.String)
    # The clocks of host and device may disagree by a little.
    end = pl.max_horizontal("start", "launched")
    known = run.work.filter(pl.col("launched").is_not_null())
    return known.select("task", "row", stream=stream, begin="launched", end=end)


def queue_lengths(waiting: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Return `by` and WAITING, in order. `waiting`: `by`, begin and end of each activity's wait.

    An activity that begins when the next is launched does not wait any more.
    """
    steps = pl.concat(
        [waiting.select(*by, time=side, step=pl.lit(step, pl.Int64)) for side, step in (("begin", 1), ("end", -1))]
    )
    changes = steps.group_by(*by, "time").agg(pl.col("step").sum()).sort(*by, "time")
    levels = changes.with_columns(
        waiting=pl.col("step").cum_sum().over(by), until=pl.col("time").shift(-1).over(by)
    ).filter(pl.col("waiting") > 0)
    return levels.select(*by, start="time", end="until", waiting="waiting")
