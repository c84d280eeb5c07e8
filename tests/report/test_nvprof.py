"""Files of nvprof are read like exports of nsys: the same families, with the sums of plain SQL."""

from __future__ import annotations

import re
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from exports import Drawn, export, tid
from nvprof_files import MAIN, OTHER, PID, PREFIX, SECOND, VERSIONS, WORK, at, nvprof_file, process_id, thread_id
from runs import SHARED, Command

import nsys2prv
from nsys2prv.report.nvprof.names import call_name, demangled

REAL = sorted((SHARED / "reports" / "nvprof").glob("*.nv*"))
# Event types.
CALL, MEMORY, KERNEL, FULL_NAME, PUSHED, START_END = 63000000, 63000001, 63000006, 70000001, 9600, 9004
# Fields of the kinds of copies that the trace has: CUPTI's number -> label.
COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device"}
FAMILIES = ("cuda_api", "kernels", "memory", "nvtx")


def query(path: Path, text: str) -> list[tuple[object, ...]]:
    """Rows of plain SQL on a file of nvprof."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        return file.execute(text).fetchall()


def sums(found: list[tuple[str, int, int, str | int]]) -> list[tuple[object, ...]]:
    """Label, number and total time (ns) of drawn intervals."""
    return added([(label, 1, end - start) for _, start, end, label in found])


def added(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Rows of (label, number, ns), added up by label."""
    frame = pl.DataFrame(rows, {"label": pl.String, "n": pl.Int64, "ns": pl.Int64}, orient="row")
    return frame.group_by("label").agg(pl.col("n").sum(), pl.col("ns").sum()).sort("label").rows()


def total(tables: str, key: str, path: Path) -> list[tuple[object, ...]]:
    """Number and total time (ns, a row at least 1) of a file's rows by a key."""
    held = [f"SELECT {key} AS key, start, end FROM {PREFIX}{table}" for table in tables.split()]
    return query(path, f"SELECT key, count(*), sum(max(end - start, 1)) FROM ({' UNION ALL '.join(held)}) GROUP BY key")


