"""What a trace must hold, by plain SQL on the reports: nothing of the project is used here.

Frames of the truth have the columns of DRAWN. A place is what a row's label says: `thread <tid>`, `CUDA-D<n>.S<s>`,
`Metrics GPU<n>`; the lanes of one thread or stream are one place. Times are UTC ns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

DRAWN = {
    "kind": pl.String(),
    "host": pl.String(),
    "pid": pl.Int64(),
    "place": pl.String(),
    "label": pl.String(),
    "start": pl.Int64(),
    "end": pl.Int64(),
}
METRIC = {
    "host": pl.String(),
    "place": pl.String(),
    "metric": pl.String(),
    "time": pl.Int64(),
    "value": pl.Int64(),
}

CUPTI = "CUPTI_ACTIVITY_KIND_"
KERNEL, MEMCPY, MEMSET, RUNTIME, SYNC, GRAPH = (
    CUPTI + name for name in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "SYNCHRONIZATION", "GRAPH_TRACE")
)
_LIKE_NCCL = (f"lower(s.value) LIKE '{name}kernel%'" for name in ("nccl", "nccldev", "ncclsymkdev"))
IS_NCCL = f"({' OR '.join(_LIKE_NCCL)})"
# Threads that the profiler runs inside the process: they are never drawn.
NOT_THE_PROFILERS = (
    "globalTid NOT IN (SELECT globalTid FROM ThreadNames n JOIN StringIds s ON s.id = n.nameId"
    " WHERE s.value LIKE '[NSys%' OR s.value = 'CUPTI worker thread')"
)
# CUPTI's type of a cudaStreamSynchronize is 2, without an event.
STREAM_SYNCHRONIZE = "syncType = 2 AND eventId = 4294967295"
SYNC_NAMES = {1: "Event synchronize", 2: "Stream wait event", 3: "Stream synchronize", 4: "Context synchronize"}


def sql(report: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of a query on one report, by the standard library's sqlite3."""
    with closing(sqlite3.connect(f"{report.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.create_function("unversioned", 1, unversioned, deterministic=True)
        return connection.execute(query).fetchall()


def unversioned(name: str) -> str:
    """`cudaLaunchKernel_v7000` -> `cudaLaunchKernel`."""
    head, mark, tail = name.rpartition("_v")
    return head if mark and tail.isdecimal() else name


def tables(report: Path) -> set[str]:
    """Names of the report's tables."""
    return {name for (name,) in sql(report, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def host(report: Path) -> str:
    """Host name."""
    return str(sql(report, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'")[0][0])


def epoch(report: Path) -> int:
    """UTC ns of the session start."""
    return int(sql(report, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0])


def _pid(column: str) -> str:
    return f"({column} >> 24 & 0xFFFFFF)"


def _thread(column: str = "globalTid") -> str:
    return f"{_pid(column)}, 'thread ' || ({column} & 0xFFFFFF)"


def _gpu(have: set[str]) -> str:
    """The host's number of the GPU of an activity `a`."""
    if "TARGET_INFO_CUDA_DEVICE" not in have:
        return "a.deviceId"
    found = f"SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE d WHERE d.cudaId = a.deviceId AND d.pid = {_pid('a.globalPid')}"
    return f"coalesce(({found}), a.deviceId)"


def _span(start: str = "start", end: str = '"end"') -> str:
    return f"{start}, max({end}, {start} + 1)"


def _queries(have: set[str]) -> Iterable[str]:
    """Queries for (kind, pid, place, label, start, end) of everything that a report's families draw."""
    stream = f"{_pid('a.globalPid')}, 'CUDA-D' || {_gpu(have)} || '.S' || a.streamId"
    if KERNEL in have:
        kind = f"CASE WHEN {IS_NCCL} THEN 'nccl kernel' ELSE 'kernel' END"
        yield f"SELECT {kind}, {stream}, s.value, {_span()} FROM {KERNEL} a JOIN StringIds s ON s.id = a.shortName"
    if MEMCPY in have:
        kinds = f"{MEMCPY} a JOIN ENUM_CUDA_MEMCPY_OPER k ON k.id = a.copyKind"
        yield f"SELECT 'memory', {stream}, k.label, {_span()} FROM {kinds}"
    if MEMSET in have:
        yield f"SELECT 'memory', {stream}, 'Memset', {_span()} FROM {MEMSET} a"
    if GRAPH in have:
        yield f"SELECT 'graph', {stream}, 'graph ' || graphId, {_span()} FROM {GRAPH} a"
    if RUNTIME in have:
        names = f"{RUNTIME} r JOIN StringIds s ON s.id = r.nameId"
        yield f"SELECT 'api', {_thread()}, unversioned(s.value), {_span()} FROM {names}"
    if SYNC in have and RUNTIME in have:
        calls = f"(SELECT DISTINCT globalTid, correlationId FROM {RUNTIME})"
        joined = f"{SYNC} y LEFT JOIN {calls} c ON c.correlationId = y.correlationId AND {_pid('c.globalTid')} = "
        label = " ".join(f"WHEN {number} THEN '{name}'" for number, name in SYNC_NAMES.items())
        thread = _thread(f"coalesce(c.globalTid, y.globalPid | {_pid('y.globalPid')})")
        span = _span("y.start", 'y."end"')
        kind = f"iif({STREAM_SYNCHRONIZE}, 3, syncType)"
        yield f"SELECT 'sync', {thread}, CASE {kind} {label} END, {span} FROM {joined}{_pid('y.globalPid')}"
    if "OSRT_API" in have:
        names = f"OSRT_API o JOIN StringIds s ON s.id = o.nameId WHERE {NOT_THE_PROFILERS}"
        yield f"SELECT 'os call', {_thread()}, s.value, {_span()} FROM {names}"
    yield from _nvtx_queries(have)
    mpi = [t for t in ("P2P", "START_WAIT", "COLLECTIVES", "OTHER") if f"MPI_{t}_EVENTS" in have]
    if mpi:
        rows = " UNION ALL ".join(f'SELECT start, "end", globalTid, textId FROM MPI_{t}_EVENTS' for t in mpi)
        calls = f'SELECT globalTid, start, textId, max("end") AS "end" FROM ({rows}) GROUP BY 1, 2, 3'
        # Extrae, whose value numbers these are, has one for both ways to begin.
        name = "replace(s.value, 'MPI_Init_thread', 'MPI_Init')"
        yield f"SELECT 'mpi', {_thread()}, {name}, {_span()} FROM ({calls}) JOIN StringIds s ON s.id = textId"
    for table in sorted(t for t in have if t.startswith("OPENMP_EVENT_KIND_")):
        yield f"SELECT 'openmp', {_thread()}, s.value, {_span()} FROM {table} JOIN StringIds s ON s.id = nameId"


def _nvtx_queries(have: set[str]) -> Iterable[str]:
    if "NVTX_EVENTS" not in have:
        return
    domains = f"SELECT {_pid('globalTid')} AS pid, domainId, text FROM NVTX_EVENTS WHERE eventType = 75"
    named = (
        f"NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId LEFT JOIN ({domains}) d"
        f" ON d.domainId = e.domainId AND d.pid = {_pid('e.globalTid')}"
    )
    domain = "'NVTX ' || CASE WHEN e.domainId = 0 THEN 'default' ELSE coalesce(d.text, 'domain ' || e.domainId) END"
    kinds = {f"({domain})": "(59, 70)", "'nvtx range'": "(60, 71)", "'nvtx mark'": "(34, 65)"}
    for kind, event_types in kinds.items():
        closed = "" if event_types == "(34, 65)" else ' AND e."end" IS NOT NULL'
        text = "coalesce(e.text, s.value, '')"
        span = "e.start, e.start + 1" if not closed else _span("e.start", 'e."end"')
        yield (
            f"SELECT {kind}, {_thread('e.globalTid')}, {text}, {span} FROM {named}"
            f" WHERE e.eventType IN {event_types}{closed}"
        )


def intervals(report: Path) -> pl.DataFrame:
    """Everything that lasts (DRAWN) in one report. NVTX ranges that are still open are not among it."""
    where, begin = host(report), epoch(report)
    found = [
        (kind, where, pid, place, label, start + begin, end + begin)
        for query in _queries(tables(report))
        for kind, pid, place, label, start, end in sql(report, query)
    ]
    return _one_line(pl.DataFrame(found, schema=DRAWN, orient="row"))


def _one_line(frame: pl.DataFrame) -> pl.DataFrame:
    """Labels as a line of a PCF holds them."""
    label = pl.col("label").str.replace_all(r"[\x00-\x1f\x7f\x{85}\x{2028}\x{2029}]+", " ").str.strip_chars()
    return frame.with_columns(label=pl.when(label == "").then(pl.lit("(no text)")).otherwise(label))


def metrics(report: Path) -> pl.DataFrame:
    """Every sample of every GPU metric (METRIC) of one report."""
    if "GPU_METRICS" not in tables(report):
        return pl.DataFrame(schema=METRIC)
    found = sql(
        report,
        f"SELECT '{host(report)}', 'Metrics GPU' || (m.typeId & 255), trim(n.metricName),"
        f" m.timestamp + {epoch(report)}, m.value FROM GPU_METRICS m"
        " JOIN TARGET_INFO_GPU_METRICS n ON n.typeId = m.typeId AND n.metricId = m.metricId",
    )
    return pl.DataFrame(found, schema=METRIC, orient="row")


def gpu_users(report: Path) -> set[tuple[str, str, int]]:
    """(host, metrics place, pid) of every process that gave a GPU work."""
    have = tables(report)
    return {
        (host(report), f"Metrics GPU{gpu}", pid)
        for table in (KERNEL, MEMCPY, MEMSET, GRAPH)
        if table in have
        for gpu, pid in sql(report, f"SELECT DISTINCT {_gpu(have)}, {_pid('a.globalPid')} FROM {table} a")
    }


def counts(frame: pl.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """(kind, label) -> number and sum of durations (ns)."""
    summed = frame.group_by("kind", "label").agg(n=pl.len(), ns=(pl.col("end") - pl.col("start")).sum())
    return {(kind, label): (n, ns) for kind, label, n, ns in summed.rows()}
