"""The iterations and the window that a question is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.iterations import phases
from nsys2prv.analysis.iterations.iterations_by_repeats import find_repeats
from nsys2prv.analysis.iterations.window import steady
from nsys2prv.analysis.question import Question
from nsys2prv.errors import UsageError
from nsys2prv.families.nvtx.range_patterns import pattern_of
from nsys2prv.intervals.spans import one_span
from nsys2prv.model.words import NAMES_SHOWN, did_you_mean, few, short
from nsys2prv.run.iterations.steady import BUILT_IN_WINDOWS, DEVICE, STEADY, TRACE, Window

# Columns of the work of iterations: a copy of all of them would take much memory.
OCCURRING = ("task", "device", "start", "end", "kind", "launched")


class Located(NamedTuple):
    """Iterations and window of a question.

    `main`: ranges of the main threads; `pattern`: of the iterations, None without any; `steps`: their OCCURRENCE;
    `occurring`: the work launched in each (see phases.projected), OCCURRING of WORK; `found_by`: the work by whose
    repetition they were found, None for ranges.
    """

    main: pl.DataFrame
    pattern: str | None
    steps: pl.DataFrame
    occurring: pl.DataFrame
    window: Window
    found_by: str | None


def locate(run: Run, question: Question) -> Located:
    """Find the iterations and the window of a question. Raises UsageError for a range that no rank has."""
    main = phases.main_ranges(run)
    pattern = question.iteration or phases.find_iterations(main, run.chosen is not None)
    steps = phases.occurrences(main, pattern) if pattern else pl.DataFrame(schema=phases.OCCURRENCE)
    repeats = None if pattern else find_repeats(run)
    if repeats:
        pattern, steps = repeats.milestone, repeats.steps
    if question.iteration and steps.is_empty():
        raise no_range("--iteration", question.iteration, main)
    occurring = phases.projected(run.work.select(OCCURRING), steps)
    # Between calls of MPI all the time counts (see run/iterations/milestones.py).
    bounding = occurring.clear() if repeats and repeats.of_calls else occurring
    window = _window(run, main, question.window, steps, bounding)
    return Located(main, pattern, steps, occurring, window, repeats.milestone if repeats else None)


def _window(run: Run, main: pl.DataFrame, name: str, steps: pl.DataFrame, bounding: pl.DataFrame) -> Window:
    """Return the window of a name; `bounding`: the work that bounds iterations. Raises UsageError if no rank has it."""
    if name == STEADY:
        return steady(run, main, steps, bounding)
    if name == DEVICE:
        return Window(name, one_span(*run.active))
    if name == TRACE:
        return Window(name, one_span(*(run.chosen or (0, run.duration))))
    found = phases.occurrences(main, name)
    if found.is_empty():
        raise no_range("--window", name, main, BUILT_IN_WINDOWS)
    return Window(name, one_span(int(found["start"].min()), int(found["end"].max())))  # type: ignore[arg-type]


def no_range(option: str, name: str, main: pl.DataFrame, others: Sequence[str] = ()) -> UsageError:
    """Return the error that no main thread has a range of a name, with the ranges that there are.

    `others`: names that the option knows beside ranges, which may be meant.
    """
    texts = main.select(pattern_of(pl.col("text")))["text"].unique().sort().to_list()
    near, known = did_you_mean(name, [*others, *texts]), few(texts, NAMES_SHOWN) or "none"
    cause = f"{option} {short(name)!r}: no rank's main thread has such a range{near}"
    return UsageError(f"{cause}; the ranges there are: {known}")
