"""The rows of one rank's report, by SQL: what the figures of truth.Run are made of."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import polars as pl

from nsys2prv.intervals.classes import classify_kernels

Table = dict[tuple[str, str], float]
Span = tuple[int, int]

COPY_KINDS = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}
SYNC_KINDS = {1: "Event synchronize", 2: "Stream wait event", 3: "Stream synchronize", 4: "Context synchronize"}
MPI_TABLES = ("MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_OTHER_EVENTS")


class Event(NamedTuple):
    """Something that lasts, UTC ns: on which row, under which name, how many bytes; when its call began."""

    start: int
    end: int
    row: str
    name: str
    bytes: int = 0
    called: int = 0


class NcclCall(NamedTuple):
    """Begin and end, UTC ns; operation and bytes of each member; number of a collective on its communicator."""

    start: int
    end: int
    members: list[tuple[str, int]]
    number: int


class Report:
    """The rows of one rank's report."""

    def __init__(self, path: Path, rank: int) -> None:
        self.task = f"rank {rank}"
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self._epoch = self._sql("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0]
        self._tables = {name for (name,) in self._sql("SELECT name FROM sqlite_master")}

    def _sql(self, query: str) -> list[tuple[Any, ...]]:
        return self._db.execute(query).fetchall()

    def _events(self, table: str, row: str, name: str, size: str = "0", more: str = "") -> list[Event]:
        if table not in self._tables:
            return []
        found = self._sql(f'SELECT e.start, e."end", {row}, {name}, {size} FROM {table} e {more}')
        events = {Event(s + self._epoch, e + self._epoch, str(r), str(n), *more) for s, e, r, n, *more in found}
        return sorted(e._replace(called=e.called + self._epoch) for e in events)

    def _on_stream(self, table: str, name: str, size: str = "0", more: str = "") -> list[Event]:
        of_pid = "d.cudaId = e.deviceId AND d.pid = (e.globalPid >> 24) & 0xFFFFFF"
        called = "(SELECT r.start FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = e.correlationId)"
        joined = f"JOIN TARGET_INFO_CUDA_DEVICE d ON {of_pid} {more}"
        return self._events(table, "'CUDA-D' || d.gpuId || '.S' || e.streamId", name, f"{size}, {called}", joined)

    def _kernels_named(self, column: str) -> list[Event]:
        return self._on_stream("CUPTI_ACTIVITY_KIND_KERNEL", "s.value", more=f"JOIN StringIds s ON s.id = e.{column}")

    @cached_property
    def all_kernels(self) -> list[Event]:
        return self._kernels_named("shortName")

    @cached_property
    def classed(self) -> list[Event]:
        """All kernels by class."""
        pairs = list(zip(self.all_kernels, self._kernels_named("demangledName"), strict=True))
        names = sorted({(short.name, full.name) for short, full in pairs})
        columns = pl.DataFrame(names, schema=["short", "demangled"], orient="row")
        known = dict(zip(names, classify_kernels(columns)["class"], strict=True))
        return [short._replace(name=known[short.name, full.name]) for short, full in pairs]

    @property
    def kernels(self) -> list[Event]:
        return [k for k in self.all_kernels if not k.name.startswith("nccl")]

    @property
    def nccl(self) -> list[Event]:
        return [k for k in self.all_kernels if k.name.startswith("nccl")]

    @cached_property
    def memory(self) -> list[Event]:
        copies = self._on_stream("CUPTI_ACTIVITY_KIND_MEMCPY", "e.copyKind", "e.bytes")
        sets = self._on_stream("CUPTI_ACTIVITY_KIND_MEMSET", "'Memset'", "e.bytes")
        return sorted([*(c._replace(name=COPY_KINDS[int(c.name)]) for c in copies), *sets])

    @cached_property
    def calls(self) -> list[Event]:
        names = "JOIN StringIds s ON s.id = e.nameId"
        calls = self._events("CUPTI_ACTIVITY_KIND_RUNTIME", "e.globalTid & 0xFFFFFF", "s.value", more=names)
        return [c._replace(name=re.sub(r"_v\d+$", "", c.name)) for c in calls]

    @cached_property
    def waits(self) -> list[Event]:
        """By the thread of the call that waits, or the main thread where the report has no such call."""
        call = "LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = e.correlationId"
        thread = "coalesce(r.globalTid, e.globalPid >> 24) & 0xFFFFFF"
        # CUPTI's type of a cudaStreamSynchronize is 2, without an event.
        kind = "iif(e.syncType = 2 AND e.eventId = 4294967295, 3, e.syncType)"
        waits = self._events("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", thread, kind, more=call)
        return [w._replace(name=SYNC_KINDS[int(w.name)]) for w in waits]

    @cached_property
    def mpi(self) -> list[Event]:
        """Calls: of rows with one begin the longest."""
        names = "JOIN StringIds s ON s.id = e.textId"
        rows = [e for t in MPI_TABLES for e in self._events(t, "e.globalTid & 0xFFFFFF", "s.value", more=names)]
        return sorted({(e.row, e.start, e.name): e for e in sorted(rows)}.values())

    def sent(self) -> list[tuple[int, int]]:
        """Receiving rank and bytes of each MPI message."""
        if "MPI_P2P_EVENTS" not in self._tables:
            return []
        names = "JOIN StringIds s ON s.id = e.textId WHERE s.value IN ('MPI_Send', 'MPI_Isend')"
        return [
            (int(to), int(size)) for to, size in self._sql(f"SELECT remoteRank, size FROM MPI_P2P_EVENTS e {names}")
        ]

    @cached_property
    def ranges(self) -> list[Event]:
        """Push/pop ranges of the default domain, by thread, outer ones first."""
        text = "coalesce(e.text, (SELECT value FROM StringIds WHERE id = e.textId))"
        chosen = 'WHERE e.eventType = 59 AND e.domainId = 0 AND e."end" IS NOT NULL'
        found = self._events("NVTX_EVENTS", "e.globalTid & 0xFFFFFF", text, more=chosen)
        return sorted(found, key=lambda e: (e.start, -e.end))

    @cached_property
    def outermost(self) -> list[Event]:
        found: list[Event] = []
        last: dict[str, int] = {}
        for e in self.ranges:
            if e.start >= last.get(e.row, 0):
                last[e.row] = e.end
                found.append(e)
        return found

    def launched_in(self, name: str) -> list[Event]:
        """What was launched while a range of this name lasted on any thread, and runs on the device."""
        spans = [(r.start, r.end) for r in self.ranges if r.name == name]
        return [w for w in (*self.all_kernels, *self.memory) if any(s <= w.called < e for s, e in spans)]

    @cached_property
    def outermost_on_device(self) -> list[Event]:
        """Outermost ranges on each stream that work of their process ran on, but where inner ones cover them whole."""
        found: list[Event] = []
        work = [*self.all_kernels, *self.memory]
        for stream in sorted({w.row for w in work}):
            spans = []
            for r in self.ranges:
                inside = [w for w in work if w.row == stream and r.start <= w.called < r.end]
                if inside:
                    spans.append(Event(min(w.start for w in inside), max(w.end for w in inside), stream, r.name))
            outer = [s for s in spans if s.name in {o.name for o in self.outermost}]
            inner = union(s for s in spans if s not in outer)
            found += [s for s in outer if length(inner, [(s.start, s.end)]) < s.end - s.start]
        return found

    @cached_property
    def nccl_calls(self) -> list[NcclCall]:
        """What launches NCCL's kernels: a call by itself, or the end of a group for the calls in it."""
        json = [f"json_extract(n.jsonText, '$.\"{key}\"')" for key in ("Message size [bytes]", "NCCL communicator ID")]
        text = "coalesce(n.text, (SELECT value FROM StringIds WHERE id = n.textId))"
        rows = self._sql(
            f'SELECT n.start, n."end", n.globalTid, {text}, {json[0]}, {json[1]} FROM NVTX_EVENTS n JOIN NVTX_EVENTS d'
            " ON d.domainId = n.domainId AND d.eventType = 75 AND d.text = 'NCCL' WHERE n.eventType = 59 ORDER BY 1"
        )
        found: list[NcclCall] = []
        groups: dict[int, int] = defaultdict(int)
        inside: dict[int, list[tuple[str, int]]] = defaultdict(list)
        counted: dict[int, int] = defaultdict(int)
        for start, end, thread, name, size, communicator in rows:
            operation = name.removeprefix("nccl")
            if size is not None:
                counted[communicator] += operation not in ("Send", "Recv")
                inside[thread].append((operation, int(size)))
            groups[thread] += {"GroupStart": 1, "GroupEnd": -1}.get(operation, 0)
            if not groups[thread] and inside[thread]:
                number = 0 if operation == "GroupEnd" else counted[communicator]
                found.append(NcclCall(start + self._epoch, end + self._epoch, inside.pop(thread), number))
        return found

    @cached_property
    def collectives(self) -> list[tuple[Event, int]]:
        """NCCL's kernels by operation with bytes, of all the calls that launched them, and number (0: of messages)."""
        found = []
        for k in self.nccl:
            call = next(c for c in self.nccl_calls if c.start <= k.called < c.end)
            names = sorted({name for name, _ in call.members}, reverse=True)
            total = sum(size for _, size in call.members)
            found.append((k._replace(name=" and ".join(names), bytes=total), call.number))
        return found

    def samples(self, metric: str) -> tuple[list[int], list[int]]:
        """Times and values of a metric of the rank's GPU, and where it ends, one period after the last sample: 0."""
        if "GPU_METRICS" not in self._tables:
            return [], []
        rows = self._sql(
            "SELECT DISTINCT m.timestamp, m.value"
            " FROM GPU_METRICS m JOIN TARGET_INFO_GPU_METRICS n USING (typeId, metricId)"
            f" WHERE trim(n.metricName) = '{metric}' ORDER BY 1"
        )
        if not rows:
            return [], []
        times = [t + self._epoch for t, _ in rows]
        period = int(median(b - a for a, b in pairwise(times[:17])))
        return [*times, times[-1] + period], [*(v for _, v in rows), 0]


def union(events: Iterable[Event]) -> list[Span]:
    """Disjoint spans in order."""
    spans: list[Span] = []
    for e in sorted(events):
        if spans and e.start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], e.end))
        else:
            spans.append((e.start, e.end))
    return spans


def common(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What two lists of disjoint spans share."""
    borders = list(others)
    cut = [(max(s, low), min(e, high)) for s, e in spans for low, high in borders]
    return [(s, e) for s, e in cut if s < e]


def length(spans: Iterable[Span], within: Iterable[Span]) -> int:
    """Time of disjoint spans inside others."""
    return sum(e - s for s, e in common(spans, within))
