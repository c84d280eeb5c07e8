"""The last iteration has no next one, and lasts until its devices and its hosts have ended."""

from __future__ import annotations

import pytest
from programs import UNIT, analysis_of, program

from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.question import Question
from nsys2prv.commands.whatif import predictions_of


@pytest.mark.parametrize("picture", ["0| k @0 5-200", "0| k @0 5-200\n1| k @0 5-300", "0| k @0 5-200, k @700 705-990"])
def test_the_last_iteration_lasts_as_long_as_its_host(picture: str) -> None:
    """As with an optimizer on the CPU, after which a next iteration would have begun."""
    predictions = analysis_of(program(picture)).explanation.predictions
    measured = predictions[0].iterations["measured_ns"].to_list()
    assert measured == pytest.approx([1000 * UNIT] * 6, abs=10 * UNIT)


@pytest.mark.parametrize("change", ["kernel*0.1", "kernel*1.9", "host*0.5", "host=0", "transfer=0"])
def test_the_last_iteration_changes_as_the_others_do(change: str) -> None:
    run = program("0| k @0 2-500")
    *others, last = predictions_of(run, Question(), [parse_change(change)]).iterations["predicted_ns"].to_list()
    assert last == pytest.approx(others[-1], abs=10 * UNIT)
