"""Time that threads spend in OS calls while no other thread of their process works for them.

In PyTorch the main thread waits in `pthread_cond_wait` for the thread of its backward pass, and that thread waits for
the main one. A thread that waits for another one, which works, does not wait for the system.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.thresholds import HANDOVER
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Indices, Spans, Times, difference, one_span, time_in

_SYSTEM = pl.col("kind") == "os"


def system_time(run: Run, rows: Indices, axis: Axis) -> Spans:
    """Return the time in which threads wait for the system, outside of calls of any other kind (CUDA, MPI, OpenMP).

    `rows`: rows of the threads, in order; the n-th has the n-th group of the axis.
    """
    calls = run.calls.drop("name").filter(pl.col("row").is_in(pl.Series(rows).implode()))
    calls = calls.with_columns(thread=pl.Series(np.searchsorted(rows, calls["row"].to_numpy())))
    return difference(_outside_of_others(axis, calls, "thread"), _other_works(run, calls.filter(_SYSTEM), axis))


def _other_works(run: Run, calls: pl.DataFrame, axis: Axis) -> Spans:
    """Return the time of OS calls in which the thread that the caller waits for works, on the axis of `thread`.

    That is the thread of the process that launched last before the end of the call. It works

    - until that launch;
    - from then on while it is in no OS call itself, if anything is recorded of it after the call: else it may have
      ended;
    - from then on also in OS calls, if it launched while the caller waited and both wait at once for no longer than
      HANDOVER: it is waking the caller.
    """
    known = calls.with_columns(_last_launch(run, calls)).filter(pl.col("other") != pl.col("row"))
    seen = _last_seen(run, known["other"].unique())
    known = known.join(seen, left_on="other", right_on="row", how="left", maintain_order="left")
    pairs = known.select("thread", "other").unique(maintain_order=True).with_row_index("pair").cast({"pair": pl.Int64})
    own = Axis(axis.low, axis.high, pairs.height)
    known = known.join(pairs, on=["thread", "other"], maintain_order="left")
    waits = _outside_of_others(own, run.calls.join(pairs, left_on="row", right_on="other"), "pair")
    woken = (pl.col("start") < pl.col("launched")) & pl.Series(_wait_together(own, waits, known) <= HANDOVER.value)
    until = known.with_columns(end=pl.when(woken).then("end").otherwise(pl.min_horizontal("end", "launched")))
    alive = known.filter(pl.col("seen") >= pl.col("end"))
    since = alive.with_columns(start=pl.max_horizontal("start", "launched"))
    thread = pairs["thread"].to_numpy()
    both = (covered_by(own, until, "pair"), difference(covered_by(own, since, "pair"), waits))
    group, start, end = (
        np.concatenate([each(spans) for spans in both])
        for each in (lambda s: thread[own.group(s.start)], lambda s: own.time(s.start), lambda s: own.time(s.end))
    )
    return axis.union(group, start, end)


def _wait_together(pairs: Axis, waits: Spans, calls: pl.DataFrame) -> Times:
    """Return how long (ns) the other thread waits, too, in each call after its last launch. `waits`: on the axis."""
    since = calls.select(pl.max_horizontal("start", "launched")).to_series()
    low, high = (pairs.at(calls["pair"].to_numpy(), time.to_numpy()) for time in (since, calls["end"]))
    return time_in(waits, high) - time_in(waits, low)


def _last_launch(run: Run, calls: pl.DataFrame) -> list[pl.Series]:
    """Return `launched`, the last launch of the process before the end of each call (ns), and `other`, its thread."""
    keys = ["task", "launched", "caller_row"]
    launches = run.work.drop_nulls("launched").select(keys).sort(keys)
    axis = axis_over(one_span(min(run.active.start, 0), max(run.active.end, run.duration)), len(run.tasks))
    positions = axis.at(launches["task"].to_numpy(), launches["launched"].to_numpy())
    task = calls["task"].to_numpy()
    at = np.searchsorted(positions, axis.at(task, calls["end"].to_numpy()), side="left") - 1
    # Without any launch, a row of nulls.
    found = (launches if launches.height else launches.clear(1))[np.maximum(at, 0)]
    same = pl.Series(at >= 0) & (found["task"] == pl.Series(task))
    return [
        found.select(pl.when(same).then(column).alias(name)).to_series()
        for column, name in (("launched", "launched"), (pl.col("caller_row").cast(pl.Int64), "other"))
    ]


def _last_seen(run: Run, rows: pl.Series) -> pl.DataFrame:
    """Return row and `seen`, the end of the last call or range or the last launch of some threads (ns)."""
    launches = run.work.drop_nulls("launched").select(pl.col("caller_row").cast(pl.Int64).alias("row"), end="launched")
    own = [frame.select("row", "end").filter(pl.col("row").is_in(rows.implode())) for frame in (run.calls, run.ranges)]
    latest = [frame.group_by("row").agg(pl.col("end").max()) for frame in (*own, launches)]
    return pl.concat(latest).group_by("row").agg(seen=pl.col("end").max())


def _outside_of_others(axis: Axis, calls: pl.DataFrame, by: str) -> Spans:
    """Return the time in OS calls that lies in no call of another kind, on an axis of the groups `by`."""
    times, system = calls.select(by, "start", "end"), calls.select(_SYSTEM).to_series()
    return difference(*(covered_by(axis, times.filter(which), by) for which in (system, ~system)))