@pytest.fixture(params=[*VERSIONS, *REAL], ids=lambda of: f"version {of}" if isinstance(of, int) else of.name)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A constructed file of each version, and the real ones where they are."""
    if isinstance(request.param, int):
        return nvprof_file(tmp_path / "made.nvprof", request.param, **WORK)
    link = tmp_path / request.param.name
    link.symlink_to(request.param)
    return link


def test_sums_by_kernel_call_copy_and_marker_equal_sql(recorded: Path) -> None:
    pytest.importorskip("cpp_demangle")
    drawn = Drawn(recorded, *FAMILIES)
    name = "(SELECT value FROM StringTable AS s WHERE s._id_ = name)"
    kernels = sorted((demangled(str(k)), *rest) for k, *rest in total("KERNEL CONCURRENT_KERNEL", name, recorded))
    assert sums(drawn.intervals(FULL_NAME)) == kernels
    assert kernels
    calls = [
        (re.sub(r"_v\d+$", "", call_name(api, int(str(cbid)))), *rest)
        for api in ("runtime", "driver")
        for cbid, *rest in total(api.upper(), "cbid", recorded)
    ]
    assert sums(drawn.intervals(CALL)) == added(calls)
    copies = [(COPIES[int(str(kind))], *rest) for kind, *rest in total("MEMCPY", "copyKind", recorded)]
    sets = [("Memset", *rest) for _, *rest in total("MEMSET", "1", recorded)]
    assert sums(drawn.intervals(MEMORY)) == sorted(copies + sets)
    ranges = query(
        recorded,
        f"SELECT s.value, count(*), sum(b.timestamp - a.timestamp) FROM {PREFIX}MARKER AS a JOIN {PREFIX}MARKER AS b "
        "ON b.id = a.id AND a.flags = 2 AND b.flags = 4 JOIN StringTable AS s ON s._id_ = a.name GROUP BY 1 ORDER BY 1",
    )
    pushed, others = (drawn.intervals(kind) for kind in (PUSHED, START_END))
    assert sums(pushed + others) == ranges


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("cpp_demangle")
    drawn = Drawn(nvprof_file(tmp_path / "rank0.nvprof", **WORK), *FAMILIES, "synchronization", begin=90)
    assert (drawn.result.defects, drawn.result.dropped) == ((), {})
    assert drawn.trace.names["TASK"] == (f"app:{PID}",)
    assert drawn.trace.names["THREAD"] == (f"thread {PID}", f"thread {OTHER:#x} {PID + 1}", "CUDA-D0.S7", "CUDA-D0.S14")
    main, other, default, second = drawn.trace.names["THREAD"]
    assert drawn.intervals(CALL) == [
        (other, 240, 260, "cudaLaunchKernel"),
        (other, 300, 310, "cudaMemsetAsync"),
        (main, 100, 190, "cudaMemcpyAsync"),
        (main, 200, 230, "cudaLaunchKernel"),
        (main, 330, 350, "cuLaunchKernel"),
        (main, 400, 480, "cudaMemcpyAsync"),
    ]
    assert drawn.intervals(KERNEL) == [
        (second, 360, 395, "fill"),
        (default, 250, 310, "saxpy"),
        (default, 320, 350, "saxpy"),
    ]
    assert drawn.labels(FULL_NAME) == {
        1: "saxpy(int, float, float const*, float*)",
        2: "void app::fill<float, 4>(float*, int)",
    }
    assert drawn.intervals(MEMORY) == [
        (second, 312, 318, "Memset"),
        (default, 120, 180, "Host-to-Device"),
        (default, 420, 470, "Device-to-Host"),
    ]
    assert drawn.intervals(PUSHED) == [(main, 90, 490, "step"), (main, 195, 235, "compute")]
    assert drawn.intervals(START_END) == [(main, 300, 485, "whole")]
    assert drawn.intervals(70000005) == [(other, 290, 291, "here")]


def test_kinds_of_memory_bytes_and_launches(tmp_path: Path) -> None:
    with nsys2prv.open_report(nvprof_file(tmp_path / "f.nvprof", **WORK)) as report:
        tables = {t.name: report.table(t) for t in report.event_tables()}
        identity = report.identity
    kernels, copies = (tables[PREFIX + kind] for kind in ("KERNEL", "MEMCPY"))
    assert kernels["gridX", "blockX", "registersPerThread", "dynamicSharedMemory"].rows()[0] == (10, 256, 32, 0)
    # nsys counts kinds of memory from 0, CUPTI from 1: pageable, pinned, device.
    assert copies["bytes", "srcKind", "dstKind"].rows() == [(4096, 0, 2), (1024, 2, 1)]
    assert [(g.id, g.name, g.uuid) for g in identity.gpus] == [(0, "TITAN V", "00010203-0405-0607-0809-0a0b0c0d0e0f")]
    assert (identity.profiler, identity.schema_version, identity.contexts) == ("nvprof", "12", ((PID, 0),))
    # The session starts at the whole second before the first event.
    assert identity.utc_epoch_ns == SECOND


def test_it_merges_with_a_report_of_nsys_on_utc(tmp_path: Path) -> None:
    """The session of the other rank starts a ms after the second in which nvprof's first event is."""
    nvprof_file(tmp_path / "rank0.nvprof", **WORK)
    main = tid(100)
    export(
        tmp_path / "rank1.sqlite",
        TARGET_INFO_SESSION_START_TIME=("utcEpochNs", [(SECOND + 10**6,)]),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid nameId correlationId",
            [(50, 70, main, "cudaLaunchKernel_v7000", 1)],
        ),
    )
    made = nsys2prv.translate(tmp_path, tmp_path / "out", execution=nsys2prv.Execution(jobs=1))
    assert made.prv is not None
    assert "input rank0: host host, rank 0, nvprof unknown, clock by" in made.prv.read_text()
    calls = nsys2prv.read_prv(made.prv).intervals(CALL)
    # The trace begins with nvprof's first range, 90 ns into its session.
    assert calls.filter(pl.col("task") == 2)["start", "end"].rows() == [(10**6 + 50 - 90, 10**6 + 70 - 90)]
    assert calls.filter(pl.col("task") == 1)["start"].sort().to_list() == [10, 110, 150, 210, 240, 310]


