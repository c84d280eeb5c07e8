"""Unified memory page faults, memory in use, memory pools: on the metrics row of the GPU."""

from pathlib import Path

import pytest
from exports import HOST, MAIN, PID, PROCESS, Drawn, export, query, real

CPU_FAULT, GPU_FAULT, GPU_FAULTS = 70000300, 70000301, 70000302
PINNED, DEVICE, STATIC, UNKNOWN = 70000311, 70000312, 70000315, 70000317
POOL_SIZE, POOL_IN_USE, POOL_OPERATION = 70000320, 70000321, 70000322
GPU0, GPU1 = "Metrics GPU0", "Metrics GPU1"
# Something that gives the process a task: its counters are then on rows of that task.
CALL = ("start end globalTid nameId correlationId", [(0, 10, MAIN, "cudaMalloc_v3020", 1)])


def test_page_faults_on_both_sides(tmp_path: Path) -> None:
    """Groups that overlap go to a further row of the GPU; an unknown access has a value of its own."""
    report = export(
        tmp_path / "faults.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        CUDA_UM_CPU_PAGE_FAULT_EVENTS=(
            "start globalPid CpuInstruction",
            [(100, PROCESS, "main"), (100, PROCESS, "fill"), (200, PROCESS, None)],
        ),
        CUDA_UM_GPU_PAGE_FAULT_EVENTS=(
            "start end globalPid deviceId numberOfPageFaults faultAccessType",
            [(300, 400, PROCESS, 0, 6, 1), (390, 450, PROCESS, 0, 9, 2), (400, 410, PROCESS, 1, 1, 0)],
        ),
    )
    drawn = Drawn(report, "cuda_api", "page_faults")
    assert sorted((start, label) for _, start, _, label in drawn.intervals(CPU_FAULT)) == [
        (100, "fill"),
        (100, "main"),
        (200, "(unnamed)"),
    ]
    assert drawn.intervals(GPU_FAULT) == [
        (GPU0, 300, 400, "Read"),
        (GPU0, 390, 450, "Write"),
        (GPU1, 400, 410, "Unknown"),
    ]
    assert [n for *_, n in drawn.intervals(GPU_FAULTS)] == [6, 9, 1]
    assert drawn.trace.names["THREAD"].count(GPU0) == 2


def test_memory_in_use_is_what_is_allocated_less_what_is_freed(tmp_path: Path) -> None:
    """By GPU and kind. A free says neither kind nor bytes; one without its allocation is left out."""
    usage = "start globalPid deviceId address bytes memKind memoryOperationType"
    report = export(
        tmp_path / "usage.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        CUDA_GPU_MEMORY_USAGE_EVENTS=(
            usage,
            [
                (100, PROCESS, 0, 1000, 64, 2, 0),
                (150, PROCESS, 0, 9000, 5, 2, 1),
                (200, PROCESS, 0, 2000, 32, 2, 0),
                (300, PROCESS, 0, 1000, 0, 0, 1),
                (300, PROCESS, 0, 3000, 16, 1, 0),
                (400, PROCESS, 0, 1000, 8, 2, 0),
                (150, PROCESS, 1, 1000, 2**34, 2, 0),
                (160, PROCESS, 1, 2000, 4, 12, 0),
            ],
        ),
    )
    drawn = Drawn(report, "cuda_api", "memory_usage")
    on_first = [(t, v) for row, t, v in drawn.samples(DEVICE) if row == GPU0]
    assert on_first == [(100, 64), (200, 96), (300, 32), (400, 40)]
    assert [s for s in drawn.samples(DEVICE) if s[0] == GPU1] == [(GPU1, 150, 2**34)]
    assert drawn.samples(PINNED) == [(GPU0, 300, 16)]
    assert drawn.samples(UNKNOWN) == [(GPU1, 160, 4)]
    assert drawn.dropped("memory_usage") == {"freed, but allocated before the recording": 1}


@pytest.mark.parametrize("known_by", ["a context", "other memory"])
def test_static_variables_on_devices_that_a_process_does_not_use_are_left_out(known_by: str, tmp_path: Path) -> None:
    """The profiler states them for every device that the process sees, also as an impossible number."""
    usage = "start globalPid deviceId address bytes memKind memoryOperationType"
    rows = [(100, PROCESS, device, 1000, 64, kind, 0) for device, kind in ((0, 5), (1, 5), (2**32 - 1, 6))]
    context = ("processId deviceId contextId", [(PID, 0, 1)] if known_by == "a context" else [])
    report = export(
        tmp_path / "usage.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        CUDA_GPU_MEMORY_USAGE_EVENTS=(
            usage,
            rows + ([] if known_by == "a context" else [(150, PROCESS, 0, 2000, 32, 2, 0)]),
        ),
        TARGET_INFO_CUDA_CONTEXT_INFO=context,
    )
    drawn = Drawn(report, "cuda_api", "memory_usage")
    assert [row for row in drawn.trace.names["THREAD"] if row.startswith("Metrics")] == [GPU0]
    assert drawn.samples(STATIC) == [(GPU0, 100, 64)]
    assert drawn.dropped("memory_usage") == {"static variables on devices that their process does not use": 2}


