"""Two ranks' reports made the report of one process."""

from __future__ import annotations

from pathlib import Path

from .arrivals import Arrivals
from .devices import CONTEXTS, METRIC_DEFINITIONS
from .identities import thread_ids
from .idspaces import OF_ONE_PROCESS, Space, moved, steps
from .report import CALLCHAINS, DEVICE_WORK, SAMPLE_CHAINS, Report, Sources, Table, listed, open_copy

ALSO_BROUGHT = (*CALLCHAINS, SAMPLE_CHAINS, *METRIC_DEFINITIONS, CONTEXTS, "ThreadNames", "DIAGNOSTIC_EVENT")
DOMAIN_CREATED = 75
STREAMS = "TARGET_INFO_CUDA_STREAM"


def two_gpus_one_process(sources: Sources, folder: Path) -> list[Path]:
    """Merge the reports of two ranks of one host into one report of one process that uses two GPUs.

    The second report's events become rows of the first: the first's pid, its own tids (all moved up where one is
    taken), times by the session starts, correlation and other ids moved to be unique, strings and NVTX domains found
    or added by text, the next free `deviceId`, which TARGET_INFO_CUDA_DEVICE maps to the second's GPU. Stream and
    context numbers stay, so both GPUs have, say, stream 7 of context 1. MPI tables of the second are left out: a
    process is one MPI rank.

    Truth: one task; per GPU and stream the kernels and copies of the two sources; host threads of both under one
    process, the second's main thread an ordinary one; the rank is that of the first report.
    """
    first, second = listed(sources)
    with open_copy(first, folder) as report, Arrivals(report, second) as arrivals:
        if report.host != report.value("SELECT value FROM other.TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'"):
            raise ValueError(f"{first.name} and {second.name} are of two hosts")
        old, new = int(report.value("SELECT globalPid FROM other.PROCESSES")), report.process
        _map_threads(arrivals, old, new)
        _map_devices(arrivals)
        fresh = _map_domains(arrivals)
        by = steps(report, OF_ONE_PROCESS)
        for name, table in arrivals.tables.items():
            if (table.is_event or name in ALSO_BROUGHT) and not name.startswith("MPI_"):
                known = f"eventType != {DOMAIN_CREATED} OR domainId IN ({', '.join(map(str, fresh))})"
                arrivals.bring(name, _changed(arrivals, table, by, old, new), known if name == "NVTX_EVENTS" else "1")
        _bring_streams(arrivals, old, new)
        return [report.path]


def _changed(arrivals: Arrivals, table: Table, by: dict[Space, int], old: int, new: int) -> dict[str, str]:
    """The expressions of all columns of a table that differ in the new process, but for times and strings."""
    terms = moved(table, by)
    terms.update({column: arrivals.mapped("threads", column) for column in table.global_ids})
    pids = f"WHEN {old >> 24 & 0xFFFFFF} THEN {new >> 24 & 0xFFFFFF}"
    terms.update({column: f'CASE "{column}" {pids} ELSE "{column}" END' for column in table.plain_pids})
    for column in ("deviceId", "srcDeviceId", "dstDeviceId"):
        terms[column] = arrivals.mapped("devices", column)
    terms["domainId"] = arrivals.mapped("domains", "domainId")
    return terms


def _map_threads(arrivals: Arrivals, old: int, new: int) -> None:
    mine = {number & 0xFFFFFF for number in thread_ids(arrivals.report, new)}
    theirs = {number & 0xFFFFFF for number in thread_ids(arrivals.report, old, "other")}
    up = max(mine) if mine & theirs else 0
    arrivals.map("threads", {old: new, **{old | tid: new | tid + up for tid in theirs}})


def _map_devices(arrivals: Arrivals) -> None:
    """Give the second's devices free numbers in the first's process, and let these mean the second's GPUs."""
    report = arrivals.report
    free = max(_devices(report, "main"), default=-1) + 1
    numbers = {device: free + k for k, device in enumerate(sorted(_devices(report, "other")))}
    for there, here in numbers.items():
        gpu = report.value("SELECT gpuId FROM other.TARGET_INFO_CUDA_DEVICE WHERE cudaId = :there", there=there)
        if report.value("SELECT cudaId FROM main.TARGET_INFO_CUDA_DEVICE WHERE gpuId = :gpu", gpu=gpu) in range(free):
            raise ValueError("both reports use one GPU")
        _assign_gpu(report, here, gpu)
    arrivals.map("devices", numbers)


def _devices(report: Report, schema: str) -> set[int]:
    """The device numbers on which something ran."""
    found = set()
    for name in DEVICE_WORK:
        if name in report.tables(schema):
            found |= {int(device) for (device,) in report.rows(f"SELECT DISTINCT deviceId FROM {schema}.{name}")}
    return found


def _assign_gpu(report: Report, device: int, gpu: int) -> None:
    """Let the process' device number mean this GPU; what it meant before gets the number the GPU had."""
    table = "main.TARGET_INFO_CUDA_DEVICE"
    before = report.value(f"SELECT cudaId FROM {table} WHERE gpuId = :gpu", gpu=gpu)
    if before is None:
        report.run(f"DELETE FROM {table} WHERE cudaId = :device", device=device)
        report.run(
            f"INSERT INTO {table}(gpuId, cudaId, pid) VALUES (:gpu, :device, :pid)",
            gpu=gpu,
            device=device,
            pid=report.process >> 24 & 0xFFFFFF,
        )
    report.run(f"UPDATE {table} SET cudaId = :before WHERE cudaId = :device", before=before, device=device)
    report.run(f"UPDATE {table} SET cudaId = :device WHERE gpuId = :gpu", device=device, gpu=gpu)


def _map_domains(arrivals: Arrivals) -> list[int]:
    """Number the second's NVTX domains as domains of the first; those that the first lacks are returned."""
    report = arrivals.report
    if "NVTX_EVENTS" not in arrivals.tables:
        arrivals.map("domains", {})
        return []
    here = {name: number for number, name in _domains(report, "main")}
    there = dict(_domains(report, "other"))
    used = {number for (number,) in report.rows("SELECT DISTINCT domainId FROM other.NVTX_EVENTS WHERE domainId > 0")}
    free = max(here.values(), default=0) + 1
    numbers, fresh = {}, []
    for number in sorted(used | set(there)):
        if there.get(number) in here:
            numbers[number] = here[there[number]]
        else:
            numbers[number], free = free, free + 1
            fresh.append(number)
    arrivals.map("domains", numbers)
    return fresh


def _domains(report: Report, schema: str) -> list[tuple[int, str]]:
    if "NVTX_EVENTS" not in report.tables(schema):
        return []
    name = f"coalesce(text, (SELECT value FROM {schema}.StringIds WHERE id = textId))"
    found = f"SELECT domainId, {name} FROM {schema}.NVTX_EVENTS WHERE eventType = {DOMAIN_CREATED}"
    return [(int(number), str(text)) for number, text in report.rows(found)]


def _bring_streams(arrivals: Arrivals, old: int, new: int) -> None:
    """Add the streams that the first's table, which names no device, lacks."""
    if STREAMS in arrivals.tables:
        known = f"(streamId, contextId) IN (SELECT streamId, contextId FROM main.{STREAMS})"
        pid = {"processId": str(new >> 24 & 0xFFFFFF)}
        arrivals.bring(STREAMS, pid, f"processId = {old >> 24 & 0xFFFFFF} AND NOT ({known})")
