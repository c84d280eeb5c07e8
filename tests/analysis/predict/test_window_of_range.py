"""Predictions for a window that a range names are of the iterations that it is about."""

from __future__ import annotations

import polars as pl
import pytest
from programs import UNIT, program

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.iterations.phases import OCCURRENCE
from nsys2prv.analysis.iterations.window import iterations_in_ranges
from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.question import Question
from nsys2prv.commands.whatif import predictions_of

# Each step decodes, and one saves what it has; rank 1 begins its ranges later.
PICTURE = """
0| k @0 2-500, k @10 500-990, decode 100-900
1| k @0 2-500, k @10 500-990, decode 150-950
"""
SAVES = "k @0 2-500, k @10 500-990, save 200-300"


@pytest.mark.parametrize(
    ("window", "iterations"),
    [
        ("step 3", [3]),
        ("save", [4]),
        ("decode", [0, 1, 2, 3, 5]),
        ("trace", [*range(6)]),
        ("steady", [*range(6)]),
    ],
)
def test_a_window_of_a_range_has_the_iterations_that_it_is_about(window: str, iterations: list[int]) -> None:
    run = program(PICTURE, step4_rank0=SAVES, step4_rank1=SAVES)
    found = predictions_of(run, Question(window=window), [parse_change("kernel*0.5")])
    assert found.iterations["iteration"].to_list() == iterations


@pytest.mark.parametrize(
    ("window", "predicted", "held"),
    [
        # The window begins and ends with a range, within the first and the last iteration.
        ("decode", [0, 1, 2, 3, 5], [*range(6)]),
        ("step 3", [3], [3]),
        ("save", [4], [4]),
        ("steady", [*range(6)], [*range(6)]),
    ],
)
def test_findings_in_a_window_of_a_range_count_the_gains_of_the_iterations_that_whatif_predicts(
    window: str, predicted: list[int], held: list[int]
) -> None:
    run = program(PICTURE, step4_rank0=SAVES, step4_rank1=SAVES)
    found = analyze_run(run, Question(metrics=(), window=window))
    case = case_of(found)
    (one,) = (one for one in found.explanation.predictions if one.changes == ("host=0",))
    assert case.held(one.iterations)["iteration"].to_list() == predicted
    assert case.held(found.iterations)["iteration"].unique().sort().to_list() == held


def test_no_iteration_counts_in_a_window_of_a_range_in_none_of_them() -> None:
    run = program(PICTURE, longer={5: 300}, step5_rank0="k @0 2-500, save 1100-1200")
    found = analyze_run(without_end(run), Question(metrics=(), window="save"))
    assert case_of(found).held(found.iterations).is_empty()


def test_a_range_in_no_iteration_is_about_all_of_them() -> None:
    run = program(PICTURE, longer={5: 300}, step5_rank0="k @0 2-500, save 1100-1200")
    found = predictions_of(without_end(run), Question(window="save"), [parse_change("kernel*0.5")])
    assert found.iterations["iteration"].to_list() == [*range(6)]


def without_end(run: Run) -> Run:
    """The run with a last step that lasts as long as the others, so that the time behind it is of none."""
    end = pl.when(pl.col("text") == "step 5").then(pl.col("start") + 1000 * UNIT).otherwise("end")
    return run._replace(ranges=run.ranges.with_columns(end=end))


def test_ranks_that_are_apart_count_each_by_its_own_ranges() -> None:
    """Rank 1 is 1.2 iterations behind: over both ranks, `step 3` covers parts of 2 and 4, too."""
    begins = [(task, n, 100 * n + behind) for task, behind in ((0, 0), (1, 120)) for n in range(6)]
    rows = [(task, n, 0, begin, begin + 100, f"step {n}") for task, n, begin in begins]
    steps = pl.DataFrame(rows, schema=OCCURRENCE, orient="row")
    assert iterations_in_ranges(steps, steps.filter(number=3)) == ((3, 0),)
    apart = steps.filter(pl.col("number").is_in([1, 4]))
    assert iterations_in_ranges(steps, apart) == ((1, 0), (4, 0))
