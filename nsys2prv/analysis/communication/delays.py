"""Delays of single iterations: a rank took longer for a phase than the others, and longer than it usually does.

The time of a phase is the host's, without what the thread of its ranges waits in synchronization and MPI calls: waiting
for a late rank is no delay of one's own. The kernels of an iteration count as a phase of their own: slow ones are a
delay for which the host waits.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import MPI, Run
from nsys2prv.analysis.graph.device_waits import recorded_wait
from nsys2prv.analysis.interval_frames import covered, covered_by, covered_time
from nsys2prv.analysis.iterations.phases import phase_ranges, projected
from nsys2prv.analysis.iterations.window import first_and_last
from nsys2prv.families.nvtx.range_patterns import pattern_of
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Spans, time_in
from nsys2prv.run.iterations.steady import MAD_TO_SIGMA

# Lowest length of a delay, as a part of the usual iteration, and in multiples of the usual spread of its phase.
LEAST_SHARE_OF_ITERATION, LEAST_SPREADS = 0.02, 10.0
# Lowest number of iterations from which the usual time of a rank is known: of many ranks, and of two.
FEWEST_ITERATIONS_OF_MANY, FEWEST_ITERATIONS_OF_TWO = 2, 3
# The time of an iteration that is in none of its phases.
REST = "(outside its ranges)"
# The time in which the device computes for an iteration.
KERNELS = "(kernels)"

# `usual_ns` is the longer of two medians: of the rank's other iterations, and of the other ranks in this one.
DELAY = {
    "rank": pl.Int64(),
    "iteration": pl.Int64(),
    "repeat": pl.Int64(),
    "phase": pl.String(),
    "delay_ns": pl.Int64(),
    "own_ns": pl.Int64(),
    "usual_ns": pl.Int64(),
}

_KEY = ["task", "repeat", "number"]


def delays(run: Run, main: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return DELAY of each rank, iteration and phase that was late, the longest first.

    `main`: ranges of the main threads; `steps`: OCCURRENCE of the steady iterations. Two ranks are enough, if they have
    three iterations or more; of more ranks two iterations are. For phases of the host, iterations that a host thread
    began before all ranks recorded do not count: it may have waited for the others in any call.
    """
    if steps["task"].n_unique() < 2:
        return pl.DataFrame(schema=DELAY)
    times = first_and_last(run)
    begun = max((times[task][0] for task in run.rank_tasks if task in times), default=0)
    early = steps.filter(pl.col("start") < begun)
    later = steps.join(early, on=["repeat", "number"], how="anti", maintain_order="left")
    known = [cells for cells in (_phase_times(run, main, later), _kernel_times(run, steps)) if _are_enough(cells)]
    if not known:
        return pl.DataFrame(schema=DELAY)
    cells = pl.concat(known)
    medians = _median_of_others(cells, ["task", "phase"], "own_usual")
    medians = _median_of_others(medians, ["repeat", "number", "phase"], "their_usual").drop_nulls("own_usual")
    usual = medians.with_columns(usual=pl.max_horizontal("own_usual", "their_usual"))
    # Ranks may differ always: the spread is that around the median of each.
    own_median = pl.col("own").median().over("task", "phase")
    over = usual.with_columns(delay=pl.col("own") - pl.col("usual"), away=(pl.col("own") - own_median).abs())
    spread = over.with_columns(spread=MAD_TO_SIGMA * pl.col("away").median().over("phase"))
    length = float(np.median((steps["end"] - steps["start"]).to_numpy()))
    least = pl.lit(LEAST_SHARE_OF_ITERATION * length)
    late = spread.filter(pl.col("delay") > pl.max_horizontal(least, LEAST_SPREADS * pl.col("spread")))
    return late.select(
        rank=run.rank_of("task"),
        iteration="number",
        repeat="repeat",
        phase="phase",
        delay_ns=pl.col("delay").cast(pl.Int64),
        own_ns="own",
        usual_ns=pl.col("usual").cast(pl.Int64),
    ).sort("delay_ns", "rank", "iteration", descending=[True, False, False])


