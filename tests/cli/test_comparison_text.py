"""What a comparison prints of runs with iterations, without any, and of one of each."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest
from programs import UNIT, analysis_of, program

from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.conditions import condition_of, judge
from nsys2prv.analysis.compare.run_figures import RunFigures, run_figures
from nsys2prv.analysis.compare.told_figures import SUMMED
from nsys2prv.analysis.iterations.iteration_times import ITERATION
from nsys2prv.cli.comparison_text import comparison_markdown, comparison_text
from nsys2prv.page.page import comparison_page

FIGURES = {
    ("window", "duration_ns"): 9e6,
    ("devices", "useful_ns"): 4e6,
    ("efficiency", "parallel"): 0.5,
    ("class, total_ns", "GEMM"): 4e6,
    ("kernel, total_ns", "gemm"): 4e6,
}
NONE_FOUND = "no iterations found: the recorded time"


def side(name: str, kept: int, figures: Mapping[tuple[str, str], float], window: str = "steady") -> RunFigures:
    pattern = "step #" if kept else None
    rows = pl.DataFrame(schema=ITERATION)
    return RunFigures(name, ("app",), 1, 1, "communication", window, kept, pattern, figures, rows)


def compared(kept: tuple[int, int], window: str = "steady") -> Comparison:
    """Runs with these numbers of iterations. The second one takes a tenth of the time."""
    shorter = {key: value / 10 if key[0] != "efficiency" else 0.9 for key, value in FIGURES.items()}
    return Comparison(side("one", kept[0], FIGURES, window), side("two", kept[1], shorter, window))


@pytest.mark.parametrize(
    ("kept", "window", "heads"),
    [
        ((3, 3), "steady", ("steady, 3 iterations", "steady, 3 iterations")),
        ((3, 0), "steady", ("steady, 3 iterations", NONE_FOUND)),
        ((0, 1), "steady", (NONE_FOUND, "steady, 1 iteration")),
        ((0, 0), "steady", (NONE_FOUND, NONE_FOUND)),
        ((0, 0), "device", ("device", "device")),
    ],
)
def test_a_run_without_iterations_is_not_called_steady(
    kept: tuple[int, int], window: str, heads: tuple[str, str]
) -> None:
    found = compared(kept, window)
    assert f"A: one ({heads[0]})\nB: two ({heads[1]})\n" in comparison_text(found, 10)
    assert f"A: `one` ({heads[0]})  \nB: `two` ({heads[1]})  " in comparison_markdown(found, (), 10)


@pytest.mark.parametrize(("kept", "of"), [((3, 0), "AB"), ((0, 3), "BA")])
def test_sums_over_iterations_and_over_a_recording_are_not_compared(kept: tuple[int, int], of: str) -> None:
    """They were printed beside each other with a change, which was one of the amount of work."""
    found = compared(kept)
    text, page = comparison_text(found, 10), comparison_markdown(found, (), 10)
    why = f"sums over 3 iterations in {of[0]}, and over the recorded time in {of[1]}."
    assert (why in text, why in page) == (True, True)
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("  ")] == [
        ["what", "name"],
        ["efficiency", "parallel"],
    ]
    sums = found.per_iteration.filter(pl.col("what") != "efficiency")
    assert sums["difference"].null_count() == sums["change_percent"].null_count() == sums.height == 4
    assert sums["a"].to_list() == [9e6, 4e6, 4e6, 4e6]
    assert "--window device compares without iterations" in found.verdict.text


@pytest.mark.parametrize(("kept", "told"), [((3, 0), False), ((3, 3), True), ((0, 0), True)])
def test_text_page_and_json_leave_out_the_same_sums(kept: tuple[int, int], told: bool) -> None:
    """The page had the times that the text does not compare, without a word."""
    found = compared(kept)
    page, why = comparison_page(found), found.as_json()["not_compared"]
    assert ("Times of A and B" in page, "Efficiencies of A and B" in page) == (told, True)
    assert ("gemm" in comparison_text(found, 10), why is None) == (told, told)
    assert [f"Not compared: {SUMMED}." in text for text in (page, comparison_text(found, 10), why or "")] == [
        not told
    ] * 3


def test_a_condition_on_sums_of_other_amounts_of_work_cannot_be_told() -> None:
    conditions = [condition_of(text) for text in ("useful > 3%", "gemm < -3%", "parallel > 3%")]
    judged = judge(compared((3, 0)), conditions)
    assert [one.holds for one in judged] == [None, None, True]
    assert judged[0].text == "useful > 3%: cannot be told, it is of other work or time in B"
    assert [one.holds for one in judge(compared((3, 3)), conditions)] == [False, True, True]


@pytest.mark.parametrize(("until", "told"), [(500, True), (960, False)])
def test_the_efficiency_of_whole_iterations_is_told_where_it_is_another(until: int, told: bool) -> None:
    """What is between iterations changes no factor of the window."""
    runs = [program(f"0| k @0 5-300, k @300 305-{end}", every=every) for end, every in ((960, 1000), (until, 1020))]
    found = Comparison(*(run_figures(analysis_of(run), name) for run, name in zip(runs, "ab", strict=True)))
    rows = [line.split() for line in comparison_text(found, 10).splitlines()]
    assert any(row[:3] == ["efficiency", "whole", "iterations"] for row in rows) == told
    assert next(row for row in rows if row[2:6] == ["from", "one", "to", "the"])[8:10] == ["9.992", "10.192"]
    spans = [f"{(end - 5) * UNIT / 1e6:.3f}" for end in (960, until)]
    assert any(row[2:7] == ["from", "first", "to", "last", "activity"] and row[8:10] == spans for row in rows) == told


def test_slight_changes_are_counted_and_percents_have_no_percents() -> None:
    """Those of iterations and efficiencies are told in any case."""
    a = {**FIGURES, ("efficiency", "parallel"): 0.5, ("iteration, mean", "exposed_ns"): 5e6}
    b = {**a, ("class, total_ns", "GEMM"): 4.03e6, ("efficiency", "parallel"): 0.502}
    b |= {("devices", "useful_ns"): 4.08e6, ("iteration, mean", "exposed_ns"): 5.01e6}
    text = comparison_text(Comparison(side("one", 3, a), side("two", 3, b)), 10)
    rows = [line.split() for line in text.splitlines() if line.startswith("  ")][1:]
    assert ["devices", "useful", "ms", "1.333", "1.360", "0.027", "+2.0"] in rows
    assert ["iteration,", "mean", "exposed,", "mean", "of", "ranks", "ms", "5.000", "5.010", "0.010", "+0.2"] in rows
    assert ["efficiency", "parallel", "%", "50.0", "50.2", "0.2"] in rows
    assert len(rows) == 3
    assert text.splitlines()[-1] == (
        "Left out: 2 of 6 figures, which do not differ in the digits that are shown; 1 that change by less than 1 %. "
        "--json has all."
    )


def test_graphs_of_two_runs_are_paired_by_their_time_and_not_by_numbers_of_each_run() -> None:
    a = side("one", 3, {**FIGURES, ("kernel, total_ns", "graph 1"): 2e6, ("kernel, total_ns", "graph 76"): 8e6})
    b = side("two", 3, {**FIGURES, ("kernel, total_ns", "graph 1"): 5e6})
    lines = [line.split("  ") for line in comparison_text(Comparison(a, b), 10).splitlines()]
    rows = [[cell.strip() for cell in cells if cell.strip()] for cells in lines]
    assert ["kernel", "graph, no. 1 by time", "ms", "2.667", "1.667", "-1.000", "-37.5"] in rows
    assert ["kernel", "graph, no. 2 by time", "ms", "0.667"] in rows


def test_empty_cells_are_explained_below_the_table() -> None:
    a = side("one", 3, {**FIGURES, ("kernel, total_ns", "other"): 2e6})
    said = "An empty cell under A or B: that run has no such figure, and there is no change to tell."
    assert said in comparison_text(Comparison(a, side("two", 3, FIGURES)), 10)
    assert "empty cell" not in comparison_text(compared((3, 3)), 10)


@pytest.mark.parametrize(("more", "name"), [({}, "copies"), ({("class, total_ns", "NCCL"): 1e6}, "communication")])
def test_copies_of_a_single_rank_are_no_communication(more: dict[tuple[str, str], float], name: str) -> None:
    a, b = (
        side(run, 3, {**FIGURES, **more, ("efficiency", "communication"): share})
        for run, share in (("one", 0.5), ("two", 0.9))
    )
    rows = [line.split()[:2] for line in comparison_text(Comparison(a, b), 10).splitlines()]
    assert ["efficiency", name] in rows
