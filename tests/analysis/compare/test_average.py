"""The average iteration of two runs: it decides where a few long iterations take most of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from nsys2prv.analysis.compare.average import average
from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.conditions import condition_of, judge
from nsys2prv.analysis.compare.run_figures import RunFigures
from nsys2prv.analysis.compare.significance import Change
from nsys2prv.analysis.compare.stated_finding import StatedFinding
from nsys2prv.analysis.compare.verdict import DecidedBy, decide
from nsys2prv.analysis.compare.verdict_sentences import verdict_sentences
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.analysis.iterations.iteration_times import ITERATION

MS = 1_000_000
# Of 20 iterations of 10 ms or so, some with a pause of the host behind them.
SPREAD = [10.0, 10.2, 9.8, 10.1, 9.9] * 4


def run_of(times: Sequence[float], numbers: Sequence[int] | None = None) -> pl.DataFrame:
    """ITERATION of one rank: from the begin of an iteration to that of the next one so many ms; each lasts 9 ms."""
    starts = pl.Series([round(sum(times[:n]) * MS) for n in range(len(times))])
    rows = pl.DataFrame({"iteration": numbers or range(len(times)), "start_ns": starts, "device_start_ns": starts})
    known = {"total_ns": 9 * MS, "device_ns": 9 * MS, "steady": True}
    filled = {name: pl.lit(known.get(name, 0)) for name in ITERATION if name not in rows.columns}
    return rows.with_columns(**filled).select(pl.col(name).cast(kind) for name, kind in ITERATION.items())


def lengths_of(times: Sequence[float]) -> np.ndarray:
    return iteration_lengths(run_of(times))


def paused(pause: float, *after: int) -> list[float]:
    return [time + pause * (n in after) for n, time in enumerate(SPREAD)]


def compared(a: Sequence[float], b: Sequence[float]) -> Comparison:
    runs = [run_of(one) for one in (a, b)]
    sides = [RunFigures("a", ("app",), 1, 1, "communication", "steady", 20, "step #", {}, run) for run in runs]
    return Comparison(*sides)


def test_an_iteration_is_from_begin_to_begin() -> None:
    """One before one that the reports lack lasts to its own end; one that is left out ends the one before."""
    run = run_of([10, 90, 10, 10], numbers=[0, 1, 5, 6])
    assert [*iteration_lengths(run) / MS] == [10, 9, 10, 9]
    assert [*iteration_lengths(run.with_columns(steady=pl.col("iteration") != 6)) / MS] == [10, 9, 10]
    found = average(lengths_of([10, 30, 10, 10]), iteration_lengths(run))
    assert (found.a / MS, found.b / MS) == ((10 + 30 + 10 + 9) / 4, (10 + 9 + 10 + 9) / 4)
    assert (found.long, found.iterations) == ((1, 0), (4, 4))


def test_an_iteration_begins_on_the_first_device() -> None:
    """Rank 1 begins 2 ms later, rank 2 launches nothing. The last iteration ends with its latest range or device."""
    one = run_of([10, 12])
    late = one.with_columns(rank=pl.lit(1, pl.Int64), device_start_ns=pl.col("device_start_ns") + 2 * MS)
    none = one.with_columns(
        rank=pl.lit(2, pl.Int64), device_start_ns=pl.lit(None, pl.Int64), start_ns=pl.lit(5 * MS, pl.Int64)
    )
    assert [*iteration_lengths(pl.concat([late, one, none])) / MS] == [10, 11]
    # Without device activity on any rank the hosts count.
    hosts = one.with_columns(device_start_ns=pl.lit(None, pl.Int64), device_ns=pl.lit(0, pl.Int64))
    assert [*iteration_lengths(hosts) / MS] == [10, 9]


def test_an_iteration_without_device_activity_does_not_count_beside_others() -> None:
    """The one before it lasts to its own end."""
    run = run_of([10, 10, 10, 10])
    idle = run.with_columns(device_start_ns=pl.when(pl.col("iteration") != 2).then("device_start_ns"))
    assert [*iteration_lengths(idle) / MS] == [10, 9, 9]


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
    assert average(lengths_of(before), lengths_of(after)).decides == decides


def test_a_host_that_runs_ahead_makes_no_iteration_longer() -> None:
    """Each range begins 20 ms before the device, and the host is in it for as long."""
    ahead = run_of(SPREAD).with_columns(start_ns=pl.col("device_start_ns") - 20 * MS, total_ns=pl.lit(20 * MS))
    assert [*iteration_lengths(ahead)] == [*lengths_of(SPREAD)]


def test_a_mean_that_differs_from_the_median_is_told() -> None:
    """Few long iterations decide nothing; what they cost is said all the same."""
    told = compared(paused(100, 4, 9), SPREAD).verdict
    assert told.change == "none"
    assert told.text.startswith(
        "B may be faster, but that is not proven: an iteration takes 9.955 ms on average instead of 19.955 (-50.1 %); "
        "2 of 20 iterations of A are long, none of 20 of B, and fewer than 3 long ones may be chance. The usual one"
    )
    assert "on average" not in compared(SPREAD, SPREAD).verdict.text


@pytest.mark.parametrize(("longer", "told"), [(1.0, False), (1.04, False), (1.1, True)])
def test_a_mean_is_told_in_both_orders_of_two_runs_or_in_none(longer: float, told: bool) -> None:
    """Of 292 ms and 43 ms it was told where the run became slower alone, as a part of the shorter run's time."""
    few_long, slow = np.array([10.0] * 19 + [10 + 200 * (longer - 1)]), np.full(20, 70.0)
    for one, other in ((few_long, slow), (slow, few_long), (few_long, slow / 7), (slow / 7, few_long)):
        assert average(one, other).apart == told


