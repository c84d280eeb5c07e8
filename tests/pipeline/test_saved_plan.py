"""Workers read a plan that has little of each report, and nothing of reports that are merged."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pytest

import nsys2prv
from nsys2prv.commands import translate
from nsys2prv.errors import OutputError
from nsys2prv.pipeline.encode.encoding_input import Bundles, EncodingInput
from nsys2prv.pipeline.store import saved_plan
from nsys2prv.run.plan import Plan


@pytest.fixture
def given(gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EncodingInput:
    """The input of encoding of a run, as the process that made it has it."""
    inputs: list[EncodingInput] = []
    monkeypatch.setattr(translate, "merge_reports", lambda one, *_: inputs.append(one) or (None, []))
    nsys2prv.translate(gpt_ddp, tmp_path / "trace", execution=nsys2prv.Execution(jobs=2))
    return inputs[0]


@pytest.fixture
def plan(given: EncodingInput) -> Plan:
    """The plan of that run."""
    return given.plan


def size(plan: Plan) -> int:
    return len(pickle.dumps(plan))


def of_one_report(plan: Plan) -> Plan:
    return plan._replace(summaries=plan.summaries[:1])


def test_a_plan_has_the_columns_of_residuals_and_no_rows(plan: Plan) -> None:
    assert plan.alignment.residuals.schema == {"report": pl.Int64(), "time": pl.Int64(), "residual": pl.Int64()}
    assert plan.alignment.residuals.is_empty()


def test_a_further_report_is_little_for_workers(plan: Plan) -> None:
    whole = size(plan) - size(of_one_report(plan))
    for_workers = size(saved_plan.for_workers(plan)) - size(saved_plan.for_workers(of_one_report(plan)))
    assert 0 < for_workers < whole / 3


def test_a_full_disk_is_told(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write intermediate files \(.*\); free space there"):
        saved_plan.save(plan, tmp_path / "gone" / "plan")


def test_reports_that_are_merged_are_nothing_for_workers(given: EncodingInput, tmp_path: Path) -> None:
    bundles = Bundles(given.plan.summaries[0].spills[:1], given.plan.borders)
    given._replace(bundles=bundles).save(tmp_path / "plan")
    read = saved_plan.read_saved(tmp_path / "plan")
    plan = read.plan
    assert plan.summaries == plan.clocks == plan.objects.row_of == plan.numbering.values == read.matches.before == ()
    assert len(read.bundles.spills) == 1
    assert read.borders.tolist() == given.plan.borders.tolist()