@pytest.mark.parametrize("signed", [True, False])
def test_threads_are_the_same_with_a_sign_or_without(signed: bool, tmp_path: Path) -> None:
    thread = MAIN if signed else MAIN & 0xFFFFFFFF
    calls = ("cbid start end threadId processId", [(211, *at(10, 20), thread, PID)])
    marks = ("flags timestamp id objectKind objectId name", [(1, *at(15), 1, 2, thread_id(MAIN), "here")])
    drawn = Drawn(nvprof_file(tmp_path / "f.nvprof", RUNTIME=calls, MARKER=marks), *FAMILIES)
    assert drawn.trace.names["THREAD"] == (f"thread {PID}",)


def test_kernels_and_programs_without_a_name_are_told(tmp_path: Path) -> None:
    path = nvprof_file(tmp_path / "f.nvprof", max(VERSIONS), **WORK)
    with closing(sqlite3.connect(path)) as file, file:
        # The column takes no null; a damaged file has some.
        file.execute("ALTER TABLE StringTable RENAME TO whole")
        file.execute("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)")
        file.execute("INSERT INTO StringTable SELECT _id_, NULL FROM whole")
        kernels = file.execute(f"SELECT count(*) FROM {PREFIX}CONCURRENT_KERNEL").fetchone()[0]
    drawn = Drawn(path, *FAMILIES)
    assert drawn.intervals(KERNEL) == []
    assert sum(drawn.dropped("kernels").values()) == kernels > 0


def test_domains_categories_colors_and_payloads_of_ranges(tmp_path: Path) -> None:
    def little(value: int | float) -> bytes:
        return struct.pack("<d" if isinstance(value, float) else "<q", value)

    thread = thread_id(MAIN)
    payloads = [(1, 2**62 + 3), (4, -5), (0, 0.375), (0, -1e-310), (2, 7)]
    path = nvprof_file(
        tmp_path / "f.nvprof",
        MARKER=(
            "flags timestamp id objectKind objectId name domain",
            [(f, *at(n * 100 + f), n, 2, thread, "range" if f == 2 else 0, "lib") for n in range(1, 6) for f in (2, 4)],
        ),
        MARKER_DATA=(
            "id payloadKind payload color category",
            [(n, kind, little(value), 0x11223344, 9) for n, (kind, value) in enumerate(payloads, start=1)],
        ),
    )
    drawn = Drawn(path, "nvtx", begin=102)
    assert drawn.trace.types[9700] == "NVTX lib"
    assert drawn.intervals(9700)[0][1:] == (102, 104, "range")
    with nsys2prv.open_report(path) as report:
        (table,) = (t for t in report.event_tables() if t.name == "NVTX_EVENTS")
        events = report.table(table).filter(pl.col("eventType") == 59).sort("start")
    assert events["uint64Value"].to_list() == [2**62 + 3, None, None, None, None]
    assert events["int64Value"].to_list() == [None, -5, None, None, None]
    assert events["doubleValue"].to_list() == [None, None, 0.375, -1e-310, None]
    assert events["color", "category"].unique().rows() == [(0x11223344, 9)]


