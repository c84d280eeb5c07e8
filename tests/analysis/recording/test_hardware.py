"""What the reports say of GPUs: the model, what it has, how full its memory was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from analysis_cases import Analysed
from exports import MAIN, PID, PROCESS, export, query
from runs import reports_of

import nsys2prv
from nsys2prv.analysis.recording.hardware import _memory_peaks
from nsys2prv.analysis.work_attributes import blocks_of, registers_of, shared_of, threads_of
from nsys2prv.model.event_types import MEMORY_IN_USE
from nsys2prv.model.frames import Samples
from nsys2prv.pipeline.extract.memory_peaks import MemoryPeaks
from nsys2prv.run.clocks import Clock

KERNELS = """
    SELECT gridX * gridY * gridZ, blockX * blockY * blockZ, registersPerThread, staticSharedMemory + dynamicSharedMemory
    FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1, 2, 3, 4
"""


def test_gpus_of_a_real_run(analysed: Analysed) -> None:
    hardware = analysed("gpt-ddp").run.hardware
    assert {h.model for h in hardware} == {"NVIDIA H200"}
    assert {(h.capacity.memory, h.capacity.multiprocessors, h.capacity.warps) for h in hardware} == {
        (150109880320, 132, 64)
    }
    assert {h.memory_peaks for h in hardware} == {()}


def test_kernels_have_their_grid_and_resources(analysed: Analysed) -> None:
    (report,) = reports_of("graph-node")
    shape, resources = pl.col("shape"), pl.col("resources")
    numbers = (blocks_of(shape), threads_of(resources), registers_of(resources), shared_of(resources))
    work = analysed("single/graph-node.sqlite").run.work.drop_nulls("shape")
    named = [number.alias(name) for name, number in zip("abcd", numbers, strict=True)]
    found = work.select(named).sort("a", "b", "c", "d")
    assert found.rows() == query(report, KERNELS)


def test_the_peak_of_memory_is_of_what_lies_on_the_device(tmp_path: Path) -> None:
    """96 bytes of device memory at 200; the 1,000 bytes of pinned memory lie on the host."""
    usage = "start globalPid deviceId address bytes memKind memoryOperationType"
    report = export(
        tmp_path / "usage.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", [(0, 10, MAIN, "cudaMalloc", 1)]),
        TARGET_INFO_CUDA_CONTEXT_INFO=("processId deviceId contextId", [(PID, 0, 1)]),
        CUDA_GPU_MEMORY_USAGE_EVENTS=(
            usage,
            [
                (100, PROCESS, 0, 1000, 64, 2, 0),
                (200, PROCESS, 0, 2000, 32, 5, 0),
                (250, PROCESS, 0, 3000, 1000, 1, 0),
                (300, PROCESS, 0, 1000, 0, 0, 1),
            ],
        ),
    )
    (gpu,) = nsys2prv.analyze(report).run.hardware
    assert (gpu.memory_peaks, gpu.peak_at) == ((96,), 200)


def test_a_peak_may_come_from_several_slices() -> None:
    device, static = (MEMORY_IN_USE[kind].key for kind in (2, 5))
    peaks = MemoryPeaks()
    for time, held, fixed in ((1, 10, None), (2, None, 5), (3, 7, None)):
        data = pl.DataFrame(
            {"place": [4], "time": [time], device: [held], static: [fixed]},
            schema_overrides={device: pl.Int64(), static: pl.Int64()},
        )
        peaks.take(Samples(data, (device, static)))
    assert peaks.peaks == {4: (15, 2)}


@pytest.mark.parametrize("size", [1, 2, 4])
def test_of_equal_peaks_the_first_counts_in_slices_of_any_size(size: int) -> None:
    key = MEMORY_IN_USE[2].key
    data = pl.DataFrame({"place": [4] * 4, "time": [1, 2, 3, 4], key: [0, 10, 0, 10]})
    peaks = MemoryPeaks()
    for part in data.iter_slices(size):
        peaks.take(Samples(part, (key,)))
    assert peaks.peaks == {4: (10, 2)}


def test_of_equal_peaks_in_two_reports_the_first_counts() -> None:
    """The report that is given first recorded later."""
    summaries = [SimpleNamespace(memory_peaks={0: (10, time)}) for time in (90, 20, 50)]
    objects = SimpleNamespace(row_of=[np.array([0])] * 3)
    plan: Any = SimpleNamespace(summaries=summaries, objects=objects, clocks=[Clock(start=0, offset=0)] * 3)
    assert _memory_peaks(plan, np.array([0])) == {0: [(10, 20)]}
