"""Which reports a folder stands for, and when two paths are one report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nsys2prv.errors import ReportError
from nsys2prv.report.discover import find_reports
from nsys2prv.report.report import open_report

# File or link -> what it leads to; and the reports that the folder `in` stands for. Files are made in this
# order: an export must not be older than its report.
CASES: dict[str, tuple[dict[str, str | None], list[str]]] = {
    "links of one name into one folder": (
        {"store/a": None, "store/b": None, "in/0/r.sqlite": "store/a", "in/1/r.sqlite": "store/b"},
        ["0/r.sqlite", "1/r.sqlite"],
    ),
    "a link beside what it leads to": (
        {"in/7/r.sqlite": None, "in/a.sqlite": "in/7/r.sqlite"},
        ["7/r.sqlite"],
    ),
    "two forms of one report, both links": (
        {"y/2": None, "x/1": None, "in/r.sqlite": "x/1", "in/r.nsys-rep": "y/2"},
        ["r.sqlite"],
    ),
    "folders that lead in circles": (
        {"in/0/r.sqlite": None, "in/0/up": "in", "in/1/down": "in/0"},
        ["0/r.sqlite"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_folder_stands_for(case: str, tmp_path: Path) -> None:
    laid, expected = CASES[case]
    for name, leads_to in laid.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if leads_to is None:
            path.touch()
        else:
            path.symlink_to(tmp_path / leads_to)
    found = find_reports([tmp_path / "in"])
    assert [str(path.relative_to(tmp_path / "in")) for path in found] == expected


def test_the_form_that_is_preferred_counts_whatever_is_named_first(tmp_path: Path) -> None:
    (tmp_path / "r_pqtdir").mkdir()
    (tmp_path / "r_pqtdir" / "META_DATA_EXPORT.parquet").touch()
    for name in ("r.qdstrm", "r.sqlite"):
        (tmp_path / name).touch()
    given = [tmp_path / name for name in ("r.qdstrm", "r_pqtdir", "r.sqlite")]
    assert find_reports(given) == [tmp_path / "r.sqlite"]


@pytest.mark.parametrize("read", [find_reports, open_report])
def test_a_path_that_the_system_refuses_is_named(read: Callable[[Path], object], tmp_path: Path) -> None:
    """Its name is longer than any file's."""
    with pytest.raises(ReportError, match=r"cannot be read \(File name too long\)"):
        read(tmp_path / ("a" * 300))