def test_static_variables_are_drawn_where_nothing_tells_the_devices_of_a_process(tmp_path: Path) -> None:
    usage = "start globalPid deviceId address bytes memKind memoryOperationType"
    rows = [(100, PROCESS, device, 1000, 64, 5, 0) for device in (0, 1)]
    report = export(
        tmp_path / "usage.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=CALL, CUDA_GPU_MEMORY_USAGE_EVENTS=(usage, rows)
    )
    drawn = Drawn(report, "cuda_api", "memory_usage")
    assert drawn.samples(STATIC) == [(GPU0, 100, 64), (GPU1, 100, 64)]
    assert drawn.dropped("memory_usage") == {}


def test_each_process_counts_its_own_memory(tmp_path: Path) -> None:
    """Two processes on one GPU: a metrics row in each task."""
    other = HOST | 200 << 24
    report = export(
        tmp_path / "two.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            CALL[0],
            [(0, 10, MAIN, "cudaMalloc_v3020", 1), (0, 10, other | 200, "cudaMalloc_v3020", 1)],
        ),
        CUDA_GPU_MEMORY_USAGE_EVENTS=(
            "start globalPid deviceId address bytes memKind memoryOperationType",
            [(100, PROCESS, 0, 1, 64, 2, 0), (110, other, 0, 1, 32, 2, 0)],
        ),
    )
    drawn = Drawn(report, "cuda_api", "memory_usage")
    events = drawn.trace.events.filter(type=DEVICE)
    assert events.select("task", "value").rows() == [(1, 64), (2, 32)]


def test_pools_are_summed(tmp_path: Path) -> None:
    """Two pools of a GPU: sizes after operations and after allocations; a destroyed pool has none."""
    size = "localMemoryPoolSize localMemoryPoolUtilizedSize"
    report = export(
        tmp_path / "pools.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        CUDA_GPU_MEMORY_POOL_EVENTS=(
            f"start globalPid deviceId address operationType {size}",
            [
                (100, PROCESS, 0, 1, 1, 1024, 0),
                (200, PROCESS, 0, 2, 1, 512, 0),
                (400, PROCESS, 0, 1, 2, None, None),
                (500, PROCESS, 0, 2, 0, 512, 0),
            ],
        ),
        CUDA_GPU_MEMORY_USAGE_EVENTS=(
            f"start globalPid deviceId address bytes memKind memoryOperationType localMemoryPoolAddress {size}",
            [(300, PROCESS, 0, 7, 64, 2, 0, 2, 512, 64), (350, PROCESS, 0, 8, 64, 2, 0, None, None, None)],
        ),
    )
    drawn = Drawn(report, "cuda_api", "memory_pools")
    assert [(t, label) for _, t, _, label in drawn.intervals(POOL_OPERATION)] == [
        (100, "Created"),
        (200, "Created"),
        (400, "Destroyed"),
        (500, "Unknown"),
    ]
    assert drawn.samples(POOL_SIZE) == [(GPU0, 100, 1024), (GPU0, 200, 1536), (GPU0, 400, 512), (GPU0, 500, 512)]
    assert [(t, v) for _, t, v in drawn.samples(POOL_IN_USE)] == [(100, 0), (300, 64), (500, 0)]


@pytest.mark.shared
def test_a_real_report_agrees_with_sql(tmp_path: Path) -> None:
    report = real("single/unified-memory", tmp_path)
    begin = query(report, "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME")[0][0]
    drawn = Drawn(report, "cuda_api", "page_faults", "memory_usage", "memory_pools", begin=begin)
    faults = "FROM CUDA_UM_GPU_PAGE_FAULT_EVENTS"
    assert [(len(drawn.intervals(GPU_FAULT)), sum(int(n) for *_, n in drawn.intervals(GPU_FAULTS)))] == query(
        report, f"SELECT count(*), sum(numberOfPageFaults) {faults}"
    )
    assert sorted((s, e) for _, s, e, _ in drawn.intervals(GPU_FAULT)) == query(
        report, f"SELECT start, end {faults} ORDER BY 1, 2"
    )
    assert len(drawn.intervals(CPU_FAULT)) == 145
    running = (
        "SELECT start, sum(iif(memoryOperationType = 0, bytes, -bytes)) OVER (ORDER BY start) "
        "FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind = 2 ORDER BY start"
    )
    assert [(t, v) for _, t, v in drawn.samples(DEVICE)] == query(report, running)