def test_ranges_without_their_other_end_are_told(tmp_path: Path) -> None:
    thread = thread_id(MAIN)
    rows = [(4, *at(50), 1, 2, thread, 0), (2, *at(60), 2, 2, thread, "open"), (1, *at(90), 3, 2, thread, "last")]
    drawn = Drawn(
        nvprof_file(tmp_path / "f.nvprof", MARKER=("flags timestamp id objectKind objectId name", rows)), "nvtx"
    )
    assert drawn.intervals(PUSHED) == [(f"thread {PID}", 60, 90, "open")]
    assert sum(drawn.dropped("nvtx").values()) == 2


def test_unified_memory_is_drawn_and_its_other_counters_are_told(tmp_path: Path) -> None:
    counters = [
        (1, 65536, *at(10, 20), 2**32 - 1, 0),
        (2, 4096, *at(30, 40), 0, 2**32 - 1),
        (3, 1, *at(50), 0, 2**32 - 1, 0),
        (4, 12, *at(60, 75), 0, 0),
        (5, 1, *at(80, 81), 0, 0),
        (8, 512, *at(90, 95), 0, 0),
    ]
    path = nvprof_file(
        tmp_path / "f.nvprof",
        UNIFIED_MEMORY_COUNTER=(
            "counterKind value start end srcId dstId processId flags",
            [(*row, PID, 2) for row in counters],
        ),
    )
    drawn = Drawn(path, "memory", "page_faults")
    assert [row[1:] for row in drawn.intervals(MEMORY)] == [
        (10, 20, "Unified Host-to-Device"),
        (30, 40, "Unified Device-to-Host"),
        (90, 95, "Unified Device-to-Device"),
    ]
    assert [row[1:] for row in drawn.intervals(70000301)] == [(60, 75, "Write")]
    assert list(drawn.result.losses.values()) == [("1 records of thrashing in unified memory are not drawn",)]


def test_openacc_openmp_overhead_and_memory_in_use(tmp_path: Path) -> None:
    path = nvprof_file(
        tmp_path / "f.nvprof",
        OPENACC_DATA=(
            "eventKind start end cuThreadId cuProcessId lineNo srcFile bytes varName",
            [(5, *at(10, 20), MAIN, PID, 12, "a.c", 64, "x")],
        ),
        OPENACC_LAUNCH=(
            "eventKind start end cuThreadId cuProcessId lineNo srcFile numGangs kernelName",
            [(4, *at(30, 40), MAIN, PID, 14, "a.c", 8, "main_14_gpu")],
        ),
        OPENACC_OTHER=("eventKind start end cuThreadId cuProcessId lineNo", [(7, *at(50, 60), MAIN, PID, 0)]),
        OPENMP=(
            "eventKind start end cuThreadId cuProcessId",
            [(1, *at(5, 70), MAIN, PID), (5, *at(61, 69), MAIN, PID)],
        ),
        OVERHEAD=("overheadKind objectKind objectId start end", [(1, 1, process_id(), *at(1, 4))]),
        MEMORY=("memoryKind address bytes start end processId", [(3, 4096, 100, *at(8, 66), PID)]),
    )
    drawn = Drawn(path, "openacc", "openmp", "overhead", "memory_usage")
    found = [row[1:] for kind in (66000001, 66000002, 66000000) for row in drawn.intervals(kind)]
    assert found == [(10, 20, "Enqueue upload@a.c:12"), (30, 40, "Enqueue launch@a.c:14"), (50, 60, "Wait")]
    assert [row[1:] for row in drawn.intervals(70000231)] == [(1, 4, "Driver compiler")]
    assert drawn.result.dropped == {}


def test_every_command_takes_it(recorded: Path, output: Path, cli: Command) -> None:
    for command in ("inspect", "translate", "analyze"):
        told = cli(command, recorded, *(("-o", output) if command == "translate" else ()))
        assert (told.code, "Traceback" in told.err, "please report" in told.out) == (0, False, False)
    assert f"nvprof ?, schema {query(recorded, 'SELECT version FROM Version')[0][0]}, " in cli("inspect", recorded).out
