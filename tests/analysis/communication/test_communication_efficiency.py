"""Serialization and transfer: factors of the communication efficiency, by hand and on a real run."""

from __future__ import annotations

import pytest
from pictures import US, drawn
from runs import SAMPLES

import nsys2prv
from nsys2prv.analysis.communication.communication_efficiency import communication_efficiency
from nsys2prv.analysis.communication.waiting import carried, find_exchanges
from nsys2prv.analysis.efficiency import efficiency
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import one_span

# Busy for 48 us each: rank 0 computes for 20 us, waits for 15 and transfers for 13, rank 1 computes for 35.
LATE = """
0| k @0 10-30, n @1 32-60
1| k @0 10-45, n @1 47-60
"""


def test_the_factors_are_those_reasoned_by_hand() -> None:
    run, window = drawn(LATE), one_span(0, 60 * US)
    whole = efficiency(run.work, run.devices, window, "communication")
    found = communication_efficiency(run, find_exchanges(run, carried(run)), window, whole)
    # Without waiting rank 0 is busy for 33 us and rank 1 for 48.
    assert found == (48 / 48, 35 / 48)


def test_nothing_that_computes_has_no_factors() -> None:
    run, window = drawn("0| n @1 32-60\n1| n @1 47-60"), one_span(0, 60 * US)
    whole = efficiency(run.work, run.devices, window, "communication")
    assert communication_efficiency(run, find_exchanges(run, carried(run)), window, whole) is None


@pytest.mark.parametrize("reports", ["gpt-ddp", "mpi-halo"])
def test_their_product_is_the_communication_efficiency(reports: str) -> None:
    found = nsys2prv.analyze(SAMPLES / reports).as_json()["efficiency"]
    assert found["serialization"] * found["transfer"] == pytest.approx(found["communication"], rel=1e-12)
    useful = nsys2prv.analyze(SAMPLES / reports, question=Question(nccl="useful")).as_json()["efficiency"]
    assert "serialization" not in useful
