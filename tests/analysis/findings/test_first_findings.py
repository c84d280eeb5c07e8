"""Of runs whose worst loss is known, the first finding names it; good runs have none of severity high."""

from __future__ import annotations

from pathlib import Path

import pytest
from first_findings import Known, runs
from runs import CAPTURED, SAMPLED, reports_of

import nsys2prv


def _cases() -> list[object]:
    own = (*SAMPLED, *CAPTURED)
    return [pytest.param(one, id=one.name, marks=[] if one.run in own else pytest.mark.shared) for one in runs()]


@pytest.mark.parametrize("run", _cases())
def test_the_first_finding_is_the_true_one(run: Known, tmp_path: Path) -> None:
    reports = reports_of(run.run)
    found = nsys2prv.analyze(run.made(reports, tmp_path) if run.made else reports).findings
    if run.first:
        assert (found[0].id in run.first, found[0].severity) == (True, "high"), [one.title for one in found]
    else:
        assert [one.title for one in found if one.severity == "high"] == []
