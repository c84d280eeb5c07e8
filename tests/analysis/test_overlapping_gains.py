"""Where the gains of findings cannot all be had, the terminal and the page say so."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from programs import GOOD, analysis_of, program

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.overlapping_gains import overlapping_gains
from nsys2prv.analysis.predict.whatif import Prediction
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.page.head import findings

SOME = "Some of them overlap: once one is fixed, the others gain less."


def _with(found: Analysis, *gains: tuple[str, float]) -> Analysis:
    """The analysis with findings of some names that gain some parts of an iteration."""
    one = found.findings[0]._replace(severity="high", gains=True, cost_ns=1e6, at_ns=None)
    return found._replace(findings=tuple(one._replace(id=name, share=share) for name, share in gains))


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ([("launch-bound", 0.6), ("late-rank", 0.48)], "They overlap: together 108 %. Once one is fixed"),
        ([("matrix-products", 0.6), ("unfused-elementwise", 0.5)], "They overlap: together 110 %. Once one is fixed"),
        ([("launch-bound", 0.4), ("late-rank", 0.25)], SOME),
        ([("launch-bound", 0.4), ("matrix-products", 0.25)], ""),
        ([("launch-bound", 0.3), ("late-rank", 0.15)], ""),
        ([("launch-bound", 1.2)], ""),
    ],
)
def test_gains_that_cannot_all_be_had_are_said_to_overlap(gains: list[tuple[str, float]], said: str) -> None:
    """Half of an iteration is compute, which findings on launches and late ranks do not shorten."""
    whole = analysis_of(program("0| k @0 5-500, k @1000 1005-1500"))
    assert 0.45 < whole.headline_efficiency.parallel < 0.55
    found = _with(whole, *gains)
    texts = (verdict_of(found, [Path("run")]), findings(found, "run", 0))
    assert [said in text for text in texts] == [True, True]
    assert ["overlap" in text for text in texts] == [bool(said)] * 2


@pytest.mark.parametrize(
    ("gains", "gained", "said"),
    [
        ([("launch-bound", 0.2), ("late-rank", 0.15)], 2_500_000, True),
        ([("launch-bound", 0.2), ("late-rank", 0.15)], 3_500_000, False),
        ([("launch-bound", 0.2), ("late-rank", 0.15)], 0, False),
        ([("launch-bound", 0.2), ("exposed-copies", 0.15)], 2_500_000, False),
    ],
    ids=["more than hosts gain", "as much", "no prediction", "not of hosts"],
)
def test_findings_of_hosts_overlap_if_they_cost_more_than_hosts_gain(
    gains: list[tuple[str, float]], gained: int, said: bool
) -> None:
    whole = analysis_of(program("0| k @0 5-500"))
    rows = [(n, 0, 10_000_000, 10_000_000 - gained) for n in range(6)]
    schema = ["iteration", "repeat", "measured_ns", "predicted_ns"]
    hosts = Prediction(("host=0",), pl.DataFrame(rows, schema=schema, orient="row"), 0.0)
    found = _with(whole._replace(explanation=whole.explanation._replace(predictions=(hosts,))), *gains)
    of_iteration = [one._replace(cost_ns=1e7 * one.share) for one in found.findings]
    assert overlapping_gains(found._replace(findings=tuple(of_iteration))) == (SOME if said else "")


def test_findings_without_gain_do_not_count() -> None:
    found = _with(analysis_of(program(GOOD)), ("launch-bound", 0.6), ("late-rank", 0.6))
    late = found.findings[1]._replace(gains=False)
    assert "overlap" not in verdict_of(found._replace(findings=(found.findings[0], late)), [Path("run")])