def _are_enough(cells: pl.DataFrame) -> bool:
    """Return True if the ranks and iterations are enough to know what is usual."""
    ranks, count = cells["task"].n_unique(), cells.select("repeat", "number").n_unique()
    return ranks > 1 and count >= (FEWEST_ITERATIONS_OF_MANY if ranks > 2 else FEWEST_ITERATIONS_OF_TWO)


def _median_of_others(cells: pl.DataFrame, over: list[str], name: str) -> pl.DataFrame:
    """Add a column: for each row the median of `own` over its group's other rows, null where there is none.

    In a sorted group of n, the row at position k sees the middle of the others at (n - 2) / 2 and (n - 1) / 2, one
    further from position k on.
    """
    count, position = pl.len().over(over).cast(pl.Int64), pl.col("own").rank("ordinal").over(over).cast(pl.Int64) - 1
    placed = cells.with_columns(count=count, position=position)
    at = placed.select(*over, "position", value="own")
    for column, middle in (("low", (pl.col("count") - 2) // 2), ("high", (pl.col("count") - 1) // 2)):
        wanted = middle + (pl.col("position") <= middle).cast(pl.Int64)
        placed = placed.with_columns(wanted=wanted).join(
            at.rename({"value": column}), left_on=[*over, "wanted"], right_on=[*over, "position"], how="left"
        )
    median = pl.when(pl.col("count") > 1).then((pl.col("low") + pl.col("high")) / 2)
    return placed.with_columns(median.alias(name)).drop("count", "position", "wanted", "low", "high")


def _phase_times(run: Run, main: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return task, repeat, number, phase and `own`: the host's time in each phase (ns), without waiting."""
    axis = axis_over(covered(steps), len(run.tasks))
    waits, inner = _waiting(run.calls, main, axis), phase_ranges(main, steps)
    each = inner.with_columns(phase=pattern_of(pl.col("text")), own=_without(inner, waits, axis))
    in_phases = each.group_by(*_KEY, "phase").agg(pl.sum("own"))
    whole = steps.select(*_KEY, whole=_without(steps, waits, axis))
    inside = in_phases.group_by(_KEY).agg(inside=pl.sum("own"))
    rest = whole.join(inside, on=_KEY, how="left").select(
        *_KEY, phase=pl.lit(REST), own=pl.col("whole") - pl.col("inside").fill_null(0)
    )
    return pl.concat([in_phases.select(rest.columns), rest])


def _kernel_times(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of `_phase_times` for KERNELS: the time in which kernels of each iteration compute (ns)."""
    computing = run.work.filter(pl.col("kind").is_in(USEFUL_KINDS)).select("task", "start", "end", "launched")
    launched = projected(computing, steps)
    times = launched.sort("start").group_by(_KEY, maintain_order=True).agg(own=covered_time())
    return times.select(*_KEY, phase=pl.lit(KERNELS), own="own")


def _waiting(calls: pl.DataFrame, main: pl.DataFrame, axis: Axis) -> Spans:
    """Return the spans, on an axis of the tasks, in which threads of `main` wait for their device or for other ranks.

    `main`: ranges of the main threads. Another thread may wait while the phase goes on, and delays nobody.
    A call that waits for a whole device without a record of it is no such wait: it is the shorter, the later it begins,
    and so takes up the jitter of the host before it, which delays nobody.
    """
    own = calls.join(main.select("task", "row").unique(), on=["task", "row"], how="semi", maintain_order="left")
    return covered_by(axis, own.filter(recorded_wait() | (pl.col("kind") == MPI)), "task")


def _without(frame: pl.DataFrame, waits: Spans, axis: Axis) -> pl.Series:
    """Return the lengths (ns) of ranges without `waits`, see `_waiting`."""
    start, end = (axis.at(frame["task"].to_numpy(), frame[c].to_numpy()) for c in ("start", "end"))
    return pl.Series("own", end - start - (time_in(waits, end) - time_in(waits, start)))
