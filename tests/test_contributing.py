"""The family that CONTRIBUTING.md shows stands in the code as it says, and is right, whole and sliced."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from exports import query

import nsys2prv
from nsys2prv.families.host import overhead
from nsys2prv.model.limits import Limits
from nsys2prv.report import declaration, schema
from nsys2prv.report.declaration import DECLARED_TABLES

ROOT = Path(__file__).parents[1]
# "... In `path`:" or "`path`:", then a diff; a further diff without a path is of the same file.
STEP = re.compile(r"(?:`([\w/]+\.py)`:\n\n)?^```diff\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAX_LINES = 100
REPORT = ROOT / "sample_reports" / "single" / "saxpy.sqlite"


def _steps() -> list[tuple[str, str]]:
    """Return path and added lines of each change."""
    steps: list[tuple[str, str]] = []
    for path, diff in STEP.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        steps.append((path or steps[-1][0], re.sub(r"^\+", "", diff, flags=re.MULTILINE)))
    return steps


@pytest.mark.parametrize(("path", "added"), _steps())
def test_the_family_of_the_guide_is_in_the_code_as_it_says(path: str, added: str) -> None:
    assert added in (ROOT / path).read_text(encoding="utf-8")


def test_the_guide_has_every_step() -> None:
    assert [path for path, _ in _steps()] == [
        "nsys2prv/report/schema.py",
        "nsys2prv/model/event_types.py",
        "nsys2prv/families/host/overhead.py",
        "nsys2prv/families/registry.py",
        "nsys2prv/families/registry.py",
        "tests/families/test_overhead.py",
    ]


def test_the_family_of_the_guide_is_small() -> None:
    assert sum(len(added.splitlines()) for _, added in _steps()) < MAX_LINES


@pytest.mark.parametrize("slice_bytes", [None, 500])
def test_the_family_of_the_guide_is_right_whole_and_sliced(slice_bytes: int | None, tmp_path: Path) -> None:
    """Each overhead of a thread with CUDA calls is drawn once."""
    limits = Limits() if slice_bytes is None else Limits(slice_bytes=slice_bytes, whole_bytes=slice_bytes)
    families = nsys2prv.Selection(("cuda_api", overhead.FAMILY.name))
    execution = nsys2prv.Execution(jobs=1, limits=limits)
    result = nsys2prv.translate(REPORT, tmp_path / "trace", selection=families, execution=execution)
    assert result.prv is not None
    drawn = nsys2prv.read_prv(result.prv).intervals(70000231)
    times = drawn.select(ns=pl.col("end") - pl.col("start")).sort("ns").rows()
    expected = query(
        REPORT,
        "SELECT end - start FROM PROFILER_OVERHEAD"
        " WHERE globalTid IN (SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME) ORDER BY 1",
    )
    assert expected
    assert times == expected


def test_a_sliced_family_whose_table_cannot_be_cut_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration, "DECLARED_TABLES", {})
    uncut = replace(schema.PROFILER_OVERHEAD, cut=None)
    said = (
        "family overhead is sliced, but table PROFILER_OVERHEAD does not say how it is cut; "
        "give it a cut in nsys2prv/report/schema.py, or leave out sliced=True"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        replace(overhead.FAMILY, draws=(uncut,))
    assert replace(overhead.FAMILY, draws=(uncut,), sliced=False).draws == (uncut,)
    assert DECLARED_TABLES["PROFILER_OVERHEAD"] is schema.PROFILER_OVERHEAD
