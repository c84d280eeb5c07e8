"""What the operating system and the profiler did with host threads, and contexts on the GPU."""

from pathlib import Path

import polars as pl
import pytest
from exports import HOST, MAIN, PROCESS, Drawn, export, real, tid

import nsys2prv
from nsys2prv.families.host import os_callers
from nsys2prv.families.host.cuda_api import ALLOCATING, LAUNCHING, MANAGING_MEMORY
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.report_part import ReportPart, Storage

SCHEDULING, CORE = 70000200, 70000201
FUNCTION, CALLER, SECOND_CALLER = 70000210, 70000211, 70000212
CONTEXT, OVERHEAD = 70000230, 70000231
MAIN_ROW = "thread 100"


def test_scheduling_tells_why_a_thread_is_off_its_core(tmp_path: Path) -> None:
    """In: running. Out: ready (1), blocked (2), uninterruptible (3), terminated (5: nothing), unknown (0, null)."""
    switches = [
        (1000, 3, 1, MAIN, None),
        (1100, 3, 0, MAIN, 1),
        (1200, 0, 1, MAIN, None),
        (1300, 0, 0, MAIN, 2),
        (1400, 0, 1, MAIN, None),
        (1500, 0, 0, MAIN, 3),
        (1600, 0, 1, MAIN, None),
        (1700, 0, 0, MAIN, 0),
        (1800, 0, 1, MAIN, None),
        (1900, 0, 0, MAIN, None),
        (1950, 0, 1, MAIN, None),
        (1960, 0, 0, MAIN, 5),
        (1000, 1, 0, tid(101), 2),
        (2000, 1, 1, tid(102), None),
        (1500, 1, 1, None, None),
    ]
    report = export(
        tmp_path / "scheduling.sqlite", SCHED_EVENTS=("start cpu isSchedIn globalTid threadState", switches)
    )
    drawn = Drawn(report, "scheduling")
    off = "Off the core (no reason recorded)"
    assert drawn.intervals(SCHEDULING) == [
        (MAIN_ROW, 1000, 1100, "Running"),
        (MAIN_ROW, 1100, 1200, "Ready"),
        (MAIN_ROW, 1200, 1300, "Running"),
        (MAIN_ROW, 1300, 1400, "Blocked"),
        (MAIN_ROW, 1400, 1500, "Running"),
        (MAIN_ROW, 1500, 1600, "Blocked (uninterruptible)"),
        (MAIN_ROW, 1600, 1700, "Running"),
        (MAIN_ROW, 1700, 1800, off),
        (MAIN_ROW, 1800, 1900, "Running"),
        (MAIN_ROW, 1900, 1950, off),
        (MAIN_ROW, 1950, 1960, "Running"),
        ("thread 101", 1000, 2000, "Blocked"),
    ]
    assert drawn.intervals(CORE)[:2] == [(MAIN_ROW, 1000, 1100, "CPU 3"), (MAIN_ROW, 1200, 1300, "CPU 0")]
    assert drawn.dropped("scheduling") == {"without a thread": 1}


def test_scheduling_of_old_versions_has_no_reason(tmp_path: Path) -> None:
    """Before 3.17 there is no threadState."""
    report = export(
        tmp_path / "old.sqlite",
        SCHED_EVENTS=("start cpu isSchedIn globalTid", [(10, 1, 1, MAIN), (20, 1, 0, MAIN), (30, 1, 1, MAIN)]),
        lacking={"SCHED_EVENTS": "threadState threadBlock"},
    )
    assert [label for *_, label in Drawn(report, "scheduling").intervals(SCHEDULING)] == [
        "Running",
        "Off the core (no reason recorded)",
    ]


def test_samples_have_their_function_and_callers(tmp_path: Path) -> None:
    """An unresolved function is its module; the note that the stack broke off is no caller; no stack, no function."""
    report = export(
        tmp_path / "samples.sqlite",
        COMPOSITE_EVENTS=("id start globalTid", [(1, 100, MAIN), (2, 200, MAIN), (3, 300, MAIN), (4, 400, None)]),
        SAMPLING_CALLCHAINS=(
            "id symbol module unresolved stackDepth",
            [
                (1, "work", "/bin/app", 0, 0),
                (1, "0x7f50", "/lib/libc.so.6", 1, 1),
                (1, "main", "/bin/app", 0, 2),
                (2, "work", "/bin/app", 0, 0),
                (2, "[Broken backtraces]", "[Broken backtraces]", 0, 1),
            ],
        ),
    )
    drawn = Drawn(report, "cpu_samples")
    assert drawn.intervals(FUNCTION) == [
        (MAIN_ROW, 100, 101, "work"),
        (MAIN_ROW, 200, 201, "work"),
        (MAIN_ROW, 300, 301, "(no stack)"),
    ]
    assert drawn.intervals(CALLER) == [(MAIN_ROW, 100, 101, "[libc.so.6]")]
    assert drawn.intervals(SECOND_CALLER) == [(MAIN_ROW, 100, 101, "main")]
    assert drawn.dropped("cpu_samples") == {"without a thread": 1}


