"""Where few iterations hold nearly all of a time, as of garbage collections, findings say so."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from programs import Sampled, findings_of, program, with_samples

from nsys2prv.analysis.facts.few_iterations import in_few

PYTHON = "python3.12"
UNKNOWN = (f"[{PYTHON}]", PYTHON, range(700, 2300, 20))
UNTRACKS = ("_PyDict_MaybeUntrack", PYTHON, range(705, 2300, 320))
LIBRARY = ("[libtorch_python.so]", "libtorch_python.so", range(710, 2300, 50))
MAY_BE = "; that may be garbage collection (gc.freeze()"
IS = "; the collector is among them: garbage collection (gc.freeze()"
LATE = (2, 7, 12)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([0] * 7 + [50, 40, 60], " (nearly all in 3 of 10 iterations)"),
        # Four hold nine tenths, and six are like these.
        ([0] * 10 + [50] * 6, " (nearly all in 6 of 16 iterations)"),
        # One holds 71 %, and seven are needed.
        ([0] * 11 + [5] * 8 + [100], " (nearly all in 7 of 20 iterations)"),
        ([2] * 10 + [100, 100], " (nearly all in 2 of 12 iterations)"),
        ([10] * 10 + [30, 30], ""),
        ([0] * 5 + [50] * 5, ""),
        ([0, 0, 0, 50], ""),
        ([0] * 10, ""),
        ([], ""),
    ],
)
def test_a_time_is_of_few_iterations_if_less_than_half_hold_nearly_all(times: list[int], said: str) -> None:
    assert in_few(pl.Series(times, dtype=pl.Int64)) == said


def begins(steps: Sequence[int]) -> list[int]:
    """When steps begin (units) that are 17 ms longer than the others, which take 10 ms."""
    return [1000 * step + 1700 * n for n, step in enumerate(steps)]


def paused(*each: Sampled, steps: Sequence[int] = LATE) -> str:
    """Title and advice where the host of rank 1 pauses for 17 ms in some of 17 iterations."""
    usual = "k @0 5-600, n @601 605-990, wait 602-991"
    changed = {f"step{step}_rank0": usual.replace("990", "2690").replace("991", "2691") for step in steps}
    changed |= {f"step{step}_rank1": "k @0 5-600, n @2400 2405-2690, wait 2401-2691" for step in steps}
    run = program(f"0| {usual}\n1| {usual}", steps=17, longer=dict.fromkeys(steps, 1700), **changed)
    found = findings_of(with_samples(run, *each, row=3, task=1, steps=begins(steps), every=1))["late-rank"]
    assert found.ranks == (1,)
    return f"{found.title}: {found.advice}"


def test_a_rank_that_is_late_in_few_iterations_is_told_so() -> None:
    said = paused()
    assert "an iteration on average (nearly all in 3 of 17 iterations)" in said
    assert "nearly all" not in paused(steps=range(17))


@pytest.mark.parametrize(
    ("each", "says"),
    [
        ((UNKNOWN,), MAY_BE),
        ((UNKNOWN, UNTRACKS), IS),
        ((UNKNOWN, LIBRARY), ""),
        ((UNKNOWN, UNTRACKS, LIBRARY), ""),
        # An interpreter with symbols.
        ((("visit_decref", PYTHON, range(700, 2300, 20)), LIBRARY), IS),
    ],
    ids=["interpreter", "functions of a collection", "library", "both", "symbols"],
)
def test_long_pauses_in_the_interpreter_alone_may_be_garbage_collection(each: tuple[Sampled, ...], says: str) -> None:
    said = paused(*each)
    assert (MAY_BE in said, IS in said) == (says == MAY_BE, says == IS)
    if says:
        assert "gc.collect() at the same step on all ranks)" in said


def test_an_interpreter_that_is_busy_in_each_iteration_collects_no_garbage() -> None:
    said = paused(UNKNOWN, UNTRACKS, steps=range(17))
    assert "(the interpreter; functions unknown)" in said
    assert "garbage" not in said


def test_long_iterations_of_one_process_may_be_garbage_collection() -> None:
    changed = {f"step{step}_rank0": "k @0 5-600, k @2400 2405-2690" for step in LATE}
    run = program("0| k @0 5-600, k @601 605-990", steps=17, longer=dict.fromkeys(LATE, 1700), **changed)
    found = findings_of(with_samples(run, UNKNOWN, steps=begins(LATE), every=1))["long-iterations"]
    assert "(the interpreter; functions unknown); that may be garbage collection (gc.freeze() before" in found.advice
    assert "gc.collect() when nothing waits), or a loop in Python. Move it" in found.advice
