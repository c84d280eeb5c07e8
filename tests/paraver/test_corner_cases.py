"""Cfgs on small reports of what the real ones lack, by hand and against `analyze`."""

from __future__ import annotations

from pathlib import Path

import paramedir
import pytest
from exports import MAIN, PROCESS, Row, export

import nsys2prv
from nsys2prv.paraver.cfg import CFGS

pytestmark = pytest.mark.paraver

KERNELS = "start end deviceId streamId correlationId globalPid shortName demangledName"
GRAPHS = "start end deviceId streamId correlationId globalPid graphId"
ALL_REDUCE, ALL_GATHER = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllGather_RING_LL"


def kernels(*rows: tuple[int, int, int, str]) -> tuple[str, list[Row]]:
    """KERNELS by start, end, stream and name."""
    return KERNELS, [(s, e, 0, stream, n, PROCESS, name, name) for n, (s, e, stream, name) in enumerate(rows, start=1)]


def shown(report: Path, *names: str) -> paramedir.Output:
    """What some analysis cfgs say of a report."""
    paramedir.program()
    prv = nsys2prv.translate(report, report.with_suffix("")).prv
    assert prv is not None
    chosen = [c for c in CFGS if c.folder == "analysis" and c.name in names]
    return paramedir.run(prv, chosen, report.parent / "out")


def test_a_graph_that_is_recorded_as_a_whole_computes(tmp_path: Path) -> None:
    graphs: list[Row] = [(100, 500, 0, 7, 1, PROCESS, 3), (700, 1100, 0, 7, 2, PROCESS, 3)]
    report = export(tmp_path / "graph.sqlite", CUPTI_ACTIVITY_KIND_GRAPH_TRACE=(GRAPHS, graphs))
    names = ("parallel_efficiency", "device_busy", "useful_time", "device_states")
    output = shown(report, *names)
    found = nsys2prv.analyze(report).efficiency
    columns = ("Parallel efficiency [%]", "Busy [%]", "Useful time [ms]")
    averages = [output.totals(f"analysis/{n}", column)["Average"] for n, column in zip(names, columns, strict=False)]
    assert averages == [80, 80, 0.0008]
    assert (found.parallel, found.orchestration, found.devices[0].useful_ns) == (0.8, 0.8, 800)
    assert output.table("analysis/device_states") == {("app:100", "Idle"): 20, ("app:100", "Useful"): 80}


def test_collectives_at_once_are_not_overlapped_by_compute(tmp_path: Path) -> None:
    """Two of NCCL's kernels run from 200 to 400, and another kernel beside one of them from 500 to 600."""
    work = kernels((0, 400, 7, ALL_REDUCE), (200, 800, 8, ALL_GATHER), (500, 600, 9, "gemm"), (900, 1000, 9, "gemm"))
    report = export(tmp_path / "nccl.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=work)
    output = shown(report, "overlap_of_communication", "overlap_of_window")
    found = nsys2prv.analyze(report).overlap.row(0, named=True)
    assert (found["exposed_ns"], found["overlapped_ns"]) == (700, 100)
    shares = {("app:100", "Communication alone"): 87.5, ("app:100", "Beside 1 kernel"): 12.5}
    assert output.table("analysis/overlap_of_communication") == shares
    parts = {"No communication": 20, "Communication alone": 70, "Beside 1 kernel": 10}
    shares = {("app:100", part): percent for part, percent in parts.items()}
    assert output.table("analysis/overlap_of_window") == shares


def test_a_call_goes_on_after_one_inside_it(tmp_path: Path) -> None:
    """And a thread that makes a stream wait does not wait itself."""
    calls = [(100, 500, MAIN, "outer", 9), (200, 300, MAIN, "inner", 8), (600, 700, MAIN, "cudaStreamWaitEvent", 7)]
    report = export(
        tmp_path / "calls.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=kernels((0, 1000, 7, "gemm")),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", calls),
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=(
            "start end globalPid correlationId syncType eventId",
            [(350, 450, PROCESS, 9, 4, None), (610, 690, PROCESS, 7, 2, 5)],
        ),
    )
    output = shown(report, "host_states")
    (found,) = nsys2prv.analyze(report).host.ranks
    assert (found.cuda_ns, found.synchronization_ns) == (500, 100)
    parts = {"Neither": 50, "CUDA call": 40, "CUDA synchronization": 10}
    shares = {("app:100", part): percent for part, percent in parts.items()}
    assert output.table("analysis/host_states") == pytest.approx(shares)


def test_a_gpu_that_no_process_uses_is_no_idle_rank(tmp_path: Path) -> None:
    """`--gpu-metrics-devices=all` samples those of other jobs, too."""
    report = export(
        tmp_path / "metrics.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=kernels((0, 600, 7, "gemm"), (900, 1000, 7, "gemm")),
        GPU_METRICS=(
            "timestamp typeId metricId value",
            [(t, gpu, 1, 9) for t in range(0, 1000, 100) for gpu in (0, 3)],
        ),
        TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(gpu, 1, "SM Active") for gpu in (0, 3)]),
    )
    names = ("parallel_efficiency", "device_states", "host_states")
    output = shown(report, *names)
    totals = output.totals("analysis/parallel_efficiency", "Parallel efficiency [%]")
    assert (totals["Average"], totals["Avg/Max"]) == (100 * nsys2prv.analyze(report).efficiency.parallel, 1) == (70, 1)
    assert {row for name in names[1:] for row, _ in output.table(f"analysis/{name}")} == {"app:100"}
