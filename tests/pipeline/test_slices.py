"""A report cut into slices gives the trace of the whole report, byte for byte."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import construct
import numpy as np
import polars as pl
import pytest
from exports import MAIN, PROCESS, export, in_parquet
from runs import parameters, reports_of

import nsys2prv
from nsys2prv.errors import ReportError, UsageError
from nsys2prv.families.registry import FAMILIES
from nsys2prv.intervals.lanes import LanedIntervals, crossing_lanes, lanes
from nsys2prv.intervals.reduction_options import Reduction
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.pipeline.extract import extract
from nsys2prv.pipeline.extract.report_part import ReportPart, Storage
from nsys2prv.report import schema
from nsys2prv.report.declaration import Table
from nsys2prv.report.report import Report, open_report
from nsys2prv.report.slicing import block_index, slices
from nsys2prv.report.slicing.slices import divide
from nsys2prv.run.run_options import RunOptions

SMALL = Limits(slice_bytes=700_000, whole_bytes=0, piece_bytes=100_000)
EVERYTHING = nsys2prv.Selection(tuple(f.name for f in FAMILIES))


def made(reports: list[Path], stem: Path, limits: Limits = DEFAULT_LIMITS, **how: object) -> list[bytes]:
    execution = nsys2prv.Execution(jobs=1, limits=limits)
    nsys2prv.translate(reports, stem, execution=execution, **how)  # type: ignore[arg-type]
    return [stem.with_name(stem.name + ending).read_bytes() for ending in (".prv", ".pcf", ".row", ".align.json")]


@pytest.fixture
def slice_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of slices into which reports are cut from now on."""
    counts: list[int] = []

    def counting(*arguments: object) -> slices.Slices | None:
        found = divide(*arguments)  # type: ignore[arg-type]
        counts.append(found.count if found else 1)
        return found

    monkeypatch.setattr(extract, "divide", counting)
    return counts


