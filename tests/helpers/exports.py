"""Small exports, written by a test row by row, with the tables and columns that the exporter itself writes.

The columns are those of `nsys export --lazy false` of 2023.4.4 (schema 3.7.2); later ones are named where they stand.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nsys2prv

ROOT = Path(__file__).parents[2]
REPORTS = (ROOT / "sample_reports", ROOT.parent / "shared" / "reports")

HOST = 1 << 48
PID = 100


def tid(thread: int, pid: int = PID) -> int:
    """A globalTid."""
    return HOST | pid << 24 | thread


MAIN = tid(PID)
PROCESS = tid(0)

_CALL = "start end eventClass globalTid nameId"
_DEVICE = "start end deviceId contextId streamId correlationId globalPid"
_OPENMP = "start end eventClass globalTid correlationId nameId eventKind"
_UCP = "start end globalTid textId bufferAddr packedSize peerWorkerUid tag"
_OPENACC = "start end nameId globalTid eventKind DeviceType lineNo cuDeviceId cuContextId cuStreamId srcFile funcName"
_PACKET = "start end globalTid gpu context"
_PAGED = "start end globalTid gpu pagingQueue pagingQueuePacket sequenceId"
_NETWORK = "start end globalId metricsListId metricsIdx value"

COLUMNS = {
    "StringIds": "id value",
    "PROCESSES": "globalPid pid name",
    "ThreadNames": "nameId priority globalTid",
    "META_DATA_CAPTURE": "name value",
    "META_DATA_EXPORT": "name value",
    # Until 2022.
    "EXPORT_META_DATA": "name value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "CUDNN_EVENTS": _CALL,
    "CUBLAS_EVENTS": _CALL,
    "CUPTI_ACTIVITY_KIND_RUNTIME": f"{_CALL} correlationId returnValue callchainId",
    "NVTX_EVENTS": (
        "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value "
        "doubleValue uint32Value int32Value floatValue jsonTextId jsonText binaryData"
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"{_DEVICE} demangledName shortName registersPerThread gridX gridY gridZ blockX blockY blockZ"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_DEVICE} bytes copyKind srcKind dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_DEVICE} bytes value memKind",
    # eventSyncId from 3.17 on.
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start end deviceId contextId streamId correlationId globalPid syncType eventId eventSyncId"
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId contextId streamId correlationId globalPid eventId eventSyncId",
    "MPI_RANKS": "globalTid rank",
    "MPI_OTHER_EVENTS": "start end globalTid textId",
    "TARGET_INFO_CUDA_CONTEXT_INFO": (
        "nullStreamId hwId vmId processId deviceId contextId parentContextId isGreenContext"
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        "start end deviceId contextId streamId correlationId globalPid graphId graphExecId"
    ),
    "OPENMP_EVENT_KIND_CRITICAL_SECTION": f"{_OPENMP} threadId",
    "OPENMP_EVENT_KIND_SYNC_REGION": f"{_OPENMP} parallelId taskId kind",
    "PROFILER_OVERHEAD": "start end globalTid nameId returnValue",
    # From 3.24 on.
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start end eventClass globalTid correlationId nameId overheadType",
    "OPENMP_EVENT_KIND_PARALLEL": f"{_OPENMP} parallelId parentTaskId",
    "OPENMP_EVENT_KIND_TASK": f"{_OPENMP} parallelId taskId kind",
    "OPENMP_EVENT_KIND_TASK_SCHEDULE": f"{_OPENMP} parallelId priorTaskId priorTaskStatus nextTaskId",
    "OPENMP_EVENT_KIND_SYNC_REGION_WAIT": f"{_OPENMP} parallelId taskId kind",
    "OPENMP_EVENT_KIND_FLUSH": f"{_OPENMP} threadId",
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": f"{_OPENACC} bytes varName",
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": f"{_OPENACC} numGangs numWorkers vectorLength kernelName",
    "CUPTI_ACTIVITY_KIND_OPENACC_OTHER": _OPENACC,
    "UCP_WORKERS": "globalTid workerUid",
    "UCP_EVENTS": "start end globalTid textId",
    "UCP_SUBMIT_EVENTS": _UCP,
    "UCP_PROGRESS_EVENTS": _UCP,
    # threadState and threadBlock from 3.17 on.
    "SCHED_EVENTS": "start cpu isSchedIn globalTid threadState threadBlock",
    "COMPOSITE_EVENTS": "id start cpu threadState globalTid cpuCycles",
    "SAMPLING_CALLCHAINS": (
        "id symbol module kernelMode thumbCode unresolved specialEntry originalIP unwindMethod stackDepth"
    ),
    "OSRT_API": f"{_CALL} returnValue nestingLevel callchainId",
    "OSRT_CALLCHAINS": (
        "id symbol module kernelMode thumbCode unresolved specialEntry originalIP unwindMethod stackDepth"
    ),
    "GPU_CONTEXT_SWITCH_EVENTS": "tag vmId seqNo contextId timestamp globalPid gpuId",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": (
        "start globalPid address originalFaultPc CpuInstruction module unresolvedFaultPc"
    ),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "start end globalPid deviceId address numberOfPageFaults faultAccessType",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start globalPid deviceId contextId address pc bytes memKind memoryOperationType name correlationId "
        "localMemoryPoolAddress localMemoryPoolReleaseThreshold localMemoryPoolSize localMemoryPoolUtilizedSize "
        "importedMemoryPoolAddress importedMemoryPoolProcessId"
    ),
    "CUDA_GPU_MEMORY_POOL_EVENTS": (
        "start globalPid deviceId address operationType poolType correlationId minBytesToKeep "
        "localMemoryPoolReleaseThreshold localMemoryPoolSize localMemoryPoolUtilizedSize"
    ),
    "GENERIC_EVENT_SOURCES": "sourceId data",
    "GENERIC_EVENT_TYPES": "typeId sourceId data",
    "GENERIC_EVENTS": "rawTimestamp timestamp typeId data",
    "GPU_METRICS": "timestamp typeId metricId value",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName metricId metricName",
    # portId from 3.22 on.
    "NET_NIC_METRIC": f"{_NETWORK} portId",
    "NET_IB_SWITCH_METRIC": _NETWORK,
    "NIC_ID_MAP": "nicId globalId",
    "TARGET_INFO_NETWORK_METRICS": "metricsListId metricsIdx name description unit",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    "CUDA_CALLCHAINS": "id symbol module unresolved originalIP stackDepth",
    "ETW_EVENTS": "timestamp processId threadId providerId taskId eventId version opcode data",
    # Of 3.30.1.
    "CUPTI_ACTIVITY_KIND_JIT": (
        f"{_CALL} correlationId overheadType jitEntryType jitOperationType deviceId jitOperationCorrelationId "
        "cacheSize cachePath"
    ),
    "CUDA_HOST_CALLBACK": f"{_CALL} correlationId",
    "CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH": f"{_DEVICE} greenContextId graphNodeId graphId",
    "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS": f"{_DEVICE} eventClass ChannelID sourceBytes NumberOfOperations",
    "OSRT_FILE_ACCESS_EVENTS": "fileAccessId threadId startedAt endedAt eventType apiCallId bytesProcessed context",
    "OSRT_FILE_ACCESS_DESCRIPTORS": "fileAccessId processId openedAt closedAt filePath",
    "NET_ETH_SWITCH_METRIC": f"{_NETWORK} portId",
    "NET_DEVICE_INFO": "networkId guid name des lid",
    "WDDM_QUEUE_PACKET_START_EVENTS": f"{_PACKET} submitSequence packetType engineType present",
    "WDDM_QUEUE_PACKET_STOP_EVENTS": f"{_PACKET} submitSequence packetType engineType preempted timeouted",
    "WDDM_DMA_PACKET_START_EVENTS": f"{_PACKET} ulQueueSubmitSequence packetType engineType quantumStatus",
    "WDDM_DMA_PACKET_STOP_EVENTS": f"{_PACKET} ulQueueSubmitSequence packetType engineType preempted",
    "WDDM_PAGING_QUEUE_PACKET_START_EVENTS": f"{_PAGED} vidMmOpType pagingQueueType",
    "WDDM_PAGING_QUEUE_PACKET_STOP_EVENTS": _PAGED,
    "WDDM_HW_QUEUE_EVENTS": f"{_PACKET} hwQueue parentDxgHwQueue",
    # `deviceId` until 2022, `id` since.
    "TARGET_INFO_GPU": "id deviceId cuDevice name busLocation uuid smCount",
    # An enumeration, until 2022.
    "UnwindMethodType": "number name",
    # Of no version.
    "FUTURE_EVENTS": "start end",
    "TARGET_INFO_NIC_INFO": "GUID stateName nicId name deviceId vendorId linkLayer",
}
# Columns that refer to StringIds: a row may have the text there.
STRINGS = {
    "nameId", "textId", "symbol", "module", "CpuInstruction", "srcFile", "funcName", "varName", "kernelName",
    "shortName", "demangledName", "apiCallId",
}  # fmt: skip

Row = Sequence[object]


def export(path: Path, lacking: Mapping[str, str] | None = None, **tables: tuple[str, Sequence[Row]]) -> Path:
    """An export with the given tables, each as the names of the columns that matter and rows of these.

    The others are null; those in `lacking` are not there. There is one process, PID, with a main thread, MAIN.
    """
    strings: dict[str, int] = {}
    base: dict[str, tuple[str, Sequence[Row]]] = {
        "PROCESSES": ("globalPid pid name", [(PROCESS, PID, "app")]),
        "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(10**18,)]),
    }
    with sqlite3.connect(path) as connection:
        for name, (given, rows) in {**base, **tables}.items():
            absent = (lacking or {}).get(name, "").split()
            known, columns = [c for c in COLUMNS[name].split() if c not in absent], given.split()
            assert set(columns) <= set(known), f"{name} has no such column"
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(_quoted(known))})')
            marks = ", ".join("?" * len(columns))
            connection.executemany(
                f'INSERT INTO "{name}" ({", ".join(_quoted(columns))}) VALUES ({marks})',
                [[_cell(c, v, strings) for c, v in zip(columns, row, strict=True)] for row in rows],
            )
        connection.execute("CREATE TABLE StringIds (id, value)")
        connection.executemany("INSERT INTO StringIds VALUES (?, CAST(? AS TEXT))", map(_string, strings.items()))
    connection.close()
    return path


def _quoted(columns: list[str]) -> list[str]:
    return [f'"{c}"' for c in columns]


def _cell(column: str, value: object, strings: dict[str, int]) -> object:
    if column in STRINGS and isinstance(value, str):
        return strings.setdefault(value, len(strings) + 1)
    return value


def _string(numbered: tuple[str, int]) -> tuple[int, bytes]:
    """SQLite takes any bytes for a text, halves of surrogate pairs too."""
    text, number = numbered
    return number, text.encode("utf-8", "surrogatepass")


def real(name: str, folder: Path) -> Path:
    """A copy of a real report; the test is skipped where it is not there."""
    found = [p for base in REPORTS if (p := base / f"{name}.sqlite").is_file()]
    if not found:
        pytest.skip(f"no report {name}")
    return Path(shutil.copy(found[0], folder))


def tables_of(report: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    """Names and rows of all tables of an SQLite report."""
    with closing(sqlite3.connect(report)) as connection:
        # Parquet has no texts that are no UTF-8.
        connection.text_factory = lambda text: text.decode(errors="replace")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = connection.execute(f'SELECT * FROM "{name}"')
            columns = [column for column, *_ in rows.description]
            yield name, pl.DataFrame(rows.fetchall(), schema=columns, orient="row", infer_schema_length=None)


def in_parquet(report: Path, folder: Path) -> Path:
    """The tables of an SQLite report as a parquetdir export of the same name, in small groups of rows."""
    made = folder / f"{report.stem}_pqtdir"
    made.mkdir()
    for name, table in tables_of(report):
        table.write_parquet(made / f"{name}.parquet", row_group_size=1000)
    return made


def query(report: Path, text: str) -> list[tuple[Any, ...]]:
    """Rows of an SQL query on a report."""
    with closing(sqlite3.connect(report)) as connection:
        return connection.execute(text).fetchall()


class Drawn:
    """The trace of one export, all families switched on that are named, and all threads; times as in the export."""

    def __init__(self, report: Path, *families: str, begin: int | None = None) -> None:
        self.result = nsys2prv.translate(
            report,
            report.with_suffix(""),
            selection=nsys2prv.Selection(families),
            options=nsys2prv.RunOptions(every_thread=True),
            execution=nsys2prv.Execution(jobs=1),
        )
        assert self.result.prv is not None
        self.trace = nsys2prv.read_prv(self.result.prv)
        self.origin = self._first(report) if begin is None else begin

    def _first(self, report: Path) -> int:
        """The time of the export's first event, at which the trace begins should it be drawn."""
        with nsys2prv.open_report(report) as opened:
            bounds = [b for t in opened.event_tables() if (b := opened.bounds(t))]
        return min(low for low, _ in bounds)

    def intervals(self, kind: int) -> list[tuple[str, int, int, str | int]]:
        """Intervals of an event type: row, start, end, label (the value where it has none), by start."""
        found = self.trace.intervals(kind)
        label = pl.coalesce("label", pl.col("value").cast(pl.String))
        rows = found.with_columns(label=label).select("task", "thread", "start", "end", "label").rows()
        return sorted(
            (self.row(task, thread), start + self.origin, end + self.origin, int(text) if text.isdecimal() else text)
            for task, thread, start, end, text in rows
        )

    def samples(self, kind: int) -> list[tuple[str, int, int]]:
        """Values of an event type: row, time, value, in the trace's order."""
        events = self.trace.events.filter(pl.col("type") == kind)
        return [
            (self.row(task, thread), time + self.origin, value)
            for task, thread, time, value in events.select("task", "thread", "time", "value").rows()
        ]

    def labels(self, kind: int) -> dict[int, str]:
        """Labels of the values of an event type, without that of the end."""
        return {n: text for n, text in self.trace.values.get(kind, {}).items() if n}

    def row(self, task: int, thread: int) -> str:
        """Label of a row."""
        before = sum(threads for threads, _ in self.trace.header.tasks[: task - 1])
        return self.trace.names["THREAD"][before + thread - 1]

    def dropped(self, family: str) -> dict[str, int]:
        """What was left out, by reason."""
        return dict(self.result.dropped.get(family, {}))