def test_a_mean_is_told_before_the_ranks_that_changed_alone() -> None:
    """It read as the mean time of the rank."""
    found = compared(paused(100, 4, 9), SPREAD)
    changed = [Change(0, 6e6, 7e6, 0.001)]
    tested = found.significance._replace(ranks=tuple(changed))
    text = verdict_sentences(found.a, found.b, tested, decide(tested))
    assert text.index("(-50.1 %)") < text.index(". But rank 0 computes")


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
    assert found.verdict.text.startswith("No difference that counts")


@pytest.mark.parametrize(("longer", "change", "told"), [(1, "none", 0), (1.6, "slower", 1)])
def test_costs_that_spread_are_no_change_where_iterations_take_as_long_on_average(
    longer: float, change: str, told: int
) -> None:
    """A line of less cost contradicted the verdict that no difference counts."""
    times = ([*([usual] * 6 + [long]) * 3, usual] for usual, long in ((100.0, 300.0), (106.0, 264.0 * longer)))
    found = compared(*times)
    costs = (StatedFinding("launch-bound", "high", "Launch-bound", ns) for ns in (50 * MS, 40 * MS))
    found.a, found.b = (run._replace(findings=(one,)) for run, one in zip((found.a, found.b), costs, strict=True))
    assert found.decision.by == DecidedBy.AVERAGE
    assert (found.verdict.change, len(found.changed_findings.changed)) == (change, told)


@pytest.mark.parametrize(("cost", "told"), [(2.0, 1), (3.5, 0)])
def test_a_cost_that_changed_by_a_tenth_of_an_iteration_is_told(cost: float, told: int) -> None:
    found = compared(SPREAD, [0.7 * time for time in SPREAD])
    costs = (StatedFinding("conversions", "medium", "Casts", round(ns * MS)) for ns in (4.0, cost))
    found.a, found.b = (run._replace(findings=(one,)) for run, one in zip((found.a, found.b), costs, strict=True))
    assert len(found.changed_findings.changed) == told


def test_the_verdict_and_the_gate_go_by_the_average_that_decides() -> None:
    """Neither do they take the run without pauses for slower, whose usual iterations are."""
    slower = [1.04 * time for time in SPREAD]
    better, worse = compared(paused(100, 4, 9, 14), slower), compared(slower, paused(100, 4, 9, 14))
    assert (better.verdict.change, worse.verdict.change) == ("faster", "slower")
    assert better.verdict.text.startswith(
        "B is faster: an iteration takes 10.335 ms on average instead of 24.955 (-58.6 %); "
        "3 of 20 iterations of A are long, none of 20 of B. "
        "The usual one (median) takes 10.4 ms instead of 10.1 (+3.0 %"
    )
    gate = [condition_of("iteration > 3%")]
    assert [judge(one, gate)[0].holds for one in (better, worse)] == [False, True]
    assert judge(worse, gate)[0].text.endswith("3 of 20 iterations of B are long, none of 20 of A")


def copied_ahead(pace: float, work: float) -> pl.DataFrame:
    """ITERATION of 15 batches: copies begin every `pace` ms, kernels take `work` ms, one batch after another."""
    times = run_of([pace] * 15)
    ends = pl.Series([round((n + 1) * work * MS) for n in range(15)])
    return times.with_columns(device_ns=ends - times["device_start_ns"], total_ns=pl.lit(round(pace * MS)))


def test_batches_that_are_copied_ahead_last_from_end_to_end() -> None:
    """Their copies began every 4.7 ms, and all that their kernels took was the last one's: +402 % instead of +62 %."""
    ahead = copied_ahead(4.7, 14.5)
    assert [*iteration_lengths(ahead) / MS] == [14.5] * 15
    later = ahead.with_columns(steady=pl.col("iteration") > 3)
    assert [*iteration_lengths(later) / MS] == [14.5] * 11
    found = average(iteration_lengths(ahead), lengths_of([23.5] * 15))
    assert not found.apart


def test_batches_that_are_copied_while_the_one_before_is_computed_last_from_begin_to_begin() -> None:
    one_ahead = run_of([10, 12, 10, 11]).with_columns(device_ns=pl.lit(19 * MS))
    assert [*iteration_lengths(one_ahead) / MS] == [10, 12, 10, 19]


def test_iterations_that_begin_together_are_in_the_order_of_their_numbers() -> None:
    """As those that a chosen time cuts: their order was chance, and with it the mean."""
    run = run_of([0, 5] * 100).with_columns(device_ns=pl.lit(4 * MS), total_ns=pl.lit(4 * MS))
    for order in (run, run.reverse()):
        assert [*iteration_lengths(order) / MS] == [0, 5] * 99 + [0, 4]