def test_callers_end_at_a_depth(tmp_path: Path) -> None:
    deep = [(1, f"f{depth}", "/bin/app", 0, depth) for depth in range(20)]
    report = export(
        tmp_path / "deep.sqlite",
        COMPOSITE_EVENTS=("id start globalTid", [(1, 100, MAIN)]),
        SAMPLING_CALLCHAINS=("id symbol module unresolved stackDepth", deep),
    )
    drawn = Drawn(report, "cpu_samples")
    assert [drawn.labels(FUNCTION + n) for n in range(9)] == [{1: f"f{n}"} for n in range(8)] + [{}]
    assert drawn.dropped("cpu_samples") == {"stacks deeper than 8 (drawn without the callers above)": 1}


def test_os_calls_with_a_stack_have_their_callers(tmp_path: Path) -> None:
    """Depth 0 is the call itself; a call without a stack is drawn by osrt alone."""
    report = export(
        tmp_path / "os.sqlite",
        OSRT_API=(
            "start end globalTid nameId callchainId",
            [(100, 900, MAIN, "poll", 5), (950, 960, MAIN, "read", 0), (970, 990, MAIN, "poll", 6)],
        ),
        OSRT_CALLCHAINS=(
            "id symbol module unresolved stackDepth",
            [
                (5, "poll", "libc.so.6", 0, 0),
                (5, "wait", "/bin/app", 0, 1),
                (5, "0x12", "/bin/app", 1, 2),
                (6, "poll", "libc.so.6", 0, 0),
            ],
        ),
    )
    drawn = Drawn(report, "os_callers")
    with nsys2prv.open_report(report) as opened:
        assert os_callers.FAMILY.rows_in(opened) == 2, "as many as are drawn"
    assert drawn.intervals(70000251) == [(MAIN_ROW, 100, 900, "wait"), (MAIN_ROW, 970, 990, "(no stack)")]
    assert drawn.intervals(70000252) == [(MAIN_ROW, 100, 900, "[app]")]


def test_a_context_is_on_the_gpu_from_restore_to_save(tmp_path: Path) -> None:
    """8 restore, 9 start, 7 save, 11 reset; 1 is a request. The process on no row is drawn on its GPU's."""
    other = HOST | 200 << 24
    switches = [
        (7, 0, 5, 50, PROCESS, 1),
        (8, 1, 5, 100, PROCESS, 1),
        (9, 2, 5, 110, PROCESS, 1),
        (1, 3, 5, 190, PROCESS, 1),
        (7, 4, 5, 200, PROCESS, 1),
        (8, 5, 9, 200, other, 1),
        (11, 6, 9, 300, other, 1),
        (8, 7, 5, 300, PROCESS, 1),
        (1, 8, 5, 400, PROCESS, 1),
    ]
    report = export(
        tmp_path / "contexts.sqlite",
        GPU_CONTEXT_SWITCH_EVENTS=("tag seqNo contextId timestamp globalPid gpuId", switches),
    )
    drawn = Drawn(report, "gpu_contexts", begin=100)
    assert drawn.intervals(CONTEXT) == [
        ("Metrics GPU1", 100, 200, "app 100, context 5"),
        ("Metrics GPU1", 200, 300, "process 200, context 9"),
        ("Metrics GPU1", 300, 400, "app 100, context 5"),
    ]
    assert drawn.dropped("gpu_contexts") == {
        "requests and acknowledgments, which have no length": 2,
        "still on the GPU at the end (drawn to the last event)": 1,
        "taken off the GPU without having been put there": 1,
    }


