"""Reports whose GPUs are other ones: instances of one (MIG), one that all processes share, another model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .devices import METRICS, OPTION
from .report import Report, Sources, by_host, close, open_copies

GPU_BITS = 0xFF


def mig_instances(sources: Sources, folder: Path, listed: str = "all", uuids: str = "own") -> list[Path]:
    """Let the GPUs of each host be instances of one GPU, which CUDA shows as one device each.

    All have the bus location of the first; the name says the profile and GpuInfo the instance, as nsys writes them.
    listed: "all" instances of the host, or the process' "own", as number 0, which is what a container sees. uuids:
    instances' "own" ones, or the GPU's ("gpu"), as with drivers before CUDA 11.4.

    Truth: the sources' trace; with "own" ones listed but for the numbers of GPUs in labels.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        report.run("UPDATE TARGET_INFO_GPU SET name = name || ' MIG 1g.18gb', smCount = 16")
        report.run("UPDATE TARGET_INFO_GPU SET busLocation = (SELECT min(busLocation) FROM TARGET_INFO_GPU)")
        if uuids == "gpu":
            report.run("UPDATE TARGET_INFO_GPU SET uuid = (SELECT uuid FROM TARGET_INFO_GPU WHERE id = 0)")
        _describe(report, lambda gpus: [{**gpu, "MigInstance": _instance(gpu["Id"])} for gpu in gpus])
        if listed == "own":
            _only(report, _gpu_of(report))
    return close(reports)


def one_gpu_for_all(sources: Sources, folder: Path) -> list[Path]:
    """Let all processes of a host use the GPU of its first report, as with MPS or more ranks than GPUs.

    Each report that sampled its GPU now sampled that one.

    Truth: tasks, rows and work of the sources, but for the number of the GPU in labels; a GPU for each host, which
    works while any of its processes does, and has the metrics of one report.
    """
    reports = open_copies(sources, folder)
    for group in by_host(reports).values():
        shared = _gpu_of(group[0])
        for report in group:
            own = _gpu_of(report)
            report.run("UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = -1 WHERE gpuId = :gpu", gpu=shared)
            report.run("UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = :gpu WHERE gpuId = :own", gpu=shared, own=own)
            report.run("UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = :own WHERE gpuId = -1", own=own)
            if METRICS in report.tables():
                _move_metrics(report, own, shared)
    return close(reports)


def on_machine(
    sources: Sources, folder: Path, platform: str, cpu: str, gpu: str, multiprocessors: int, lacking: int = 0
) -> list[Path]:
    """Let the reports be of another machine: its CPU, and GPUs of another model and with other uuids.

    GPU metrics get other numbers, and the last `lacking` of them are not there: what is sampled, and how it is
    numbered, differs between models.

    Truth: the sources' trace but for the metrics that lack.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        said = {"HardwarePlatform": platform, "CpuArchitecture": platform, "CpuDescription": cpu}
        for name, value in said.items():
            report.run("UPDATE TARGET_INFO_SYSTEM_ENV SET value = :value WHERE name = :name", name=name, value=value)
        report.run(
            "UPDATE TARGET_INFO_GPU SET name = :gpu, smCount = :count, uuid = 'ffff' || substr(uuid, 5)",
            gpu=gpu,
            count=multiprocessors,
        )
        if METRICS in report.tables():
            most = report.value("SELECT max(metricId) FROM TARGET_INFO_GPU_METRICS")
            for table in ("TARGET_INFO_GPU_METRICS", METRICS):
                report.run(f"DELETE FROM {table} WHERE metricId > :last", last=most - lacking)
                report.run(f"UPDATE {table} SET metricId = :most - metricId", most=most)
    return close(reports)


def _gpu_of(report: Report) -> int:
    """The number of the GPU on which the report's kernels ran."""
    found = "SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE WHERE cudaId = (SELECT deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL)"
    return int(report.value(found))


def _instance(gpu: int) -> dict[str, int]:
    return {"GpuInstance": 7 + gpu, "ComputeInstance": 0}


def _describe(report: Report, changed: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change what GpuInfo says of the GPUs."""
    known = json.loads(report.value("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'GpuInfo'"))
    text = json.dumps({"Gpus": changed(known["Gpus"])})
    report.run("UPDATE TARGET_INFO_SYSTEM_ENV SET value = :text WHERE name = 'GpuInfo'", text=text)


def _only(report: Report, gpu: int) -> None:
    """Leave one GPU, as number 0."""
    report.run("DELETE FROM TARGET_INFO_GPU WHERE id != :gpu", gpu=gpu)
    report.run("UPDATE TARGET_INFO_GPU SET id = 0, cuDevice = 0")
    report.run("DELETE FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId != :gpu", gpu=gpu)
    report.run("UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = 0")
    _describe(report, lambda gpus: [{**described, "Id": 0} for described in gpus if described["Id"] == gpu])
    if METRICS in report.tables():
        _move_metrics(report, gpu, 0)


def _move_metrics(report: Report, gpu: int, to: int) -> None:
    """Let the samples of a GPU be those of another."""
    for table in (METRICS, "TARGET_INFO_GPU_METRICS", "GENERIC_EVENT_TYPES"):
        report.run(f"UPDATE {table} SET typeId = typeId - :gpu + :to WHERE typeId & {GPU_BITS} = :gpu", gpu=gpu, to=to)
    report.run(f"UPDATE META_DATA_CAPTURE SET value = :to WHERE name LIKE '{OPTION}%:ID'", to=str(to))
