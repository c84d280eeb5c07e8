"""A late rank that launches more than the others, in each iteration or a few, or is in a call of the system."""

from __future__ import annotations

import pytest
from programs import analysis_of, findings_of, program

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.ranks.shares_of_launches import advice_on_launches

MANY = ", ".join(f"k @{at} {at + 5}-{at + 20}" for at in range(0, 900, 60))
FEW = "k @0 5-300, k @5 300-305"
GRAPH = ", ".join(f"k @0 {at + 5}-{at + 20}" for at in range(0, 900, 60)) + ", k @5 910-915"
WAITS, ARRIVES = "n @10 305-905, wait 20-905", "n @890 900-905, wait 895-905"


@pytest.mark.parametrize(
    ("changed", "usual", "advice"),
    [
        (
            {},
            MANY,
            "The host of rank 1 launches 15 times an iteration, those of others 2 times: give ranks shares alike",
        ),
        (
            {f"step{n}_rank1": f"{MANY}, {ARRIVES}" for n in (2, 5)},
            FEW,
            "The host of rank 1 launches 15 times in iterations 2, 5 (2 of 8), those of others 2 times. See what",
        ),
        (
            {"step2_rank0": WAITS, "step2_rank1": f"{MANY}, {ARRIVES}"},
            FEW,
            "The host of rank 1 launches 15 times in iteration 2 (1 of 8), those of others 0 times. See what",
        ),
        ({"step2_rank1": f"{FEW}, k @6 305-310, {ARRIVES}"}, f"{FEW}, {FEW.replace('@', '@1')}", ""),
        ({}, FEW, ""),
        ({}, GRAPH, ""),
    ],
    ids=["in each iteration", "in a few", "alone in one", "once one more", "alike", "a graph is one launch"],
)
def test_a_rank_that_launches_more_than_others_is_told_so(changed: dict[str, str], usual: str, advice: str) -> None:
    arrives = WAITS if usual == FEW else ARRIVES
    others = FEW if usual in (MANY, GRAPH) else usual
    case = case_of(analysis_of(program(f"0| {others}, {WAITS}\n1| {usual}, {arrives}", steps=8, **changed)))
    assert advice_on_launches(case, 1).startswith(advice)
    assert bool(advice_on_launches(case, 1)) == bool(advice)
    assert not advice_on_launches(case, 0)


def test_the_launches_of_several_others_are_a_range_and_not_a_median() -> None:
    """Three of rank 0, two of rank 2."""
    text = f"0| {FEW}, k @6 305-310, {WAITS}\n1| {MANY}, {ARRIVES}\n2| {FEW}, {WAITS}"
    case = case_of(analysis_of(program(text, steps=8)))
    assert "launches 15 times an iteration, those of others 2 to 3 times: give" in advice_on_launches(case, 1)


def test_ranks_that_launch_in_turn_have_no_larger_share() -> None:
    turns = {
        f"step{n}_rank{rank}": WAITS if n % 2 == rank else f"{FEW}, {ARRIVES}" for n in range(8) for rank in (0, 1)
    }
    case = case_of(analysis_of(program(f"0| {FEW}\n1| {FEW}", steps=8, **turns)))
    assert [advice_on_launches(case, rank) for rank in (0, 1)] == ["", ""]


def test_the_advice_on_a_late_rank_is_of_what_it_launches() -> None:
    found = analysis_of(program(f"0| {FEW}, {WAITS}\n1| {MANY}, {ARRIVES}")).findings
    (late,) = [one for one in found if one.id == "late-rank"]
    assert late.ranks == (1,)
    assert late.advice.startswith("The host of rank 1 launches 15 times an iteration")


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("clock_nanosleep", "sleeps for a time that the program sets"),
        ("fwrite", "files"),
        ("fork", "starts processes and waits for their end"),
    ],
)
def test_the_advice_on_a_late_rank_in_a_call_of_the_system_is_of_that_call(call: str, advice: str) -> None:
    for phase, named in (("", call), (", busy 8-884", f"busy ({call})")):
        late = f"0| {FEW}, {WAITS}\n1| k @0 5-300{phase}, os:{call} 10-880, k @885 886-890, {ARRIVES}"
        (found,) = [one for one in analysis_of(program(late)).findings if one.id == "late-rank"]
        assert f"`{named}` delays rank 0" in found.title
        assert advice in found.advice


@pytest.mark.parametrize(
    ("then", "of_process"),
    [
        ("os:waitpid 850-860, k @884", True),
        ("os:fork 850-860, k @884", False),
        ("k @855 856-860, os:waitpid 862-883, k @884", False),
    ],
)
def test_a_call_before_the_wait_for_a_process_is_for_that_process(then: str, of_process: bool) -> None:
    """Programs read what a process writes, then wait for its end. A wait after other launches is another one's."""
    late = f"0| {FEW}, {WAITS}\n1| k @0 5-300, os:poll 10-840, {then} 886-890, {ARRIVES}"
    (found,) = [one for one in analysis_of(program(late)).findings if one.id == "late-rank"]
    assert ("starts processes and waits for their end" in found.advice) == of_process


@pytest.mark.parametrize(("asks", "of_polling"), [("cudaEventQuery", True), ("cudaGetDevice", False)])
def test_a_sleep_after_a_query_of_the_device_is_polling(asks: str, of_polling: bool) -> None:
    sleeps = ", ".join(f"cuda:{asks} {n}-{n + 1}, os:usleep {n + 1}-{n + 99}" for n in range(110, 810, 100))
    found = findings_of(program(f"0| k @0 5-200, {sleeps}, k @820 825-990"))["system-waiting"]
    assert "`usleep`" in found.title
    assert found.advice.startswith("The host sleeps between two questions") == of_polling
    # After a single question, as of an allocator, the host waits for something else.
    launch = "cuda:cudaLaunchKernel 818-820, k @820 825-990"
    once = findings_of(program(f"0| k @0 5-200, cuda:{asks} 110-111, os:usleep 111-810, {launch}"))
    assert "The host sleeps for a time" in once["system-waiting"].advice
