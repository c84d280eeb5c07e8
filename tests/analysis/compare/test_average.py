"""The average iteration of two runs: it decides where a few long iterations take most of a run."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from nsys2prv.analysis.compare.average import average
from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.conditions import condition_of, judge
from nsys2prv.analysis.compare.run_figures import RunFigures
from nsys2prv.analysis.iterations.iteration_times import ITERATION

MS = 1_000_000
# Of 20 iterations of 10 ms or so, some with a pause of the host behind them.
SPREAD = [10.0, 10.2, 9.8, 10.1, 9.9] * 4


def run_of(times: Sequence[float], numbers: Sequence[int] | None = None) -> pl.DataFrame:
    """ITERATION of one rank: from the begin of an iteration to that of the next one so many ms; each lasts 9 ms."""
    starts = [round(sum(times[:n]) * MS) for n in range(len(times))]
    known = {"iteration": numbers or range(len(times)), "start_ns": starts, "total_ns": 9 * MS, "compute_ns": 9 * MS}
    rows = pl.DataFrame({"iteration": known.pop("iteration")}).with_columns(start_ns=pl.Series(known.pop("start_ns")))
    filled = {name: pl.lit(known.get(name, 0)) for name in ITERATION if name not in rows.columns}
    return rows.with_columns(**filled).select(pl.col(name).cast(kind) for name, kind in ITERATION.items())


def paused(pause: float, *after: int) -> list[float]:
    return [time + pause * (n in after) for n, time in enumerate(SPREAD)]


def compared(a: Sequence[float], b: Sequence[float]) -> Comparison:
    runs = [run_of(one).with_columns(steady=pl.lit(True)) for one in (a, b)]
    sides = [RunFigures("a", ("app",), 1, 1, "communication", "steady", 20, "step #", {}, run) for run in runs]
    return Comparison(*sides)


def test_the_average_is_from_begin_to_begin() -> None:
    """An iteration before one that is left out lasts to its own end."""
    found = average(run_of([10, 30, 10, 10]), run_of([10, 90, 10, 10], numbers=[0, 1, 5, 6]))
    assert (found.a / MS, found.b / MS) == ((10 + 30 + 10 + 9) / 4, (10 + 9 + 10 + 9) / 4)
    assert (found.long, found.iterations) == ((1, 0), (4, 4))


@pytest.mark.parametrize(
    ("before", "after", "decides"),
    [
        (paused(100, 4, 9, 14), SPREAD, True),
        # Two may be chance.
        (paused(100, 4, 9), SPREAD, False),
        # So short a pause changes the average by less than 5 % more than the median.
        (paused(3, 4, 9, 14), SPREAD, False),
        # As many of other lengths.
        (paused(100, 4, 9, 14), paused(50, 4, 9, 14), True),
        ([2 * time for time in SPREAD], SPREAD, False),
    ],
    ids=["three", "two", "short", "shorter", "all"],
)
def test_the_average_decides_where_long_iterations_do(before: list[float], after: list[float], decides: bool) -> None:
    assert average(run_of(before), run_of(after)).decides == decides


def test_a_host_that_runs_ahead_says_nothing_of_the_average() -> None:
    """It begins some iterations one after another, and then waits for the device."""
    ahead = run_of([*([1.0] * 4 + [10.0]) * 4]).with_columns(total_ns=pl.lit(MS))
    found = average(ahead, run_of(SPREAD))
    assert found.a == 9 * MS
    # The wait is as long as a usual iteration.
    assert (found.long, found.decides) == ((0, 0), False)


def test_too_few_iterations_decide_nothing() -> None:
    """One of the first run cannot be told from three long ones of the other."""
    found = compared([10.0], [10.0, 90.0] * 3 + [10.0])
    assert found.significance.average is not None
    assert (found.significance.average.decides, found.verdict.change) == (False, "unknown")


def test_averages_that_are_alike_are_no_difference() -> None:
    """The usual iteration takes 6 % longer, and the long ones as much less."""
    before, after = ([*([usual] * 6 + [long]) * 3, usual] for usual, long in ((100.0, 300.0), (106.0, 264.0)))
    found = compared(before, after)
    assert found.significance.average is not None
    assert (found.significance.average.decides, found.verdict.change) == (True, "none")


def test_the_verdict_and_the_gate_go_by_the_average_that_decides() -> None:
    """Neither do they take the run without pauses for slower, whose usual iterations are."""
    slower = [1.04 * time for time in SPREAD]
    better, worse = compared(paused(100, 4, 9, 14), slower), compared(slower, paused(100, 4, 9, 14))
    assert (better.verdict.change, worse.verdict.change) == ("faster", "slower")
    assert better.verdict.text.startswith(
        "B is faster: an iteration takes 10.335 ms on average instead of 24.955 (-58.6 %); "
        "long ones are 3 of 20 in A and none of 20 in B. The usual one (median) takes 9.000 ms instead of 9.000"
    )
    gate = [condition_of("iteration > 3%")]
    assert [judge(one, gate)[0].holds for one in (better, worse)] == [False, True]
    assert judge(worse, gate)[0].text.endswith("long ones are none of 20 in A and 3 of 20 in B")
