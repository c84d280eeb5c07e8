"""Iterations that take much longer than the others: how many, what is in them, and what they cost.

Each program has twelve iterations of 10 ms; every fourth begins 30 ms before the next one in place of 10.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from programs import analysis_of, findings_of, program

from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.cli.first_screen import verdict_of

USUAL = "k @0 5-700, k @5 700-999"
LONGER = {3: 2000, 7: 2000, 11: 2000}


def long_of(line: str, steps: int = 12, **changed: str) -> dict[str, Finding]:
    """Return the findings where a rank runs another line in every fourth iteration, and the next begins later."""
    longer = {step: more for step, more in LONGER.items() if step < steps}
    every = {f"step{step}_rank0": line for step in longer}
    return findings_of(program(f"0| {USUAL}", steps=steps, longer=longer, **(every | changed)))


@pytest.mark.parametrize(
    ("line", "cause", "advice"),
    [
        # The host launches nothing for 20 ms after its last kernel.
        (
            USUAL,
            "the host is busy meanwhile, and the device has no work",
            "See what the host does in them between one `kernel` and the next",
        ),
        (
            f"{USUAL}, cuda:cuLibraryLoadData 2900-2901",
            "code is loaded, as where kernels are compiled for new shapes, and the device has no work",
            "Keep shapes the same",
        ),
        # Five kernels in place of two fill the time.
        (
            "k @0 5-700, k @700 705-990, k @990 995-1600, k @1600 1605-2200, k @2200 2205-2990",
            "they launch 5 kernels, the others 2",
            "evaluation",
        ),
        ("k @0 5-2000, k @2000 2005-2990", "they compute longer, with as many kernels", "sequences of unlike length"),
    ],
    ids=["host", "loads", "more kernels", "longer kernels"],
)
def test_a_few_long_iterations_are_named_with_what_is_in_them(line: str, cause: str, advice: str) -> None:
    """The last iteration ends with its own work. Three of twelve cost 20 ms each, or nearly."""
    found = long_of(line, steps=13)["long-iterations"]
    assert found.title == f"3 of 13 iterations (3, 7, 11: every 4th) take 30.0 ms, the others 10.0 ms: {cause}"
    assert advice in found.advice
    assert found.iterations == (3, 7, 11)
    assert found.cost_ns / 1e6 == pytest.approx(3 * 20 / 13, rel=0.02)


def test_the_place_where_long_iterations_idle_is_that_of_what_they_have_more() -> None:
    """The device idles for 4 ms between `a` and `b` in each iteration, and in long ones for 20 ms after `b`, too."""
    usual = "k:a @0 5-400, k:b @800 805-999"
    run = program(f"0| {usual}", steps=13, longer=LONGER)
    assert "in them after `b` and before `a` (nearly all of that time)" in findings_of(run)["long-iterations"].advice


@pytest.mark.parametrize("usual", [USUAL, f"{USUAL}, cuda:cuLibraryLoadData 998-999"])
def test_code_that_is_loaded_elsewhere_does_not_make_iterations_long(usual: str) -> None:
    """It is loaded before the pause, or in all iterations."""
    long = f"{USUAL}, cuda:cuLibraryLoadData {'2-3' if usual == USUAL else '2900-2901'}"
    changed = {f"step{n}_rank0": usual for n in range(13) if n not in LONGER}
    found = long_of(long, steps=13, **changed)["long-iterations"]
    assert found.title.endswith("the host is busy meanwhile, and the device has no work")


def test_time_in_which_the_host_is_busy_in_long_iterations_counts_once() -> None:
    """Of the usual iterations nothing is left to call the program host-bound."""
    found = long_of(USUAL, steps=13)
    assert "host-bound" not in found
    assert "launch-bound" not in found


@pytest.mark.parametrize(("longer", "said"), [({}, "9.996 ms"), (LONGER, "14.612 ms (median 10.000 ms)")])
def test_the_verdict_has_the_median_of_iterations_if_it_is_far_from_their_mean(
    longer: dict[int, int], said: str
) -> None:
    verdict = verdict_of(analysis_of(program(f"0| {USUAL}", steps=13, longer=longer)), [Path("run")])
    text = " ".join(verdict.split())
    assert f", an iteration every {said}" in text
    assert ("(median" in text) == bool(longer)


@pytest.mark.parametrize(
    ("call", "name"), [("os:write", "system-waiting"), ("load", "data-loading"), ("cuda:cudaMalloc", "allocations")]
)
def test_what_has_a_finding_of_its_own_says_that_it_is_in_long_iterations(call: str, name: str) -> None:
    found = long_of(f"{USUAL}, {call} 990-2950", steps=13)
    assert "long-iterations" not in found
    assert found[name].title.endswith(" (nearly all in 3 of 13 iterations)")


@pytest.mark.parametrize(
    "longer", [{}, {3: 300}, dict.fromkeys(range(1, 12, 2), 2000)], ids=["none", "a little", "half"]
)
def test_usual_iterations_differ_a_little_and_two_kinds_of_iterations_have_no_long_ones(longer: dict[int, int]) -> None:
    assert "long-iterations" not in findings_of(program(f"0| {USUAL}", steps=13, longer=longer))


def test_a_single_long_iteration_counts_with_all_that_is_in_it() -> None:
    """Other rules leave out the longest iteration, so that they say nothing of its call of the system."""
    calls = {"step8_rank0": f"{USUAL}, os:write 1000-2950"}
    found = findings_of(program(f"0| {USUAL}", steps=13, longer={8: 2000}, **calls))
    assert "system-waiting" not in found
    assert found["long-iterations"].title.startswith("Iteration 8 takes 30.0 ms, the others 10.0 ms: ")
    assert found["long-iterations"].cost_ns / 1e6 == pytest.approx(20 / 13, rel=0.05)


def test_long_iterations_of_epochs_are_named_with_these() -> None:
    run = program(f"0| {USUAL}", steps=18, longer={4: 2000, 10: 2000, 16: 2000})
    number = pl.col("text").str.extract("([0-9]+)$").cast(pl.Int64)
    text = pl.format("epoch {} batch {}", number // 6, number % 6)
    found = findings_of(run._replace(ranges=run.ranges.with_columns(text=text)))["long-iterations"]
    assert found.title.startswith("3 of 18 iterations (4 of repeats 0 to 2: every 6th) take 30.0 ms")


def test_blocking_copies_of_long_iterations_are_no_reason_of_the_usual_ones() -> None:
    usual = "k @0 5-500, k @800 805-990"
    copies = {f"step{step}_rank0": f"{usual}, cuda:cudaMemcpy 1000-2950" for step in LONGER}
    found = findings_of(program(f"0| {usual}", steps=13, longer=LONGER, **copies))
    assert found["host-bound"].title.startswith("Host-bound: the device has no work while the host is busy")


def test_iterations_in_which_a_rank_waits_for_another_have_their_reason_there() -> None:
    """Rank 1 launches its part of an operation 20 ms later in three iterations."""
    usual = "k @0 5-700, n @700 705-990"
    late = {f"step{step}_rank0": "k @0 5-700, n @700 705-2990" for step in LONGER}
    late |= {f"step{step}_rank1": "k @0 5-700, n @2700 2705-2990" for step in LONGER}
    found = findings_of(program(f"0| {usual}\n1| {usual}", steps=13, longer=LONGER, **late))
    assert "long-iterations" not in found
