"""Busy hosts hide what other changes gain, and an iteration may begin earlier without ending so."""

from __future__ import annotations

from programs import program

from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.predict.whatif import Prediction
from nsys2prv.analysis.question import Question
from nsys2prv.commands.whatif import predictions_of

# Hosts launch the last kernel 7 ms after the first, and transfers of 6 ms run meanwhile.
BUSY = """
0| k @0 2-100, n @100 102-700, k @700 702-990
1| k @0 2-100, n @100 102-700, k @700 702-990
"""
# The same without hosts that work.
WAITING = """
0| k @0 2-100, n @1 102-700, k @2 702-990
1| k @0 2-100, n @1 102-700, k @2 702-990
"""


def predicted(picture: str, *changes: str) -> Prediction:
    return predictions_of(program(picture), Question(), [*map(parse_change, changes)])


def test_a_gain_that_busy_hosts_hide_is_found_by_a_replay_without_them() -> None:
    found = predicted(BUSY, "transfer=0")
    assert found.gain < 0.01
    assert found.without_hosts is not None
    assert found.without_hosts.alone_ns - found.without_hosts.changed_ns > 0.2 * found.measured_ns
    assert found.hosts_hide_gain


def test_nothing_is_hidden_where_transfers_are_waited_for() -> None:
    assert not predicted(WAITING, "transfer=0").hosts_hide_gain


def test_without_hosts_is_asked_for_by_other_changes_alone() -> None:
    assert predicted(BUSY, "transfer=0", "host*0.5").without_hosts is None


def test_an_iteration_that_begins_earlier_ends_no_later() -> None:
    """The transfer of step 1 comes after that of step 0, which lasts beyond it; hosts set the end of step 1."""
    steps = ("k @0 2-100, n @100 102-1400", "n @0 402-450, k @700 702-990")
    late = {f"step{step}_rank{rank}": steps[step] for step in range(2) for rank in range(2)}
    run = program(BUSY, **late)
    found = predictions_of(run, Question(window="step 1"), [parse_change("transfer=0")])
    assert found.iteration_ns > found.measured_ns
    assert found.earlier_ns == found.iteration_ns - found.measured_ns
    assert found.ends_no_later
    assert not predictions_of(run, Question(window="step 1"), [parse_change("kernel*2")]).ends_no_later