def test_a_context_is_on_the_gpu_that_the_host_numbers_so(tmp_path: Path) -> None:
    """Whatever the process calls it, whose number page faults have."""
    environment = ("PROCESS_1:ENVIRONMENT_VARIABLE", "CUDA_VISIBLE_DEVICES=1,0")
    report = export(
        tmp_path / "renumbered.sqlite",
        META_DATA_CAPTURE=("name value", [environment]),
        GPU_CONTEXT_SWITCH_EVENTS=(
            "tag seqNo contextId timestamp globalPid gpuId",
            [(8, 0, 5, 100, PROCESS, 1), (7, 1, 5, 200, PROCESS, 1)],
        ),
        CUDA_UM_GPU_PAGE_FAULT_EVENTS=("start end globalPid deviceId", [(100, 200, PROCESS, 1)]),
    )
    drawn = Drawn(report, "gpu_contexts", "page_faults")
    assert [row[0] for row in drawn.intervals(CONTEXT)] == ["Metrics GPU1"]
    assert {row[0] for row in drawn.intervals(70000301)} == {"Metrics GPU0"}


def test_overhead_of_both_tables_from_documentation(tmp_path: Path) -> None:
    columns = "start end globalTid nameId"
    report = export(
        tmp_path / "overhead.sqlite",
        PROFILER_OVERHEAD=(columns, [(100, 200, MAIN, "cuModuleLoad"), (100, 200, None, "flush")]),
        CUPTI_ACTIVITY_KIND_OVERHEAD=(columns, [(300, 400, MAIN, "Buffer flush")]),
    )
    drawn = Drawn(report, "overhead")
    assert drawn.intervals(OVERHEAD) == [(MAIN_ROW, 100, 200, "cuModuleLoad"), (MAIN_ROW, 300, 400, "Buffer flush")]
    assert drawn.dropped("overhead") == {"without a thread": 1}


@pytest.mark.parametrize("family", ["scheduling", "cpu_samples", "os_callers", "overhead"])
def test_off_by_default(family: str) -> None:
    assert family not in nsys2prv.Selection().families


@pytest.mark.shared
def test_a_real_report_is_drawn_whole(tmp_path: Path) -> None:
    """Switches pair up (11,738 rows, 328 of them terminations); every sample; two stays on the GPU."""
    drawn = Drawn(
        real("single/threads-cpu-sampling", tmp_path), "scheduling", "cpu_samples", "gpu_contexts", "overhead"
    )
    profiler = drawn.result.dropped["scheduling"]["on threads of the profiler itself"]
    assert drawn.result.rows["scheduling"] + profiler == 11738 - 328
    assert {label for *_, label in drawn.intervals(CONTEXT)} == {"python3 3264, context 706"}
    assert len(drawn.intervals(CONTEXT)) == 2
    assert not any("[NSys" in row or "CUPTI" in row for row in drawn.trace.names["THREAD"])


def test_a_host_function_is_no_launch_of_a_kernel(tmp_path: Path) -> None:
    """What cudaLaunchHostFunc puts on a stream runs on the host: that no kernel ran is no loss."""
    names = ["cudaLaunchHostFunc_v10000", "cuLaunchHostFunc", "cudaLaunchKernel_v7000", "cuLaunch", "cudaGraphLaunch"]
    calls = [(n, n + 1, MAIN, name, 0) for n, name in enumerate(names)]
    report = export(
        tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId returnValue", calls)
    )
    summary = extract(ReportPart(report, ("cuda_api",), Storage("00000", tmp_path)))
    calls_by_kind = {key: count.calls for key, count in summary.launches.items()}
    assert calls_by_kind == {(PROCESS, DeviceKind.COMPUTE): 3, (PROCESS, DeviceKind.GRAPH): 1}
    pattern = pl.Series(names).str.contains(LAUNCHING[DeviceKind.COMPUTE])
    assert pattern.to_list() == [False, False, True, True, True]


def test_calls_that_manage_memory_are_those_that_allocate_and_those_that_free_map_or_pin_it() -> None:
    allocating = ["cudaMallocAsync", "cudaHostAlloc", "cuMemAlloc", "cuMemHostAlloc", "cuMemCreate"]
    others = ["cudaFreeHost", "cudaHostRegister", "cuMemFreeAsync", "cuMemMap", "cuMemHostRegister"]
    none = ["cudaMemcpy", "cuMemcpyAsync", "cudaMemset", "cudaMemGetInfo", "cudaMemPrefetchAsync", "cudaLaunchHostFunc"]
    names = pl.Series([*allocating, *others, *none])
    assert names.filter(names.str.contains(ALLOCATING)).to_list() == allocating
    assert names.filter(names.str.contains(MANAGING_MEMORY)).to_list() == [*allocating, *others]
