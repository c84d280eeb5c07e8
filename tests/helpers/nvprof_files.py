"""Small files of nvprof, written by a test row by row, with the tables and columns of a version of its files.

The tables and columns are those of real files of versions 8, 11 and 12. Version 9 has those of version 11 without what
NVIDIA's documentation says is newer. A column that a test does not give is 0, as no column of nvprof may be null.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

VERSIONS = (8, 9, 11, 12)
# Times are in ns of UTC: a second of 2018.
SECOND = 1_543_505_605 * 10**9
PID, MAIN, OTHER = 463, -1181487744, 684914432
PREFIX = "CUPTI_ACTIVITY_KIND_"

_KERNEL = (
    "cacheConfig sharedMemoryConfig registersPerThread start end completed deviceId contextId streamId gridX gridY "
    "gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal "
    "correlationId gridId name"
)
_CALL = "cbid start end processId threadId correlationId returnValue"
_COPY = "copyKind srcKind dstKind flags bytes start end deviceId contextId streamId correlationId"
_OPENACC = (
    "eventKind parentConstruct version implicit deviceType deviceNumber threadId async asyncMap lineNo endLineNo "
    "funcLineNo funcEndLineNo start end cuDeviceId cuContextId cuStreamId cuProcessId cuThreadId externalId srcFile "
    "funcName"
)
# Table, without PREFIX -> its columns; since which version, if later than 8.
_SINCE_8 = {
    "MEMCPY": f"{_COPY} runtimeCorrelationId",
    "MEMCPY2": f"{_COPY} srcDeviceId srcContextId dstDeviceId dstContextId",
    "MEMSET": "value bytes start end deviceId contextId streamId correlationId",
    "KERNEL": _KERNEL,
    "CONCURRENT_KERNEL": _KERNEL,
    "CDP_KERNEL": _KERNEL,
    "RUNTIME": _CALL,
    "DRIVER": _CALL,
    "EVENT": "id value domain correlationId",
    "METRIC": "id value correlationId flags",
    "DEVICE": "flags numMultiprocessors id uuid name",
    "CONTEXT": "contextId deviceId computeApiKind nullStreamId",
    "NAME": "objectKind objectId name",
    "MARKER": "flags timestamp id objectKind objectId name",
    "MARKER_DATA": "flags id payloadKind payload color category",
    "OVERHEAD": "overheadKind objectKind objectId start end",
    "UNIFIED_MEMORY_COUNTER": "counterKind value start end address srcId dstId streamId processId",
}
_LATER_TABLES = {
    9: {
        "OPENACC_DATA": f"{_OPENACC} bytes hostPtr devicePtr varName",
        "OPENACC_LAUNCH": f"{_OPENACC} numGangs numWorkers vectorLength kernelName",
        "OPENACC_OTHER": _OPENACC,
        "CUDA_EVENT": "correlationId contextId streamId eventId",
        "SYNCHRONIZATION": "type start end correlationId contextId streamId cudaEventId",
    },
    11: {"MEMORY": "memoryKind address bytes start end allocPC freePC processId deviceId contextId name"},
    12: {"OPENMP": "eventKind version threadId start end cuProcessId cuThreadId"},
}
_LATER_COLUMNS = {
    9: {"MARKER": "domain", "MEMSET": "flags memoryKind", "UNIFIED_MEMORY_COUNTER": "flags"},
    11: {"KERNEL": "queued submitted launchType", "CONCURRENT_KERNEL": "queued submitted launchType"},
    12: {"KERNEL": "sharedMemoryExecuted", "CONCURRENT_KERNEL": "sharedMemoryExecuted"},
}
TEXTS = {"name", "domain", "srcFile", "funcName", "varName", "kernelName"}

Row = Sequence[object]


def columns_of(version: int) -> dict[str, list[str]]:
    """The columns of each table, without PREFIX and without their key."""
    held = {**_SINCE_8}
    for since in (v for v in VERSIONS if 8 < v <= version):
        held |= _LATER_TABLES[since]
        held |= {table: f"{held[table]} {more}" for table, more in _LATER_COLUMNS[since].items()}
    return {table: columns.split() for table, columns in held.items()}


def thread_id(thread: int, pid: int = PID) -> bytes:
    """The id of a thread as an object."""
    return pid.to_bytes(4, "little") + (thread & 0xFFFFFFFF).to_bytes(4, "little") + bytes(4)


def process_id(pid: int = PID) -> bytes:
    """The id of a process as an object; nvprof leaves what was in the last four bytes before."""
    return pid.to_bytes(4, "little") + bytes(4) + b"TIVI"


def nvprof_file(path: Path, version: int = 12, **tables: tuple[str, Sequence[Row]]) -> Path:
    """A file of nvprof with the given tables, each as the names of the columns that matter and rows of these.

    A text in a column of TEXTS is its number. There is one process, PID, of the program `app`.
    """
    strings = {"-- null --": 0}
    given: Mapping[str, tuple[str, Sequence[Row]]] = {
        "NAME": ("objectKind objectId name", [(1, process_id(), "./app -n 3")]),
        "DEVICE": ("id numMultiprocessors uuid name", [(0, 80, bytes(range(16)), "TITAN V")]),
        "CONTEXT": ("contextId deviceId", [(1, 0)]),
        **tables,
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, columns in columns_of(version).items():
            listed = ", ".join(f'"{c}" INT NOT NULL DEFAULT 0' for c in columns)
            connection.execute(f"CREATE TABLE {PREFIX}{table}(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {listed})")
        for table, (names, rows) in given.items():
            held = names.split()
            into = ", ".join(f'"{c}"' for c in held)
            connection.executemany(
                f"INSERT INTO {PREFIX}{table}({into}) VALUES ({', '.join('?' * len(held))})",
                [[_cell(c, v, strings) for c, v in zip(held, row, strict=True)] for row in rows],
            )
        connection.execute(
            "CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE)"
        )
        connection.executemany("INSERT INTO StringTable VALUES (?, ?)", [(n, text) for text, n in strings.items()])
        connection.execute("CREATE TABLE Version(version INTEGER)")
        connection.execute("INSERT INTO Version VALUES (?)", [version])
    return path


def _cell(column: str, value: object, strings: dict[str, int]) -> object:
    return strings.setdefault(value, len(strings)) if column in TEXTS and isinstance(value, str) else value


def at(*times: int) -> tuple[int, ...]:
    """Times of nvprof from ns in SECOND."""
    return tuple(SECOND + time for time in times)


# A run of two threads: CUDA calls with what they launched on two streams, copies of each way, ranges in two domains.
LAUNCH, COPY, SET, DRIVER_LAUNCH = 211, 41, 51, 307
SAXPY, FILL = "_Z5saxpyifPKfPf", "_ZN3app4fillIfLi4EEEvPT_i"
_IN_STREAM = "deviceId contextId streamId correlationId"
CALLS: tuple[str, Sequence[Row]] = (
    "cbid start end threadId correlationId returnValue processId",
    [
        (COPY, *at(100, 190), MAIN, 1, 0, PID),
        (LAUNCH, *at(200, 230), MAIN, 2, 0, PID),
        (LAUNCH, *at(240, 260), OTHER, 3, 0, PID),
        (SET, *at(300, 310), OTHER, 4, 0, PID),
        (COPY, *at(400, 480), MAIN, 6, 0, PID),
    ],
)
WORK: dict[str, tuple[str, Sequence[Row]]] = {
    "RUNTIME": CALLS,
    "DRIVER": ("cbid start end threadId correlationId processId", [(DRIVER_LAUNCH, *at(330, 350), MAIN, 5, PID)]),
    "CONCURRENT_KERNEL": (
        f"start end name registersPerThread gridX gridY gridZ blockX blockY blockZ dynamicSharedMemory {_IN_STREAM}",
        [
            (*at(250, 310), SAXPY, 32, 10, 1, 1, 256, 1, 1, 0, 0, 1, 7, 2),
            (*at(320, 350), SAXPY, 32, 20, 1, 1, 256, 1, 1, 0, 0, 1, 7, 3),
            (*at(360, 395), FILL, 16, 4, 2, 1, 64, 2, 1, 1024, 0, 1, 14, 5),
        ],
    ),
    "MEMCPY": (
        f"copyKind srcKind dstKind bytes start end {_IN_STREAM}",
        [(1, 1, 3, 4096, *at(120, 180), 0, 1, 7, 1), (2, 3, 2, 1024, *at(420, 470), 0, 1, 7, 6)],
    ),
    "MEMSET": (f"value bytes start end {_IN_STREAM}", [(0, 512, *at(312, 318), 0, 1, 14, 4)]),
    "MARKER": (
        "flags timestamp id objectKind objectId name",
        [
            (2, *at(90), 1, 2, thread_id(MAIN), "step"),
            (2, *at(195), 2, 2, thread_id(MAIN), "compute"),
            (4, *at(235), 2, 2, thread_id(MAIN), 0),
            (1, *at(290), 3, 2, thread_id(OTHER), "here"),
            (4, *at(490), 1, 2, thread_id(MAIN), 0),
            (2, *at(300), 4, 1, process_id(), "whole"),
            (4, *at(485), 4, 1, process_id(), 0),
        ],
    ),
}  # fmt: skip
# What WORK lacks, of the versions that have it.
_ACC = "eventKind start end cuThreadId cuProcessId"
MORE: dict[str, tuple[str, Sequence[Row]]] = {
    "UNIFIED_MEMORY_COUNTER": (
        "counterKind value start end srcId dstId processId",
        [(kind, 4096, *at(500 + 10 * kind, 505 + 10 * kind), 0, 0, PID) for kind in range(1, 9)],
    ),
    "MARKER_DATA": (
        "id payloadKind payload color category",
        [(1, 0, bytes.fromhex("000000000000f83f"), 255, 1), (2, 4, bytes(8), 0, 0)],
    ),
    "SYNCHRONIZATION": (
        "type start end correlationId contextId streamId cudaEventId",
        [(3, *at(405, 475), 6, 1, 7, -1)],
    ),
    "CUDA_EVENT": ("correlationId contextId streamId eventId", [(3, 1, 7, 12)]),
    "OVERHEAD": ("overheadKind objectKind objectId start end", [(2 << 16, 2, thread_id(MAIN), *at(600, 610))]),
    "MEMORY": ("memoryKind address bytes start end processId", [(3, 4096, 100, *at(600, 700), PID)]),
    "OPENACC_DATA": (f"{_ACC} srcFile", [(5, *at(610, 620), MAIN, PID, "a.c")]),
    "OPENACC_LAUNCH": (f"{_ACC} kernelName", [(4, *at(630, 640), MAIN, PID, "k")]),
    "OPENACC_OTHER": (_ACC, [(7, *at(650, 660), MAIN, PID)]),
    "OPENMP": (_ACC, [(1, *at(605, 670), MAIN, PID), (5, *at(661, 669), MAIN, PID)]),
    "METRIC": ("id value correlationId", [(1, bytes(8), 2)]),
}
