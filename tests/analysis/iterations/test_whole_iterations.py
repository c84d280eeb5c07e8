"""The efficiency of whole iterations: the time between their device work counts, too."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from programs import UNIT, analysis_of, program

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.efficiency import efficiency
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths, whole_iterations
from nsys2prv.analysis.question import Question
from nsys2prv.cli.analysis_text import short_text_of, text_of
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.intervals.spans import one_span
from nsys2prv.page.head import verdict
from nsys2prv.page.tables import tables

# The device computes for 4.9 of 10 ms, all but 0.05 ms of the time from its first to its last work.
HALF = "0| k @0 5-300, k @300 305-500"
# In six iterations, the last of which ends with its range on the host.
WHOLE_NS, COMPUTING_NS = 5995 * UNIT - 1, 6 * 490 * UNIT


@pytest.mark.parametrize(("until", "said"), [(500, True), (960, False)])
def test_the_headline_is_of_whole_iterations_where_much_lies_between_them(until: int, said: bool) -> None:
    screen = verdict_of(analysis_of(program(f"0| k @0 5-300, k @300 305-{until}")), [Path("run")])
    lines = (
        "Window: steady, iterations 0 to 5, 59.950 ms in all, an iteration every 9.992 ms\n",
        "  50 % of it lies between iterations, from their last device work to the next one's first: tables\n"
        "    and cfgs cover the other 29.700 ms\n",
        "Efficiency: 49.0 % = copies 100.0 x orchestration 49.0\n",
        "  of all the time; 99.0 % within iterations, which tables and cfgs have\n",
    )
    assert [line in screen for line in lines] == [said] * 4
    assert ("between iterations" in screen) == said


def test_whole_iterations_are_those_of_the_window_line() -> None:
    found = analysis_of(program(HALF))
    whole = found.whole_efficiency
    assert (whole.window_ns, sum(one.useful_ns for one in whole.devices)) == (WHOLE_NS, COMPUTING_NS)
    assert whole.window_ns == iteration_lengths(found.iterations).sum()
    assert whole.parallel == pytest.approx(COMPUTING_NS / WHOLE_NS)
    assert whole.load_balance * whole.communication * whole.orchestration == pytest.approx(whole.parallel)


def test_work_that_no_iteration_launched_counts_between_them() -> None:
    """It is in the time of the iterations, and in no figure of the window."""
    run = program(HALF)
    # The ranges end 1 ns before those of the next iterations begin.
    second, between = pl.col("start") % (1000 * UNIT) > 300 * UNIT, (pl.col("start") // (1000 * UNIT) + 1) * 1000 * UNIT
    work = run.work.with_columns(launched=pl.when(second).then(between - 1).otherwise("launched"))
    found = analyze_run(run._replace(work=work), Question())
    assert found.window.spans.total() == 6 * 295 * UNIT
    assert sum(one.useful_ns for one in found.efficiency.devices) == 6 * 295 * UNIT
    assert sum(one.useful_ns for one in found.whole_efficiency.devices) == COMPUTING_NS


def test_a_pause_to_an_iteration_that_is_left_out_counts() -> None:
    """The iteration before it lasts up to it. What is left out itself does not count."""
    paused = {5: 500, 6: 30_000}
    found = analysis_of(program("0| k @0 5-990", steps=12, step6_rank0="k @0 5-30000", longer=paused))
    spans = whole_iterations(found.iterations, found.window)
    assert [one.iteration for one in found.window.left_out] == [6]
    assert spans.start.tolist() == [5 * UNIT, (37_500 + 5) * UNIT]
    assert spans.end.tolist() == [6505 * UNIT, 42_500 * UNIT - 1]
    assert spans.total() == iteration_lengths(found.iterations).sum()


def test_whole_iterations_that_overlap_last_from_end_to_end() -> None:
    """Each batch is copied every 2 ms, and computed for 10 ms after the one before; start-up is left out."""
    changed = {f"step{n}_rank0": f"c @0 0-2, k @0 {800 * n + 5}-{800 * n + 1000}" for n in range(12)}
    found = analysis_of(program("0| k @0 5-1000", steps=12, every=200, **changed))
    later = found.iterations.with_columns(steady=pl.col("iteration") > 3)
    window = found.window._replace(spans=one_span(4 * 200 * UNIT, 12_000 * UNIT))
    spans = whole_iterations(later, window)
    assert (spans.start.tolist(), spans.end.tolist()) == ([4000 * UNIT], [12_000 * UNIT])
    assert spans.total() == iteration_lengths(later).sum()


def test_without_iterations_whole_ones_are_the_window() -> None:
    run = program(HALF)
    found = analyze_run(run, Question(window="device"))
    assert found.whole_efficiency == found.efficiency
    assert found.as_json()["whole_iterations"] is None
    assert found.efficiency == efficiency(run.work, run.devices, one_span(*run.active), "communication")


def test_text_json_and_page_agree() -> None:
    found = analysis_of(program(HALF))
    told = found.as_json()["whole_iterations"]
    assert told["efficiency"]["parallel"] == found.whole_efficiency.parallel
    assert (told["window_ns"], told["devices"][0]["useful_ns"]) == (WHOLE_NS, COMPUTING_NS)
    rows = [line.split() for line in text_of(found, False, chosen=["efficiency"]).splitlines()]
    assert ["steady", "29.700", "99.0", "100.0", "100.0", "99.0"] in rows
    assert ["whole", "iterations", "59.950", "49.0", "100.0", "100.0", "49.0"] in rows
    assert '<span class="big">49.0 %</span>' in verdict(found)
    of_page = next(one for one in tables(found, found.as_json()) if one.title == "Device efficiency in %")
    assert of_page.columns[0].values[:2] == ["steady", "whole iterations"]
    last = short_text_of(found)
    assert "Parallel efficiency of the devices 99.0 %" in last
    assert "With the time between iterations, 59.950 ms: 49.0 % = copies 100.0 x orchestration 49.0" in last
