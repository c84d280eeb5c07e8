"""What is said of ranks that the reports show only in part: later than others, or not in a chosen time."""

from __future__ import annotations

import polars as pl
import pytest
from programs import UNIT, program

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.conclude import conclude
from nsys2prv.analysis.frames import Run, restricted
from nsys2prv.analysis.iterations.window import first_and_last
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.sentences import window_name
from nsys2prv.intervals.spans import Span

USUAL = "k @0 5-500, n @400 500-505, wait 410-506"
# Ranks 1 and 2 begin to record 19.45 ms after rank 0, and come at once to the AllReduce that it is in since 5 ms.
BEGUN = 1945


def begun_later() -> Run:
    """Three ranks, of which one begins to record within the first iteration of another, which waits for them."""
    lines = "\n".join(f"{rank}| {USUAL}" for rank in range(3))
    early = {"step0_rank0": "k @0 5-500, n @400 500-1955, wait 410-1960"}
    late = {f"step0_rank{rank}": f"n @1940 1950-1955, wait {BEGUN}-1960" for rank in (1, 2)}
    run = program(lines, longer={0: 1000}, **early, **late)
    kept = (pl.col("task") == 0) | (pl.col("start") >= BEGUN * UNIT)
    return run._replace(ranges=run.ranges.filter(kept))


@pytest.mark.parametrize(
    ("unchosen", "others"),
    [((1,), "rank 1, which was not chosen"), ((1, 2, 3), "others of ranks 1 to 3, which were not chosen")],
)
def test_ranks_that_others_wait_for_and_that_were_not_chosen_are_named(unchosen: tuple[int, ...], others: str) -> None:
    run = program("0| k @0 5-400, n @10 400-905, wait 20-906")
    parts = run.parts.with_columns(last=pl.col("began") + 500 * UNIT, waited_for=pl.lit(None, pl.Int64))
    found = {one.id: one for one in asked(run._replace(parts=parts, unchosen=unchosen), "steady").findings}
    assert found["exposed-waiting"].title == f"Rank 0 waits for {others}, 5.00 ms an iteration"
    assert found["exposed-waiting"].ranks == unchosen
    assert "--ranks" in found["exposed-waiting"].advice


def asked(run: Run, window: str) -> Analysis:
    return conclude(run, Question(window=window, metrics=()))


@pytest.mark.parametrize("window", ["device", "trace"])
def test_waiting_for_ranks_that_do_not_record_yet_is_no_fault_of_theirs(window: str) -> None:
    found = {one.id: one for one in asked(begun_later(), window).findings}
    assert found.keys() & {"late-rank", "late-ranks", "exposed-waiting"} == set()
    assert found["late-capture"].title == (
        "Ranks do not begin to record together: rank 0 began to record 19 ms before the others, and findings leave out "
        "14.4 ms of waiting for ranks that did not record yet"
    )
    assert (found["late-capture"].ranks, found["late-capture"].cost_ns) == ((0,), 0.0)


def test_waiting_for_ranks_that_do_not_record_yet_has_no_cause() -> None:
    causes = asked(begun_later(), "device").explanation.causes
    assert causes["ns"].sum() <= 10 * UNIT


def test_ranks_that_come_late_after_they_began_to_record_are_late() -> None:
    run = begun_later()
    early = run.ranges.filter(pl.col("task") == 0, pl.col("start") == 0)
    others = pl.concat(
        [early.with_columns(task=pl.lit(rank, pl.Int64), row=pl.lit(3 * rank, pl.Int64)) for rank in (1, 2)]
    )
    found = {one.id: one for one in asked(run._replace(ranges=pl.concat([run.ranges, others])), "device").findings}
    assert "late-capture" not in found
    assert found["late-rank"].ranks == (1,)


def test_where_only_one_rank_was_recorded_nobody_waits_for_others() -> None:
    run = begun_later()
    whole = {task: Span(*times) for task, times in first_and_last(run).items()}
    part = restricted(run._replace(recorded=whole), 600 * UNIT, 1600 * UNIT)
    found = asked(part, "steady")
    assert window_name(found) == "the time in which only rank 0 recorded"
    assert {one.id for one in found.findings} == {"late-capture", "missing-data"}
