"""A run of many reports, of which some at a time are merged first, gives the trace of windows of all, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from runs import left_in, parameters, records, reports_of

import nsys2prv
from nsys2prv.commands import translate
from nsys2prv.commands.translation import Used
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.model.losses import Loss
from nsys2prv.pipeline.encode import bundles
from nsys2prv.pipeline.encode.bundles import merge_reports
from nsys2prv.pipeline.encode.encode import WindowCounts
from nsys2prv.pipeline.encode.encoding_input import Bundles
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.run.report_summary import Spill
from nsys2prv.run.run_options import RunOptions

# Many windows, and a bundle of each report.
BUNDLED = Limits(window_points=1_000, window_spills=0, bundle_spills=1)


def made(
    reports: list[Path], stem: Path, jobs: int = 1, dask: str | None = None, **groups: Any
) -> tuple[bytes, nsys2prv.Translation]:
    """Return the records, and the part of the result that depends on the reports alone."""
    limits = groups.pop("limits", BUNDLED if stem.name == "bundled" else DEFAULT_LIMITS)
    told = nsys2prv.translate(
        reports, stem, execution=nsys2prv.Execution(jobs=jobs, dask=dask, limits=limits), **groups
    )
    assert told.prv is not None
    return records(told.prv), told._replace(prv=None, seconds={}, used=Used(0, 0))


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[Spill]:
    """The bundles that windows are made of from now on."""
    found: list[Spill] = []

    def looking(*given: Any) -> tuple[Bundles | None, list[WindowCounts]]:
        made_of, counted = merge_reports(*given)
        found.extend(made_of.spills if made_of else ())
        return made_of, counted

    monkeypatch.setattr(translate, "merge_reports", looking)
    return found


@pytest.mark.parametrize("run", parameters("gpt-ddp", "mpi-halo", "mesh-tp-pp", "mpi-cpu"))
@pytest.mark.parametrize("jobs", [1, 2])
def test_bundled_equals_whole(run: str, jobs: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    reports, options = reports_of(run), RunOptions(every_thread=True)
    whole = made(reports, tmp_path / "whole", options=options)
    found = request.getfixturevalue("merged")
    assert made(reports, tmp_path / "bundled", jobs, options=options) == whole
    assert len(found) >= len(reports)


def test_bundles_of_dask_workers_equal_whole(
    gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("distributed")
    whole = made(gpt_ddp, tmp_path / "whole")
    found = request.getfixturevalue("merged")
    assert made(gpt_ddp, tmp_path / "bundled", 2, dask="local") == whole
    assert found


def test_what_two_reports_of_a_process_hold_is_written_once(
    saxpy: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    again = Path(shutil.copy(saxpy, tmp_path / "again.sqlite"))
    whole = made([saxpy, again], tmp_path / "whole")
    assert any("another report" in reason for reasons in whole[1].dropped.values() for reason in reasons)
    found = request.getfixturevalue("merged")
    assert made([saxpy, again], tmp_path / "bundled") == whole
    assert len(found) >= 2


def test_messages_to_rows_that_are_hidden_are_counted_once(
    gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Lines from calls on threads without a row of their own."""
    chosen = nsys2prv.Selection(("correlation", "osrt", "os_callers", "gpu_metrics"))
    whole = made(gpt_ddp, tmp_path / "whole", selection=chosen)
    assert whole[1].dropped["correlation"][Loss.LINE_WITHOUT_ROW.text] > 0
    found = request.getfixturevalue("merged")
    assert made(gpt_ddp, tmp_path / "bundled", selection=chosen) == whole
    assert found


def test_points_that_are_in_bundles_are_removed(
    gpt_ddp: list[Path], tmp_path: Path, merged: list[Spill], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[list[str]] = []
    write = translate.write_windows

    def looking(given: Any, sink: Any, workers: Workers) -> Any:
        held.append(left_in(workers.folder))
        return write(given, sink, workers)

    monkeypatch.setattr(translate, "write_windows", looking)
    nsys2prv.translate(gpt_ddp, tmp_path / "trace", execution=nsys2prv.Execution(jobs=2, limits=BUNDLED))
    (names,) = held
    assert sum(name.startswith("bundle") for name in names) == len(merged) > 0
    # What estimates read is no points.
    others = (".ends", ".whole", ".metric")
    assert not [name for name in names if name.startswith("0000") and not any(other in name for other in others)]
    assert left_in(tmp_path) == ["trace.align.json", "trace.pcf", "trace.prv", "trace.row"]


class Room(NamedTuple):
    free: int


def test_without_room_for_bundles_windows_are_made_of_all_reports(
    gpt_ddp: list[Path], tmp_path: Path, merged: list[Spill], monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy = made(gpt_ddp, tmp_path / "bundled")
    assert merged
    merged.clear()
    monkeypatch.setattr(bundles.shutil, "disk_usage", lambda _: Room(int(1.5 * roomy[1].size)))
    assert made(gpt_ddp, tmp_path / "whole", limits=BUNDLED) == roomy
    assert not merged


def test_few_reports_are_not_merged(gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "_merge", None)
    made(gpt_ddp, tmp_path / "trace", limits=Limits(window_points=1_000))


@pytest.mark.parametrize(
    ("spills", "expected"),
    [
        ([10, 10, 10], [(0, 3)]),
        ([40, 8, 1, 30], [(0, 2), (2, 4)]),
        ([100, 0, 100], [(0, 1), (1, 3)]),
        ([10] * 1024, [(8 * n, 8 * n + 8) for n in range(128)]),
    ],
    ids=["one", "full", "larger than a bundle", "no more than so many"],
)
def test_bundles(spills: list[int], expected: list[tuple[int, int]]) -> None:
    assert list(bundles.bundles(spills, DEFAULT_LIMITS)) == expected
