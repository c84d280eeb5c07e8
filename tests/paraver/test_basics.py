"""Real Paraver shows something of every family by its basic cfg, without a word on stderr."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import paramedir
import pytest
from exports import MAIN, PID, PROCESS, export, tid

import nsys2prv
from nsys2prv.families.registry import FAMILIES
from nsys2prv.model.event_types import OPENMP
from nsys2prv.paraver.cfg import CFGS, Cfg

ROOT = Path(__file__).parents[2]
SAMPLES, DATA = ROOT / "sample_reports", ROOT / "tests" / "data"
BASICS = {cfg.name: cfg for cfg in CFGS if cfg.folder == "basics"}
CALL = "start end globalTid nameId"

# Report -> the cfgs that must show something of it. What no report of the repository has is constructed.
REAL = {
    SAMPLES / "gpt-ddp" / "gpt-ddp.0.0.sqlite": "cuda_api kernels_full_name nccl_calls synchronization correlation "
    "event_waits nvtx projection projection_thread osrt os_callers overhead tensor_estimate idle_causes launch_queues "
    "states window",
    SAMPLES / "mpi-halo" / "mpi-halo.0.sqlite": "mpi nvtx_marks",
    SAMPLES / "single" / "nvtx-attributes.sqlite": "nvtx_start_end",
    DATA / "nccl-launches" / "nccl-launches.0.sqlite": "graph_creation",
    SAMPLES / "single" / "openmp.sqlite": "openmp",
    SAMPLES / "single" / "saxpy.sqlite": "pthreads",
    DATA / "system-calls" / "system-calls.sqlite": "system_calls",
    DATA / "ncu" / "gpt.sqlite": "ncu",
    DATA / "python-sampling" / "python-sampling.sqlite": "python_samples",
    DATA / "python-sampling" / "python-cuda.sqlite": "python_cuda",
}


def host(folder: Path) -> Path:
    """What a host does: calls of libraries, regions, scheduling, samples."""
    where, call = f"{CALL} srcFile lineNo", [(100, 900, MAIN, "run"), (300, 400, tid(101), "inner")]
    openmp = ("TASK", "CRITICAL_SECTION", "FLUSH", "SYNC_REGION")
    return export(
        folder / "host.sqlite",
        **{f"OPENMP_EVENT_KIND_{kind}": (CALL, call) for kind in openmp},
        CUBLAS_EVENTS=(CALL, call),
        CUDNN_EVENTS=(CALL, call),
        UCP_EVENTS=("start end globalTid textId", call),
        CUPTI_ACTIVITY_KIND_OPENACC_OTHER=(where, [(100, 900, MAIN, "Wait", "heat.f90", 12)]),
        CUPTI_ACTIVITY_KIND_OPENACC_DATA=(where, [(110, 200, MAIN, "Enqueue Upload", "heat.f90", 12)]),
        CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH=(where, [(300, 400, MAIN, "Enqueue Launch", "heat.f90", 14)]),
        SCHED_EVENTS=("start cpu isSchedIn globalTid threadState", [(100, 3, 1, MAIN, None), (500, 3, 0, MAIN, 2)]),
        COMPOSITE_EVENTS=("id start globalTid", [(1, 150, MAIN), (2, 700, MAIN)]),
        SAMPLING_CALLCHAINS=("id symbol module unresolved stackDepth", [(1, "work", "/bin/app", 0, 0)]),
    )


def device(folder: Path) -> Path:
    """What concerns a device beside its work, network metrics, and a CUDA graph drawn whole."""
    usage = "start globalPid deviceId address bytes memKind memoryOperationType"
    pool = "start globalPid deviceId address operationType localMemoryPoolSize localMemoryPoolUtilizedSize"
    return export(
        folder / "device.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=(f"{CALL} correlationId", [(10, 20, MAIN, "cudaGraphLaunch", 1)]),
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=(
            "start end deviceId contextId streamId correlationId globalPid graphId graphExecId",
            [(100, 900, 0, 1, 7, 1, PROCESS, 1, 2)],
        ),
        CUDA_UM_CPU_PAGE_FAULT_EVENTS=("start globalPid CpuInstruction", [(100, PROCESS, "touch")]),
        CUDA_UM_GPU_PAGE_FAULT_EVENTS=(
            "start end globalPid deviceId numberOfPageFaults faultAccessType",
            [(100, 200, PROCESS, 0, 5, 1)],
        ),
        CUDA_GPU_MEMORY_USAGE_EVENTS=(usage, [(100 + k, PROCESS, 0, k, 4096, k, 0) for k in range(8)]),
        CUDA_GPU_MEMORY_POOL_EVENTS=(pool, [(100, PROCESS, 0, 1, 0, 4096, 1024), (300, PROCESS, 0, 1, 2, 4096, 512)]),
        GPU_CONTEXT_SWITCH_EVENTS=(
            "tag seqNo contextId timestamp globalPid gpuId",
            [(8, 1, 5, 100, PROCESS, 0), (7, 2, 5, 400, PROCESS, 0)],
        ),
        TARGET_INFO_NETWORK_METRICS=("metricsListId metricsIdx name unit", [(1, 0, "IB: Bytes received", "bytes/ms")]),
        NET_NIC_METRIC=("start end globalId portId metricsListId metricsIdx value", [(100, 200, 77, 1, 1, 0, 7)]),
    )


def newer(folder: Path) -> Path:
    """What versions of 2025.6 to 2026.5 record, and Windows."""
    work = "start end deviceId contextId streamId correlationId globalPid"
    queued = "start gpu context {} packetType engineType"
    paged = "start gpu pagingQueue pagingQueuePacket sequenceId"
    return export(
        folder / "newer.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=(f"{CALL} correlationId", [(10, 20, MAIN, "cudaLaunchHostFunc", 1)]),
        CUPTI_ACTIVITY_KIND_JIT=(CALL, [(30, 90, MAIN, "cuModuleLoadData")]),
        CUDA_HOST_CALLBACK=(CALL, [(110, 190, MAIN, "log")]),
        CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH=(work, [(100, 200, 0, 1, 7, 1, PROCESS)]),
        CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS=(
            f"{work} sourceBytes NumberOfOperations",
            [(300, 400, 0, 1, 7, 2, PROCESS, 4096, 3)],
        ),
        NVTX_EVENTS=(
            "start end eventType globalTid domainId text jsonText",
            [
                (0, None, 75, MAIN, 1, "NCCL", None),
                (100, 400, 59, MAIN, 1, "AllReduce", '{"commHash":5,"commRank":0,"operationId":9}'),
            ],
        ),
        OSRT_FILE_ACCESS_DESCRIPTORS=("fileAccessId processId filePath", [(1, PID, "/data/batch0.bin")]),
        OSRT_FILE_ACCESS_EVENTS=(
            "fileAccessId threadId startedAt endedAt apiCallId bytesProcessed",
            [(1, PID, 210, 290, "read", 4096)],
        ),
        WDDM_QUEUE_PACKET_START_EVENTS=(queued.format("submitSequence"), [(100, 0, 8, 1, 0, 1)]),
        WDDM_QUEUE_PACKET_STOP_EVENTS=(queued.format("submitSequence"), [(300, 0, 8, 1, 0, 1)]),
        WDDM_DMA_PACKET_START_EVENTS=(queued.format("ulQueueSubmitSequence"), [(150, 0, 8, 1, 0, 1)]),
        WDDM_DMA_PACKET_STOP_EVENTS=(queued.format("ulQueueSubmitSequence"), [(290, 0, 8, 1, 0, 1)]),
        WDDM_PAGING_QUEUE_PACKET_START_EVENTS=(f"{paged} vidMmOpType", [(400, 0, 1, 2, 3, 206)]),
        WDDM_PAGING_QUEUE_PACKET_STOP_EVENTS=(paged, [(410, 0, 1, 2, 3)]),
    )


CONSTRUCTED = {
    host: "openmp cublas cudnn ucx openacc scheduling cpu_samples",
    device: "graphs page_faults memory_in_use memory_pools gpu_contexts network",
    newer: "nccl_operations jit host_functions host_work decompression files wddm",
}


def test_every_basic_cfg_is_shown_by_some_trace() -> None:
    assert set(" ".join([*REAL.values(), *CONSTRUCTED.values()]).split()) == set(BASICS)


def silent(report: Path, cfgs: list[Cfg], folder: Path) -> list[str]:
    """The windows of cfgs that show nothing of a report; what Paraver says of them fails the test."""
    every = nsys2prv.Selection(tuple(f.name for f in FAMILIES))
    files = tuple(map(nsys2prv.ProfileFile, report.parent.glob("steps.csv")))
    result = nsys2prv.translate(
        report,
        folder / "trace",
        selection=every,
        options=nsys2prv.RunOptions(every_thread=True, ncu=files),
        # They bring a type more. The other cfgs find theirs by label, whatever the number.
        writing=nsys2prv.TraceOutput(public_types=True),
        execution=nsys2prv.Execution(jobs=1),
    )
    assert result.prv is not None
    # paramedir prints the last window of a file.
    parts = [c._replace(folder=str(n), windows=(w,)) for c in cfgs for n, w in enumerate(c.windows)]
    shown = paramedir.run_parts(result.prv, parts, folder / "parts")
    assert shown.complaints == ""
    empty = [
        c
        for c in parts
        if not (shown.exists(name := c.path.removesuffix(".cfg")) and any(v for *_, v in shown.lines(name)))
    ]
    return [f"{c.name}: {c.windows[0].name}" for c in empty]


# Kinds of OpenMP events that only the real report has.
REGIONS = {f"openmp: {OPENMP[kind].label}" for kind in ("parallel", "worksharing", "waiting")}


@pytest.mark.paraver
@pytest.mark.parametrize("report", REAL, ids=lambda path: path.stem)
def test_paraver_shows_what_a_real_report_has(report: Path, tmp_path: Path) -> None:
    assert silent(report, [BASICS[name] for name in REAL[report].split()], tmp_path) == []


@pytest.mark.paraver
@pytest.mark.parametrize("make", CONSTRUCTED, ids=lambda make: make.__name__)
def test_paraver_shows_what_a_constructed_report_has(make: Callable[[Path], Path], tmp_path: Path) -> None:
    expected = REGIONS if make is host else set()
    assert set(silent(make(tmp_path), [BASICS[name] for name in CONSTRUCTED[make].split()], tmp_path)) == expected
