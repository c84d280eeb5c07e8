"""Files of nvprof with something special, or wrong, about them."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from exports import Drawn, export
from nvprof_files import FILL, MAIN, PID, PREFIX, SAXPY, WORK, at, nvprof_file, thread_id
from runs import Command

import nsys2prv
from nsys2prv.model.limits import Limits
from nsys2prv.report.discover import find_reports
from nsys2prv.report.nvprof.names import short_name

# Event types.
CALL, MEMORY, KERNEL, FULL_NAME = 63000000, 63000001, 63000006, 70000001
CALLED = ("cbid start end threadId processId", [(211, *at(30, 40), MAIN, PID)])


def test_calls_and_kinds_that_are_newer_than_the_lists_have_their_number(tmp_path: Path) -> None:
    calls = ("cbid start end threadId processId", [(9999, *at(10, 20), MAIN, PID), (211, *at(30, 40), MAIN, PID)])
    overhead = ("overheadKind objectKind objectId start end", [(77, 2, thread_id(MAIN), *at(1, 4))])
    drawn = Drawn(nvprof_file(tmp_path / "f.nvprof", RUNTIME=calls, OVERHEAD=overhead), "cuda_api", "overhead")
    assert [row[3] for row in drawn.intervals(CALL)] == ["runtime call 9999", "cudaLaunchKernel"]
    assert [row[3] for row in drawn.intervals(70000231)] == ["(unnamed)"]


def test_kernels_of_all_tables_and_copies_between_devices(tmp_path: Path) -> None:
    kernels = {t: ("start end name", [(*at(n, n + 5), t)]) for n, t in ((10, "KERNEL"), (20, "CDP_KERNEL"))}
    kernels["CONCURRENT_KERNEL"] = ("start end name", [(*at(30, 35), "both"), (*at(40, 45), "both")])
    copies = ("copyKind start end bytes srcDeviceId dstDeviceId", [(10, *at(50, 60), 8, 0, 1)])
    drawn = Drawn(nvprof_file(tmp_path / "f.nvprof", **kernels, MEMCPY2=copies), "kernels", "memory")
    assert [row[1:] for row in drawn.intervals(KERNEL)] == [
        (10, 15, "KERNEL"),
        (20, 25, "CDP_KERNEL"),
        (30, 35, "both"),
        (40, 45, "both"),
    ]
    assert [row[1:] for row in drawn.intervals(MEMORY)] == [(50, 60, "Peer-to-Peer")]


def test_kernels_without_a_time_are_told(tmp_path: Path) -> None:
    kernels = ("start end name", [(0, 0, "f"), (*at(10, 20), "f")])
    drawn = Drawn(nvprof_file(tmp_path / "f.nvprof", CONCURRENT_KERNEL=kernels), "kernels", begin=10)
    assert [row[1:] for row in drawn.intervals(KERNEL)] == [(10, 20, "f")]
    assert sum(drawn.dropped("kernels").values()) == 1


def test_a_domain_that_is_no_number_has_no_name(tmp_path: Path) -> None:
    """Rows that name domains are numbered by the domain; the ranges themselves stay."""
    marks = [(2, *at(90), 1, 2, thread_id(MAIN), "step", 0), (4, *at(190), 1, 2, thread_id(MAIN), 0, 0)]
    path = nvprof_file(
        tmp_path / "f.nvprof", RUNTIME=CALLED, MARKER=("flags timestamp id objectKind objectId name domain", marks)
    )
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {PREFIX}MARKER SET domain = 1.5")
    calls = nsys2prv.translate(path, tmp_path / "calls", selection=nsys2prv.Selection(("cuda_api",)))
    assert calls.rows == {"cuda_api": 1}
    drawn = Drawn(path, "cuda_api", "nvtx")
    (ranges,) = (number for number, label in drawn.trace.types.items() if label.startswith("NVTX"))
    assert [row[1:] for row in drawn.intervals(ranges)] == [(90, 190, "step")]


def test_names_stay_mangled_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cpp_demangle", None)
    drawn = Drawn(nvprof_file(tmp_path / "f.nvprof", **WORK), "kernels")
    assert set(drawn.labels(FULL_NAME).values()) == {SAXPY, FILL}
    assert any(
        "pip install '.[nvprof]' in the clone" in text for texts in drawn.result.losses.values() for text in texts
    )


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("saxpy(int, float*)", "saxpy"),
        ("void app::fill<float, 4>(float*, int)", "fill"),
        ("void (anonymous namespace)::f<a::b<int>, (c)1>(a::b<int> const&)", "f"),
        ("volta_sgemm_64x32_sliced1x4_tn", "volta_sgemm_64x32_sliced1x4_tn"),
        ("<>", "<>"),
    ],
)
def test_short_names(full: str, short: str) -> None:
    assert short_name(full) == short


def test_counters_of_kernels_are_listed_with_the_reason(tmp_path: Path, cli: Command) -> None:
    kernel = ("start end name correlationId", [(*at(10, 20), "f", 1)])
    metrics = ("id value correlationId", [(1, bytes(8), 1), (2, bytes(8), 1), (1, bytes(8), 1)])
    events = ("id value correlationId", [(3, 5, 1)])
    path = nvprof_file(tmp_path / "f.nvprof", KERNEL=kernel, METRIC=metrics, EVENT=events)
    told = cli("inspect", path)
    assert told.code == 0
    for table, rows in (("METRIC", 3), ("EVENT", 1)):
        assert f"left out: CUPTI_ACTIVITY_KIND_{table}, {rows} rows (counters of kernels by CUPTI's numbers" in told.out
    assert "the report says: 2 metrics and 1 events of kernels were collected, which have numbers" in told.out
    assert "please report it" not in told.out


def test_of_kernels_that_ran_one_by_one_no_efficiency_is_told(tmp_path: Path, cli: Command) -> None:
    """Their calls are not recorded, which is no defect."""
    kernels = [(*at(10 * n, 10 * n + 2), "f", n) for n in range(1, 30)]
    metrics = {"METRIC": ("id value correlationId", [(1, bytes(8), 1)])}
    for serial in (False, True):
        tables = {"KERNEL": ("start end name correlationId", kernels)} | (metrics if serial else {})
        told = cli("analyze", nvprof_file(tmp_path / f"{serial}.nvprof", **tables)).out
        assert ("No efficiency: kernels ran one after the other, and again for each group" in told) == serial
        assert ("Efficiency:" in told) != serial
        assert ("device activities: 29 without their CUDA call" in told) != serial


def test_a_large_file_is_read_in_slices(tmp_path: Path) -> None:
    """Slices of some rows give the same bytes."""
    path, made = nvprof_file(tmp_path / "f.nvprof", **WORK), []
    for number, limits in enumerate((Limits(), Limits(slice_bytes=500, whole_bytes=0, piece_bytes=200))):
        out = tmp_path / str(number)
        out.mkdir()
        nsys2prv.translate(path, out / "t", execution=nsys2prv.Execution(jobs=1, limits=limits))
        made.append([(out / f"t.{ending}").read_bytes() for ending in ("prv", "pcf", "row")])
    assert made[0] == made[1]


def test_a_file_and_a_report_of_the_same_name_are_two(tmp_path: Path) -> None:
    nvprof_file(tmp_path / "rank0.nvprof", **WORK)
    export(tmp_path / "rank0.sqlite")
    assert len(find_reports(tmp_path)) == 2


XML = '<?xml version="1.0" encoding="UTF-8"?>'
PROJECT = (
    "this is an XML project of the NVIDIA Visual Profiler, which has no events; give the .nvprof files that it was "
    "made of, or record with `nvprof -o`"
)
NOT_SQLITE = "this is not an SQLite file; give a report (.sqlite, .nsys-rep) or an export folder"


@pytest.mark.parametrize("name", ["p.nvvp", "p.nvprof", "p.sqlite"])
@pytest.mark.parametrize(
    ("begin", "why"),
    [
        (f"{XML}\n<session/>", PROJECT),
        (f"\r\n  {XML}\n<session/>", PROJECT),
        ("<session/>", NOT_SQLITE),
        (f"a report: {XML}", NOT_SQLITE),
    ],
    ids=["project", "after blanks", "no declaration", "within"],
)
def test_a_project_of_the_visual_profiler_is_refused(
    begin: str, why: str, name: str, tmp_path: Path, cli: Command
) -> None:
    (tmp_path / name).write_text(begin)
    told = cli("inspect", tmp_path / name)
    assert (told.code, told.out, told.err) == (1, "", f"nsys2prv: {tmp_path / name}: {why}\n")


def test_a_file_of_several_processes_is_refused(tmp_path: Path, cli: Command) -> None:
    calls = ("cbid start end threadId processId", [(211, *at(10, 20), MAIN, pid) for pid in (PID, PID + 1)])
    told = cli("translate", nvprof_file(tmp_path / "f.nvprof", RUNTIME=calls), "-o", tmp_path / "out")
    assert told.code == 1
    assert f"f.nvprof: it has events of 2 processes ({PID}, {PID + 1})" in told.err
    assert "nvprof -o NAME.%p" in told.err


@pytest.mark.parametrize("table", ["StringTable", "Version"])
def test_a_file_without_its_texts_or_version_is_refused(table: str, tmp_path: Path, cli: Command) -> None:
    path = nvprof_file(tmp_path / "f.nvprof", **WORK)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"DROP TABLE {table}")
    told = cli("translate", path, "-o", tmp_path / "out")
    assert told.code == 1
    assert f"no such table: main.{table}); record it again with `nvprof -o`" in told.err


@pytest.mark.parametrize("column", ["copyKind", "start", "end"])
def test_a_table_without_a_column_is_refused(column: str, tmp_path: Path, cli: Command) -> None:
    path = nvprof_file(tmp_path / "f.nvprof", **WORK)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"ALTER TABLE {PREFIX}MEMCPY RENAME COLUMN [{column}] TO renamed")
    told = cli("translate", path, "-o", tmp_path / "out")
    assert told.code == 1
    assert "f.nvprof: SQLite cannot read it (" in told.err
    assert f"no such column: {column}" in told.err
    assert "record it again with `nvprof -o`" in told.err
