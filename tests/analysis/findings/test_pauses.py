"""Pauses between steady iterations: how long they are, what hosts do in them, and what is no pause.

Each program has 24 iterations of 10 ms. The 8th and the 16th take 310 ms: their last kernel is late.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from programs import UNIT, analysis_of, findings_of, program

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.pauses import pauses
from nsys2prv.intervals.spans import Span, Spans, one_span

USUAL = "k @0 5-500, k @500 505-990"
LATER = {7: 30000, 15: 30000}
LAST = "k @30900 30905-30990"


def pauses_of(line: str, longer: dict[int, int] = LATER, steps: int = 24) -> Finding | None:
    """Return the finding on pauses where a rank runs a line in these iterations."""
    changed = {f"step{step}_rank0": f"{line}, {LAST}" for step in longer}
    return findings_of(program(f"0| {USUAL}", steps=steps, longer=longer, **changed)).get("pauses")


@pytest.mark.parametrize(
    ("line", "what", "advice"),
    [
        (
            USUAL,
            "hosts are busy, and devices have no work",
            "See what hosts do there between one `kernel` and the next",
        ),
        (
            f"{USUAL}, os:sem_clockwait 1000-30900",
            "hosts are in `sem_clockwait` for 598.0 ms",
            "prepare data once",
        ),
        (f"{USUAL}, os:fsync 1000-30900", "hosts are in `fsync`", "asynchronous checkpoints"),
        (f"{USUAL}, os:waitpid 1000-30900", "hosts are in `waitpid`", "starts processes"),
        (f"{USUAL}, k @1000 1005-30900", "devices compute for 619.2 ms of it", "Evaluate less often"),
    ],
    ids=["host", "waits", "files", "processes", "computes"],
)
def test_pauses_are_named_with_what_is_in_them(line: str, what: str, advice: str) -> None:
    found = pauses_of(line)
    assert found is not None
    assert found.title.startswith("2 pauses between iterations take 6")
    assert what in found.title
    assert "74 % of the time from the first to the last one: " in found.title
    assert advice in found.advice
    assert (found.severity, found.cost_ns, found.share) == ("high", 0, pytest.approx(0.74, abs=0.01))
    assert found.evidence["pauses_ns"] == pytest.approx(600e6, rel=0.04)


def test_pauses_have_a_place_by_their_share_of_the_run() -> None:
    """Each iteration lacks work for a third of its time besides."""
    line = "k @0 5-300, k @600 605-990"
    changed = {f"step{step}_rank0": f"{line}, {LAST}" for step in LATER}
    high = analysis_of(program(f"0| {line}", steps=24, longer=LATER, **changed)).findings
    assert high[0].id == "pauses"
    assert high[1].severity == "high"
    assert 0.1 < high[1].share < high[0].share


def test_a_single_pause_is_never_high() -> None:
    """It takes 58 % of the time, and may not come again."""
    found = pauses_of(USUAL, {7: 30000})
    assert found is not None
    assert found.title.startswith("A pause between iterations takes 310.1 ms, 57 % of the time")
    assert found.severity == "medium"


def test_of_hosts_without_devices_no_more_is_said_than_that_they_pause() -> None:
    changed = {f"step{step}_rank0": f"{USUAL}, {LAST}" for step in LATER}
    run = program(f"0| {USUAL}", steps=24, longer=LATER, **changed)
    case = case_of(analysis_of(run))
    (found,) = pauses(
        replace(case, analysis=case.analysis._replace(run=run._replace(devices=(), work=run.work.clear())))
    )
    assert found.title.endswith("the program does other work")
    assert "--show api,host" in found.advice


def test_time_after_the_last_iteration_is_no_pause() -> None:
    assert pauses_of(USUAL, {23: 30000}) is None


def test_time_of_long_iterations_that_are_not_left_out_is_no_pause() -> None:
    """Of periodic ones a finding of their own tells."""
    found = findings_of(program(f"0| {USUAL}", steps=24, longer=LATER))
    assert ("long-iterations" in found, "pauses" in found) == (True, False)


def test_time_that_was_not_recorded_is_no_pause() -> None:
    changed = {f"step{step}_rank0": f"{USUAL}, {LAST}" for step in LATER}
    run = program(f"0| {USUAL}", steps=24, longer=LATER, **changed)
    ends = [Span(0, 8000 * UNIT), Span(38000 * UNIT, 46000 * UNIT), Span(76000 * UNIT, run.duration)]
    pieces = Spans(np.array([one.start for one in ends]), np.array([one.end for one in ends]))
    assert "pauses" in findings_of(run._replace(captures=(one_span(0, run.duration),)))
    assert "pauses" not in findings_of(run._replace(captures=(pieces,)))
