"""Waiting in NCCL kernels and MPI calls, by SQL and plain Python, with nothing of the project."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

# An operation, equal for all of its parts: communicator, direction and number.
Key = tuple[Any, ...]
MPI_TABLES = ("MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_COLLECTIVES_EVENTS")


class Activity(NamedTuple):
    """A kernel or call: rank, begin and end (UTC ns), the operations that it waits for, and those that it enters."""

    rank: int
    start: int
    end: int
    waits: tuple[Key, ...]
    enters: tuple[Key, ...]


class Split(NamedTuple):
    """Rank, begin, end of its waiting, end, and the rank waited for."""

    rank: int
    start: int
    ready: int
    end: int
    waited_for: int | None


def _rows(report: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{report}?mode=ro&immutable=1", uri=True)) as db:
        return db.execute(query).fetchall()


def _has(report: Path, *tables: str) -> bool:
    return {*tables} <= {name for (name,) in _rows(report, "SELECT name FROM sqlite_master")}


def _epoch(report: Path) -> int:
    return int(_rows(report, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0])


def nccl(reports: list[Path]) -> list[Activity]:
    """NCCL kernels with the operations of the call, or the group of calls, that launched each."""
    text = "coalesce(n.text, (SELECT value FROM StringIds WHERE id = n.textId))"
    calls = (
        f'SELECT n.start, n."end", n.globalTid, {text}, n.jsonText FROM NVTX_EVENTS n JOIN NVTX_EVENTS d'
        " ON d.domainId = n.domainId AND d.eventType = 75 AND d.text = 'NCCL' WHERE n.eventType = 59 ORDER BY n.start"
    )
    kernels = (
        'SELECT k.start, k."end", r.start, r.globalTid FROM CUPTI_ACTIVITY_KIND_KERNEL k'
        " JOIN StringIds s ON s.id = k.shortName AND s.value LIKE 'nccl%'"
        " JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
    )
    if not all(_has(report, "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS") for report in reports):
        return []
    told = [[(*row[:4], json.loads(row[4] or "{}")) for row in _rows(report, calls)] for report in reports]
    ids = [{payload.get("NCCL communicator ID") for *_, payload in own} for own in told]
    found = []
    for rank, report in enumerate(reports):
        launches: list[tuple[int, int, int, list[Key]]] = []
        counted: Counter[Key] = Counter()
        depth: Counter[int] = Counter()
        inside: dict[int, list[Key]] = defaultdict(list)
        for start, end, thread, name, payload in told[rank]:
            depth[thread] += {"ncclGroupStart": 1, "ncclGroupEnd": -1}.get(name, 0)
            if payload:
                communicator = payload["NCCL communicator ID"]
                # A rank on the communicator is its place among the reports that have it.
                members = [n for n, own in enumerate(ids) if communicator in own]
                sides = (members.index(rank), payload.get("Peer rank"))
                key: Key = (communicator, "collective")
                if name in ("ncclSend", "ncclRecv"):
                    key = (communicator, *(sides if name == "ncclSend" else sides[::-1]))
                # Sends are counted apart from receives: a message to oneself would be both.
                counted[name[:8], *key] += 1
                collectives = sum(n for (_, *rest), n in counted.items() if tuple(rest) == key)
                inside[thread].append((*key, collectives))
            if not depth[thread] and inside[thread]:
                launches.append((start, end, thread, inside.pop(thread)))
        for start, end, called, thread in _rows(report, kernels):
            (keys,) = (keys for s, e, t, keys in launches if s <= called < e and t == thread)
            found.append(Activity(rank, start + _epoch(report), end + _epoch(report), tuple(keys), tuple(keys)))
    return found


def mpi(reports: list[Path]) -> list[Activity]:
    """MPI calls of the world: collectives, sends, and the calls in which receives arrive."""
    found = []
    for rank, report in enumerate(reports):
        if not _has(report, *MPI_TABLES):
            continue
        rows = {
            table: _rows(
                report, f"SELECT s.value, t.* FROM {table} t JOIN StringIds s ON s.id = t.textId ORDER BY t.start"
            )
            for table in MPI_TABLES
        }
        calls: dict[tuple[int, int], tuple[list[Key], list[Key]]] = defaultdict(lambda: ([], []))
        for number, (name, start, end, _, _, _, root, *_) in enumerate(rows["MPI_COLLECTIVES_EVENTS"]):
            waits, enters = calls[start, end]
            assert name in ("MPI_Allreduce", "MPI_Barrier", "MPI_Bcast"), name
            waits += [("world", number)] if name != "MPI_Bcast" or rank != root else []
            enters += [("world", number)] if name != "MPI_Bcast" or rank == root else []
        counted: Counter[Key] = Counter()
        for name, start, end, _, _, _, tag, peer, _, request in rows["MPI_P2P_EVENTS"]:
            receives = "recv" in name.lower()
            sides = (peer, rank) if receives else (rank, peer)
            counted[receives, *sides, tag] += 1
            key = (*sides, tag, counted[receives, *sides, tag])
            if name == "MPI_Irecv":
                # The first wait for the request after the call.
                start, end = next(
                    (s, e) for _, s, e, _, _, r in rows["MPI_START_WAIT_EVENTS"] if r == request and s > start
                )
            calls[start, end][0 if receives else 1].append(key)
        utc = _epoch(report)
        found += [Activity(rank, s + utc, e + utc, tuple(w), tuple(n)) for (s, e), (w, n) in calls.items()]
    return found


def split(activities: list[Activity]) -> Iterator[Split]:
    """Split each activity where the last of those that it waits for came."""
    came: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for one in activities:
        for key in one.enters:
            came[key].append((one.start, one.rank))
    for one in activities:
        last, rank = max((max(came[key]) for key in one.waits), default=(one.start, one.rank))
        ready = min(max(last, one.start), one.end)
        yield Split(one.rank, one.start, ready, one.end, rank if ready > one.start else None)
