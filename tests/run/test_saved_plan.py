"""Workers read a plan that has little of each report, and nothing of reports that are merged."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import nsys2prv
from nsys2prv.commands import translate
from nsys2prv.errors import OutputError
from nsys2prv.run import saved_plan
from nsys2prv.run.plan import Plan
from nsys2prv.run.saved_plan import plan_at, save_plan


@pytest.fixture
def plan(gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan of a run, as the process that made it has it."""
    plans: list[Plan] = []
    monkeypatch.setattr(translate, "merge_reports", lambda plan, *_: plans.append(plan) or (plan, []))
    nsys2prv.translate(gpt_ddp, tmp_path / "trace", execution=nsys2prv.Execution(jobs=2))
    return plans[0]


def size(plan: Plan) -> int:
    return len(pickle.dumps(plan))


def of_one_report(plan: Plan) -> Plan:
    return plan._replace(summaries=plan.summaries[:1])


def test_a_further_report_is_little_for_workers(plan: Plan) -> None:
    whole = size(plan) - size(of_one_report(plan))
    for_workers = size(saved_plan._for_workers(plan)) - size(saved_plan._for_workers(of_one_report(plan)))
    assert 0 < for_workers < whole / 3


def test_a_full_disk_is_told(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write intermediate files \(.*\); free space there"):
        save_plan(plan, tmp_path / "gone" / "plan")


def test_reports_that_are_merged_are_nothing_for_workers(plan: Plan, tmp_path: Path) -> None:
    merged = plan._replace(bundles=plan.summaries[0].spills[:1])
    save_plan(merged, tmp_path / "plan")
    read = plan_at(tmp_path / "plan")
    assert read.summaries == read.clocks == read.objects.row_of == read.numbering.values == ()
    assert len(read.bundles) == 1
    assert read.borders.tolist() == plan.borders.tolist()
