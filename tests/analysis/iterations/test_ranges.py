"""The table of ranges by operation, against what each operation's own ranges launched."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from analysis_cases import run_of, work_of

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.interval_frames import covered, parts_by
from nsys2prv.analysis.iterations.phases import main_ranges, occurrences, projected
from nsys2prv.analysis.iterations.ranges_by_operation import range_sums
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import Span


def test_work_counts_once_for_every_operation_around_its_launch() -> None:
    work = work_of([(0, 10, 30, "kernel", 12), (0, 20, 40, "kernel", 25), (0, 50, 60, "copy", 45)])
    ranges = [
        (0, 0, 0, 40, "step 1"),
        (0, 0, 40, 70, "step 2"),
        (0, 0, 5, 30, "aten::mm, seq = 1, sizes = [4]"),
        (0, 0, 10, 20, "aten::mm, op_id = 9"),
        (0, 0, 32, 35, "fp32"),
    ]
    assert range_sums(work, main_ranges(run_of(work, (), ranges, ranks=1))).drop("host_p99_ns").rows() == [
        ("step #", 2, 70, 3, 40, 35.0, 39.0),
        ("aten::mm", 2, 35, 2, 30, 17.5, 23.5),
        ("fp32", 1, 3, 0, 0, 3.0, 3.0),
    ]


def test_sums_are_those_of_each_pattern_by_itself() -> None:
    """Random ranges of two tasks, nested and crossing, and work on two devices."""
    random = np.random.default_rng(7)
    start, length = random.integers(0, 900, 300), random.integers(1, 200, 300)
    texts = [f"op{n} {k}" for n, k in zip(random.integers(0, 9, 300), random.integers(0, 99, 300), strict=True)]
    ranges = [(n % 2, 0, int(s), int(s + d), t) for n, (s, d, t) in enumerate(zip(start, length, texts, strict=True))]
    at = random.integers(0, 1000, 500)
    work = work_of([(n % 2, int(t), int(t) + n % 40 + 1, "kernel", int(t) - 3) for n, t in enumerate(at)])
    main = main_ranges(run_of(work, (), ranges))
    found = range_sums(work, main)
    assert found.height == 9
    for name, launched, device in found.select("range", "launched", "device_ns").rows():
        own = projected(work, occurrences(main, name))
        assert (launched, device) == (own.height, sum(covered(p).total() for p in parts_by(own, "device").values()))


def test_ranges_of_iterations_count_on_the_host() -> None:
    """The first of six iterations is start-up. Data is loaded in each, and before each but the first.

    A range around all of them counts with its time in the window, a checkpoint after them does not.
    """
    begins = [0, *range(100, 150, 10)]
    steps = [(0, 0, t + 2, t + 9 if t else 99, f"step {n}") for n, t in enumerate(begins)]
    loads = [(0, 0, t + 3, t + 5, "load") for t in begins] + [(0, 0, t, t + 1, "fetch") for t in begins[1:]]
    others = [(0, 0, 0, 200, "training"), (0, 0, 160, 190, "save")]
    work = work_of([(0, t + 7, t + 8 if t else 99, "kernel", t + 6) for t in begins])
    run = run_of(work, (), [*steps, *loads, *others], ranks=1)._replace(active=Span(7, 148), duration=200)
    found = analyze_run(run, Question(metrics=()))
    assert found.window.iterations == tuple((n, 0) for n in range(1, 6))
    assert {name: rest for name, *rest in found.ranges.drop("^host_p.*$").rows()} == {
        "training": [1, 47, 5, 5],
        "step #": [5, 35, 5, 5],
        "load": [5, 10, 0, 0],
        "fetch": [4, 4, 0, 0],
    }


@pytest.mark.parametrize(("window", "steps", "loads"), [("device", 2, 2), ("trace", 2, 2), ("step 1", 1, 1)])
def test_ranges_count_in_the_window_that_is_asked_for(window: str, steps: int, loads: int) -> None:
    ranges = [(0, 0, t, t + 40, f"step {t // 40}") for t in (0, 40)] + [(0, 0, t, t + 5, "load") for t in (0, 45)]
    run = run_of(work_of([(0, 30, 70, "kernel", 12)]), (), ranges, ranks=1)._replace(active=Span(30, 70))
    found = analyze_run(run, Question(window=window, metrics=()))
    assert dict(found.ranges.select("range", "instances").rows()) == {"step #": steps, "load": loads}


def test_no_ranges_and_no_work() -> None:
    assert range_sums(work_of([]), main_ranges(run_of(work_of([])))).rows() == []
    assert isinstance(range_sums(work_of([(0, 1, 2, "kernel", None)]), main_ranges(run_of(work_of([])))), pl.DataFrame)
