"""The GPUs of a run, and the facts that its reports have on them: model, capacity, and how full the memory was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import NO_DEVICE, AnalyzedTask, Device, Hardware
from nsys2prv.analysis.recording.remarks import recorded_families
from nsys2prv.families.host.cuda_api import FAMILY as CUDA_API
from nsys2prv.families.registry import FAMILIES
from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.interning import STREAM
from nsys2prv.report.identity import Gpu
from nsys2prv.run.hosts import host_numbers
from nsys2prv.run.plan import Plan
from nsys2prv.run.trace_rows import NO_ROW


def find_devices(plan: Plan, tasks: Sequence[AnalyzedTask]) -> tuple[tuple[Device, ...], npt.NDArray[np.int64]]:
    """Return the GPUs with work or a context of a task, and the device of each row (NO_DEVICE: none)."""
    rows = plan.objects.rows
    uses = [(int(rows.gpu[n]), tasks[rows.task[n] - 1]) for n, kind in enumerate(rows.kind) if kind == STREAM]
    # A context is no use of a device if the run has no records of CUDA.
    if recorded_families(plan) & {CUDA_API.name, *(f.name for f in FAMILIES if f.work)}:
        uses += _contexts(plan, tasks)
    ranks: dict[tuple[str, int], set[int]] = {}
    for gpu, task in uses:
        ranks.setdefault((task.host, gpu), set()).add(task.rank)
    devices = (Device(host, gpu, min(own)) for (host, gpu), own in ranks.items())
    ordered = tuple(sorted(devices, key=lambda d: (d.rank, d.host, d.gpu)))
    index = {(d.host, d.gpu): n for n, d in enumerate(ordered)}
    numbers = [
        index.get((tasks[task - 1].host, int(gpu)), NO_DEVICE) for task, gpu in zip(rows.task, rows.gpu, strict=True)
    ]
    return ordered, np.array(numbers, dtype=np.int64)


def _contexts(plan: Plan, tasks: Sequence[AnalyzedTask]) -> Iterator[tuple[int, AnalyzedTask]]:
    """Yield GPU and task of every CUDA context: an idle device may have one, too."""
    host_of = host_numbers(plan.hosts)
    for r, summary in enumerate(plan.summaries):
        rows = plan.objects.row_of[r]
        drawn = summary.places.filter(pl.col("process").is_not_null() & pl.Series(rows != NO_ROW))
        task_of = {
            pid_of(process): tasks[plan.objects.rows.task[rows[place]] - 1]
            for process, place in drawn.select("process", "id").rows()
        }
        for pid, device in summary.identity.contexts:
            if pid in task_of:
                yield plan.hosts[host_of[r]].gpu_number(summary.identity.gpu_of(pid, device)), task_of[pid]


def hardware_of(plan: Plan, devices: Sequence[Device], device_of: npt.NDArray[np.int64]) -> tuple[Hardware, ...]:
    """Return the hardware of each device. `device_of`: the device of each row."""
    gpus = _gpus(plan)
    peaks = _memory_peaks(plan, device_of)
    found = []
    for number, device in enumerate(devices):
        gpu = gpus.get((device.host, device.gpu), Gpu(device.gpu, "", "", ""))
        own = sorted(peaks.get(number, []), reverse=True)
        found.append(Hardware(gpu.name, gpu.capacity, tuple(held for held, _ in own), own[0][1] if own else None))
    return tuple(found)


def _gpus(plan: Plan) -> dict[tuple[str, int], Gpu]:
    """Return the GPUs that the reports list, by host and number there."""
    return {
        (host.name, host.gpu_number(gpu)): gpu
        for host in plan.hosts
        for r in host.reports
        for gpu in plan.summaries[r].identity.gpus
    }


def _memory_peaks(plan: Plan, device_of: npt.NDArray[np.int64]) -> dict[int, list[tuple[int, int]]]:
    """Return for each device the most memory of each process on it (bytes), and when (merged ns)."""
    peaks: dict[int, dict[int, tuple[int, int]]] = {}
    for r, summary in enumerate(plan.summaries):
        for place, (held, time) in summary.memory_peaks.items():
            row = plan.objects.row_of[r][place]
            if row != NO_ROW and device_of[row] != NO_DEVICE:
                of_rows = peaks.setdefault(int(device_of[row]), {})
                # Reports of one process share a row. Of equal peaks the first counts.
                peak = held, plan.clocks[r].merged_one(time)
                of_rows[int(row)] = max(of_rows.get(int(row), peak), peak, key=lambda one: (one[0], -one[1]))
    return {device: list(of_rows.values()) for device, of_rows in peaks.items()}
