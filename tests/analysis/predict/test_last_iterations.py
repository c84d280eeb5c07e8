"""The last iteration has no next one, and lasts until its devices and its hosts have ended."""

from __future__ import annotations

import pytest
from programs import UNIT, analysis_of, program


@pytest.mark.parametrize("picture", ["0| k @0 5-200", "0| k @0 5-200\n1| k @0 5-300", "0| k @0 5-200, k @700 705-990"])
def test_the_last_iteration_lasts_as_long_as_its_host(picture: str) -> None:
    """As with an optimizer on the CPU, after which a next iteration would have begun."""
    predictions = analysis_of(program(picture)).explanation.predictions
    measured = predictions[0].iterations["measured_ns"].to_list()
    assert measured == pytest.approx([1000 * UNIT] * 6, abs=10 * UNIT)


def test_without_host_work_nothing_of_the_last_host_remains() -> None:
    predictions = analysis_of(program("0| k @0 5-200")).explanation.predictions
    without = next(one for one in predictions if one.changes == ("host=0",))
    *others, last = without.iterations["predicted_ns"].to_list()
    assert last == pytest.approx(195 * UNIT, abs=10 * UNIT)
    assert others == pytest.approx([200 * UNIT] * 5, abs=10 * UNIT)
