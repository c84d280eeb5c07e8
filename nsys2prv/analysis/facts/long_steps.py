"""The iterations that take much longer than the others, as those with a checkpoint or an evaluation do."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.thresholds import FEWEST_PLACES, LONG, MOSTLY_OTHERS, SELDOM
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.iterations.iteration_lengths import iteration_spans
from nsys2prv.intervals.spans import Spans, union

# When the device work of an iteration begins on any rank (ns), or where iterations overlap on devices, when that of the
# one before has ended; and whether the iteration is part of the window.
BEGIN = {"repeat": pl.Int64(), "number": pl.Int64(), "begin": pl.Int64(), "steady": pl.Boolean()}


class LongSteps(NamedTuple):
    """Iterations of the window that take much longer than the others, on the device.

    `lengths`: repeat, number, begin and `ns` (to the begin of the next one) of each iteration of the window, in order
    of time, and whether it is `long`; `usual_ns`: the median of the others. Without any of them `lengths` is empty.
    """

    lengths: pl.DataFrame
    usual_ns: float = 0.0

    @property
    def found(self) -> pl.DataFrame:
        """Return the rows of the long iterations."""
        return self.lengths.filter("long")

    @property
    def spans(self) -> Spans:
        """Return the time of the long iterations."""
        return union(self.found["begin"].to_numpy(), (self.found["begin"] + self.found["ns"]).to_numpy())

    @property
    def excess_ns(self) -> float:
        """Return how much longer than usual the long iterations are, together."""
        return float(self.found["ns"].sum()) - self.found.height * self.usual_ns

    def more_of(self, times: pl.DataFrame) -> float:
        """Return how much longer (ns) a time is in long iterations (the mean) than in the others (the median).

        `times`: repeat, number and ns, of several ranks or devices, whose mean counts.
        """
        key = ["repeat", "number"]
        by_step = times.group_by(key).agg(pl.col("ns").mean())
        timed = self.lengths.select(*key, "long").join(by_step, on=key, how="left").fill_null(0)
        usual, longer = (timed.filter(pl.col("long") == which)["ns"] for which in (False, True))
        return float(longer.mean() or 0) - float(usual.median() or 0)  # type: ignore[arg-type]


NONE_LONG = LongSteps(
    pl.DataFrame(schema={"repeat": pl.Int64, "number": pl.Int64, "begin": pl.Int64, "ns": pl.Int64, "long": pl.Boolean})
)


def steps_of_ranks(run: Run, iterations: pl.DataFrame) -> pl.DataFrame:
    """Return task, repeat, number, start and end (ns) of iterations of ranks, and whether each is `steady`."""
    return iterations.select(
        "repeat",
        "steady",
        task=pl.col("rank").replace_strict(run.task_by_rank, return_dtype=pl.Int64),
        number="iteration",
        start="start_ns",
        end=pl.col("start_ns") + pl.col("total_ns"),
    ).sort("task", "start")


def step_begins(analysis: Analysis) -> pl.DataFrame:
    """Return BEGIN of the iterations in order of time; none of a window without iterations."""
    iterations = analysis.iterations
    if not analysis.window.iterations or not iterations["device_start_ns"].is_not_null().any():
        return pl.DataFrame(schema=BEGIN)
    return iteration_spans(iterations).sort("begin", "repeat", "number").select(*BEGIN)


def long_steps(analysis: Analysis, begins: pl.DataFrame) -> LongSteps:
    """Return the iterations of the window that take LONG times the others or more. `begins`: see step_begins.

    Others are all but SELDOM of them, so that there are no long ones where many take long. There are none, either,
    where a rank waits for others MOSTLY_OTHERS of what they take longer: the rank that is late is the reason.
    """
    if begins.is_empty() or not analysis.explanation.predictions:
        return NONE_LONG
    timed = analysis.explanation.predictions[0].iterations.select("repeat", number="iteration", ns="measured_ns")
    lengths = begins.filter("steady").join(timed, on=["repeat", "number"], maintain_order="left").drop("steady")
    most_of_others = pl.col("ns").quantile(1 - SELDOM.value, "nearest")
    lengths = lengths.with_columns(long=pl.col("ns") >= LONG.value * most_of_others)
    count = int(lengths["long"].sum())
    if lengths.height < FEWEST_PLACES.value or not 0 < count <= SELDOM.value * lengths.height:
        return NONE_LONG
    found = LongSteps(lengths, float(lengths.filter(~pl.col("long")).select(pl.col("ns").median()).item()))
    waits = analysis.iterations.select("rank", "repeat", "exposed_ns", "mpi_ns", number="iteration")
    waits = waits.with_columns(ns=pl.col("exposed_ns") + pl.col("mpi_ns"))
    waiting = max((found.more_of(own) for _, own in waits.group_by("rank")), default=0.0) * count
    return NONE_LONG if waiting > MOSTLY_OTHERS.value * found.excess_ns else found
