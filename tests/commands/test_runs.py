"""Which reports under a folder make a run, and what it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsys2prv.commands.batch.runs import find_runs
from nsys2prv.commands.inputs import run_name
from nsys2prv.errors import UsageError


def laid_out(root: Path, *names: str) -> Path:
    """Empty files of these names; one that ends in `_pqtdir` is an export in columns."""
    for name in names:
        path = root / name
        if path.name.endswith("_pqtdir"):
            path.mkdir(parents=True)
            (path / "StringIds.parquet").touch()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return root


def found(root: Path, group: str | None = None) -> dict[str, list[str]]:
    runs, _ = find_runs(root, group)
    return {run.name: [p.relative_to(root).as_posix() for p in run.reports] for run in runs}


def test_a_folder_with_reports_directly_in_it_is_a_run(tmp_path: Path) -> None:
    root = laid_out(
        tmp_path, "a/0.sqlite", "a/1.nsys-rep", "a/notes.txt", "a/deep/er/2.sqlite", "b/3_pqtdir", "empty/x.log"
    )
    assert found(root) == {
        "a": ["a/0.sqlite", "a/1.nsys-rep"],
        "a/deep/er": ["a/deep/er/2.sqlite"],
        "b": ["b/3_pqtdir"],
    }


def test_reports_of_the_root_itself_are_a_run_by_its_name(tmp_path: Path) -> None:
    assert found(laid_out(tmp_path / "job7", "0.sqlite")) == {"job7": ["0.sqlite"]}


def test_links_neither_lead_in_circles_nor_make_a_run_twice(tmp_path: Path) -> None:
    root = laid_out(tmp_path / "all", "deep/job7/0.sqlite", "deep/job8/0.sqlite")
    (root / "current").symlink_to(root / "deep/job7")
    (root / "deep/up").symlink_to(root)
    elsewhere = laid_out(tmp_path / "elsewhere", "0.sqlite")
    (root / "job9").symlink_to(elsewhere)
    assert list(found(root)) == ["deep/job7", "deep/job8", "job9"]


@pytest.mark.parametrize(
    ("reports", "group", "name"),
    [
        (["0.sqlite", "job/1.sqlite"], None, "job"),
        (["x_y-z_0.sqlite", "x-y_z_0.sqlite"], "%a-%b_%rank", "x_y_z"),
    ],
)
def test_runs_whose_traces_would_have_one_name_are_refused(
    reports: list[str], group: str | None, name: str, tmp_path: Path
) -> None:
    root = laid_out(tmp_path / "job", *reports)
    with pytest.raises(UsageError, match=f"would both be called {name}; rename one"):
        find_runs(root, group)


GROUPED = {
    "%job_%node_%rank": {"7": ["x/7_n0_0.sqlite", "y/7_n1_1.nsys-rep"], "llama_8": ["llama_8_n0_0.sqlite"]},
    "%app_%job_%node_%rank": {"llama_8": ["llama_8_n0_0.sqlite"]},
    "%any%job_n%node_%rank": {"7": ["x/7_n0_0.sqlite", "y/7_n1_1.nsys-rep"], "8": ["llama_8_n0_0.sqlite"]},
}


@pytest.mark.parametrize("group", GROUPED)
def test_fields_of_the_name_group_reports_of_all_folders(group: str, tmp_path: Path) -> None:
    root = laid_out(tmp_path, "x/7_n0_0.sqlite", "y/7_n1_1.nsys-rep", "llama_8_n0_0.sqlite")
    assert found(root, group) == GROUPED[group]


def test_reports_whose_names_do_not_match_are_told(tmp_path: Path) -> None:
    root = laid_out(tmp_path, "7_n0_0.sqlite", "other.sqlite")
    _, strangers = find_runs(root, "%job_%node_%rank")
    assert [s.name for s in strangers] == ["other.sqlite"]


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("%node_%rank", "no field names the run"),
        ("%job-%rank", "no report has a name like %job-%rank, only "),
        ("%job(%rank", "no report has a name like "),
    ],
)
def test_a_pattern_that_finds_nothing_is_refused(group: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        find_runs(laid_out(tmp_path, "7_n0_0.sqlite"), group)


def test_a_folder_without_reports_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no reports"):
        find_runs(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        find_runs(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        (["reports"], "reports"),
        (["reports/job.7.nsys-rep"], "job.7"),
        (["reports/job.7_pqtdir"], "job.7"),
        (["."], "here"),
        (["job-7/rank0.sqlite", "job-7/rank1.sqlite"], "job-7"),
        (["gpt10.sqlite", "gpt11.sqlite"], "gpt"),
        (["gpt1.sqlite", "gpt10.sqlite"], "gpt"),
        (["job7.0.sqlite", "job7.1.nsys-rep"], "job7"),
        (["a/report.sqlite", "b/report.sqlite"], "a"),
        (["a/train7.sqlite", "b/train7.nsys-rep"], "train7"),
        (["first/10.sqlite", "first/11.sqlite"], "first"),
        (["train.sqlite", "other.sqlite"], "here"),
    ],
)
def test_a_run_is_called_as_its_inputs(
    inputs: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run_name([Path(one) for one in inputs]) == name