@pytest.mark.parametrize("run", parameters("gpt-ddp", "saxpy", "mesh-tp-pp", "threads-cpu-sampling"))
@pytest.mark.parametrize("every_thread", [False, True], ids=["default", "everything"])
def test_sliced_equals_whole(run: str, every_thread: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    how = {"selection": EVERYTHING, "options": RunOptions(every_thread=True)} if every_thread else {}
    reports = reports_of(run)[:2]
    whole = made(reports, tmp_path / "whole", **how)
    counts = request.getfixturevalue("slice_counts")
    # One of the reports is smaller than the slices of the others.
    limits = replace(SMALL, slice_bytes=300_000) if run == "threads-cpu-sampling" else SMALL
    assert made(reports, tmp_path / "sliced", limits=limits, **how) == whole
    assert min(counts) > 1


@pytest.mark.parametrize("family", [f.name for f in FAMILIES if f.sliced])
def test_sliced_equals_whole_of_a_family_alone(
    family: str,
    gpt_ddp: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A family alone reads fewer columns, perhaps none that assign rows of other tables to slices."""
    chosen = nsys2prv.Selection((family,))
    try:
        whole = made(gpt_ddp[:1], tmp_path / "whole", selection=chosen)
    except (ReportError, UsageError):
        pytest.skip("alone it draws nothing of this report")
    counts = request.getfixturevalue("slice_counts")
    # Of metrics, which are half of the report, some thirty slices are enough; overhead has few rows.
    limits = replace(SMALL, slice_bytes={"gpu_metrics": 200_000, "overhead": 100}.get(family, 10_000))
    assert made(gpt_ddp[:1], tmp_path / "sliced", limits=limits, selection=chosen) == whole
    assert min(counts) > 1


# Ranks with a CUDA graph of NCCL operations, and with a communicator whose kernels threads of its own launch.
LAUNCHES = sorted((Path(__file__).parents[1] / "data" / "nccl-launches").glob("*.sqlite"))


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
        "DROP TABLE TARGET_INFO_CUDA_CONTEXT_INFO",
        # Kernels of the second GPU that are left out, since they are at no time.
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 4611686018427387904 WHERE deviceId = 1",
    ],
)
def test_slices_tell_as_many_gpus_of_a_process(change: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    report = Path(shutil.copy(LAUNCHES[0].with_name("groups.sqlite"), tmp_path))
    with closing(sqlite3.connect(report)) as connection, connection:
        connection.execute(change)
    whole = made([report], tmp_path / "whole")
    counts = request.getfixturevalue("slice_counts")
    assert made([report], tmp_path / "sliced", limits=replace(SMALL, slice_bytes=1_000)) == whole
    assert min(counts) > 1


@pytest.mark.parametrize("run", parameters("gpt-ddp", "mesh-tp-pp"))
def test_figures_of_slices_equal_those_of_the_whole(run: str, request: pytest.FixtureRequest) -> None:
    """Figures of iterations are among them; the work of an iteration is the work launched in it."""

    def figures(limits: Limits = DEFAULT_LIMITS) -> Any:
        found = nsys2prv.analyze(reports_of(run)[:2], execution=nsys2prv.Execution(jobs=1, limits=limits)).as_json()
        # The last digits of sums depend on their order.
        return json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 9))

    whole = figures()
    counts = request.getfixturevalue("slice_counts")
    assert figures(replace(SMALL, slice_bytes=100_000)) == whole
    assert min(counts) > 1


@pytest.mark.parametrize("run", parameters("unified-memory"))
def test_sliced_equals_whole_of_memory_in_use(run: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    whole = made(reports_of(run), tmp_path / "whole")
    counts = request.getfixturevalue("slice_counts")
    assert made(reports_of(run), tmp_path / "sliced", limits=replace(SMALL, slice_bytes=2_000)) == whole
    assert min(counts) > 1


@pytest.mark.parametrize("size", [2000, 5000])
def test_sliced_equals_whole_of_nccl_operations(size: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    whole = made(LAUNCHES, tmp_path / "whole")
    counts = request.getfixturevalue("slice_counts")
    assert made(LAUNCHES, tmp_path / "sliced", limits=replace(SMALL, slice_bytes=size)) == whole
    assert min(counts) > 1


@pytest.mark.parametrize("time", [(None, 40_000_000), (90_000_000, 140_000_000), (200_000_000, None)])
def test_sliced_equals_whole_of_a_span_of_time(
    time: tuple[int | None, int | None], gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chosen = nsys2prv.Selection(time=time)
    whole = made(gpt_ddp[:1], tmp_path / "whole", selection=chosen)
    counts = request.getfixturevalue("slice_counts")
    assert made(gpt_ddp[:1], tmp_path / "sliced", limits=SMALL, selection=chosen) == whole
    assert min(counts) > 1


@pytest.mark.parametrize("time", [None, (50_000_000, None)])
def test_sliced_equals_whole_of_averaged_metrics(
    time: tuple[int, None] | None, gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chosen = nsys2prv.Selection(time=time, reduction=Reduction(metrics_every=1_700_000))
    whole = made(gpt_ddp[:1], tmp_path / "whole", selection=chosen)
    counts = request.getfixturevalue("slice_counts")
    assert made(gpt_ddp[:1], tmp_path / "sliced", limits=SMALL, selection=chosen) == whole
    assert min(counts) > 1


def test_sliced_equals_whole_of_estimates(gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Averaging periods may be longer than a slice."""
    families = ("kernels", "nccl", "gpu_metrics", "tensor_estimate")
    chosen = nsys2prv.Selection(families, reduction=Reduction(metrics_every=100_000_000))
    whole = made(gpt_ddp[:1], tmp_path / "whole", selection=chosen)
    counts = request.getfixturevalue("slice_counts")
    assert made(gpt_ddp[:1], tmp_path / "sliced", limits=SMALL, selection=chosen) == whole
    assert min(counts) > 1


def test_sliced_equals_whole_of_a_range(gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    chosen = nsys2prv.Selection(nvtx="backward")
    whole = made(gpt_ddp[:1], tmp_path / "whole", selection=chosen)
    counts = request.getfixturevalue("slice_counts")
    assert made(gpt_ddp[:1], tmp_path / "sliced", limits=SMALL, selection=chosen) == whole
    assert min(counts) > 1


def test_rows_in_any_order_are_cut_alike(gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shuffled = construct.shuffled([gpt_ddp[0]], tmp_path)
    whole = made([gpt_ddp[0]], tmp_path / "whole")
    counts = request.getfixturevalue("slice_counts")
    assert made(shuffled, tmp_path / "sliced", limits=SMALL)[:3] == whole[:3]
    assert min(counts) > 1


def test_calls_and_what_they_launched_are_in_one_slice_and_nothing_is_lost(gpt_ddp: list[Path], tmp_path: Path) -> None:
    key = ("start", "globalPid", "correlationId")
    columns = {
        schema.RUNTIME: ("start", "globalTid", "correlationId"),
        schema.KERNEL: key,
        schema.NVTX: ("start", "globalTid", "domainId", "eventType"),
    }
    with open_report(gpt_ddp[0]) as report:
        found = divide(report, columns, tmp_path / "slices", replace(SMALL, slice_bytes=30_000))
        assert found is not None
        assert found.count > 3
        rows = 0
        for number in range(found.count):
            calls, kernels = (found.table(t, number) for t in (schema.RUNTIME, schema.KERNEL))
            assert kernels["correlationId"].is_in(calls["correlationId"].implode()).all()
            if calls.height:
                assert calls.filter(pl.col("start") < int(found.since[number])).is_empty()
            rows += kernels.height
        assert rows == report.rows(schema.KERNEL)
    assert not list((tmp_path / "slices").glob("*KERNEL*"))


def test_files_that_a_lost_worker_left_are_not_in_the_way(
    gpt_ddp: list[Path], tmp_path: Path, slice_counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask gives the report to another worker, which has the same folder."""
    # As of one who is killed.
    monkeypatch.setattr(extract, "shutil", SimpleNamespace(rmtree=lambda *_, **__: None))
    families = tuple(f.name for f in FAMILIES if f.default)
    whole = ReportPart(gpt_ddp[0], families, Storage("00000", tmp_path), limits=SMALL)
    tries = [extract.extract(whole).spills for _ in range(2)]
    assert [spill.rows for spill in tries[0]] == [spill.rows for spill in tries[1]]
    assert not {spill.path for spill in tries[0]} & {spill.path for spill in tries[1]}
    assert min(slice_counts) > 1
    assert len(list(tmp_path.glob("*.slices*"))) == 2


def test_ids_that_begin_again_are_in_the_slices_of_their_calls(tmp_path: Path) -> None:
    """They have 32 bits, and count the calls of a run before its recording too."""
    ids = [*range(2**32 - 60, 2**32), *range(1, 41)]
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=("start globalTid correlationId", [(n, MAIN, i) for n, i in enumerate(ids)]),
        CUPTI_ACTIVITY_KIND_KERNEL=("start globalPid correlationId", [(n + 30, PROCESS, i) for n, i in enumerate(ids)]),
    )
    columns = {
        schema.RUNTIME: ("start", "globalTid", "correlationId"),
        schema.KERNEL: ("start", "globalPid", "correlationId"),
    }
    with open_report(report) as opened:
        found = divide(opened, columns, tmp_path / "slices", replace(SMALL, slice_bytes=1_000))
        assert found is not None
        parts = [(found.table(schema.RUNTIME, n), found.table(schema.KERNEL, n)) for n in range(found.count)]
    assert [calls["start"].max() for calls, _ in parts[:-1]] == [border - 1 for border in found.borders]
    assert [calls["correlationId"].to_list() for calls, _ in parts] == [k["correlationId"].to_list() for _, k in parts]


def test_rows_without_a_time_make_no_slices(tmp_path: Path) -> None:
    report = export(tmp_path / "r.sqlite", OSRT_API=("end globalTid", [(n, MAIN) for n in range(1_000)]))
    limits = replace(SMALL, slice_bytes=1)
    with open_report(report) as opened:
        assert divide(opened, {schema.OSRT: ("start", "end")}, tmp_path / "slices", limits) is None


@pytest.mark.parametrize("order", ["as recorded", "shuffled"])
def test_tables_of_parquet_stay_in_place_and_sliced_equals_whole(
    order: str, gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    monkeypatch, kept, find = request.getfixturevalue("monkeypatch"), dict[str, bool](), block_index.found_in_place

    def finding(report: Report, table: Table, *given: Any) -> block_index.InPlace | None:
        found = find(report, table, *given)
        kept[table.name] = found is not None
        return found

    whole = made([gpt_ddp[0]], tmp_path / "whole")
    report = gpt_ddp[0] if order == "as recorded" else construct.shuffled([gpt_ddp[0]], tmp_path)[0]
    monkeypatch.setattr(slices, "found_in_place", finding)
    limits = replace(SMALL, block_rows=32)
    counts = request.getfixturevalue("slice_counts")
    assert made([in_parquet(report, tmp_path)], tmp_path / "sliced", limits=limits)[:3] == whole[:3]
    assert min(counts) > 1
    # Where rows of any slice lie anywhere, a table is divided.
    assert [kept[t.name] for t in (schema.RUNTIME, schema.KERNEL, schema.METRICS)] == [order == "as recorded"] * 3


def test_what_is_in_every_slice_is_read_in_place(tmp_path: Path) -> None:
    """A name of a domain in the midst of ranges."""
    ranges = [(n, n + 1, 60, 1, f"range {n}", MAIN) for n in range(100)]
    ranges.insert(70, (70, 70, 75, 1, "domain", MAIN))
    report = export(tmp_path / "r.sqlite", NVTX_EVENTS=("start end eventType domainId text globalTid", ranges))
    columns = {schema.NVTX: ("start", "globalTid", "domainId", "eventType", "text")}
    with open_report(in_parquet(report, tmp_path)) as opened:
        found = divide(opened, columns, tmp_path / "slices", replace(SMALL, slice_bytes=1_000, block_rows=8))
        assert found is not None
        assert found.count > 2
        parts = [found.table(schema.NVTX, number)["text"].to_list() for number in range(found.count)]
    assert all(part.count("domain") == 1 for part in parts)
    assert [text for part in parts for text in part if text != "domain"] == [f"range {n}" for n in range(100)]
    assert found.range_counts["len"].sum() == 101
    assert not list((tmp_path / "slices").iterdir())


def test_what_one_family_no_longer_meets_another_may(tmp_path: Path) -> None:
    """A call that reaches into the next slice, and there crosses one whose table is read after others."""
    crossing = [(0, 52, MAIN, "first"), (45, 90, MAIN, "second")]
    calls = [(n, n + 1, MAIN, "call") for n in range(0, 100, 5)]
    report = export(
        tmp_path / "r.sqlite",
        CUBLAS_EVENTS=("start end globalTid nameId", crossing),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId", calls),
    )
    whole = made([report], tmp_path / "whole")
    assert made([report], tmp_path / "sliced", limits=replace(SMALL, slice_bytes=400)) == whole


def test_a_lane_taken_in_an_earlier_slice_is_not_given_again() -> None:
    group = np.zeros(3, dtype=np.int64)
    held = LanedIntervals(*(np.array([v]) for v in (0, 0, 10, 0)))
    start, end = np.array([5, 12, 8]), np.array([9, 14, 20])
    # Inside what is held; after it; over its end.
    assert lanes(group, start, end, held).tolist() == [1, 0, 2]
    assert crossing_lanes(group, start, end, held).tolist() == [0, 0, 1]
    assert lanes(group + 1, start, end, held).tolist() == [0, 0, 1]
    assert pl.Series(lanes(group, start, end)).to_list() == [0, 0, 1]
