"""Waiting and transfer of real runs, against SQL and plain Python, operation by operation."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from analysis_cases import SAMPLES, run_of, work_of
from runs import Command, parameters, reports_of

from nsys2prv.analysis.frames import Task
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.result import Analysis
from nsys2prv.analysis.waiting import EXCHANGE, carried, communication, exchanges, waiting_matrix
from nsys2prv.commands.analyze import analyze
from nsys2prv.intervals.spans import one_span
from nsys2prv.run.options import RunOptions

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


def rows_of(report: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{report}?mode=ro&immutable=1", uri=True)) as db:
        return db.execute(query).fetchall()


def epoch(report: Path) -> int:
    return int(rows_of(report, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0])


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
    told = [[(*row[:4], json.loads(row[4] or "{}")) for row in rows_of(report, calls)] for report in reports]
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
        for start, end, called, thread in rows_of(report, kernels):
            (keys,) = (keys for s, e, t, keys in launches if s <= called < e and t == thread)
            found.append(Activity(rank, start + epoch(report), end + epoch(report), tuple(keys), tuple(keys)))
    return found


def mpi(reports: list[Path]) -> list[Activity]:
    """MPI calls of the world: collectives, sends, and the calls in which receives arrive."""
    found = []
    for rank, report in enumerate(reports):
        rows = {
            table: rows_of(
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
        utc = epoch(report)
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


TRUTH: dict[str, Callable[[list[Path]], list[Activity]]] = {
    "gpt-ddp": nccl,
    "mpi-halo": mpi,
    "mesh-tp-pp": nccl,
    "fsdp": nccl,
}
RUNS = parameters(*TRUTH)


def analysed(run: str, window: str = "device") -> Analysis:
    return analyze(reports_of(run), question=Question(window=window), options=RunOptions(align="utc"))


@pytest.mark.parametrize("run", RUNS)
def test_each_operation_is_split_as_sql_says(run: str) -> None:
    kind = TRUTH[run].__name__
    found = analysed(run)
    every = exchanges(found.run, carried(found.run)).filter(pl.col("kind") == kind)
    truth = sorted(split(TRUTH[run](reports_of(run))))
    shift = min(s.start for s in truth) - int(every["start"].min())  # type: ignore[call-overload]
    said = [
        Split(task, start + shift, ready + shift, end + shift, waited_for)
        for task, start, ready, end, waited_for in every.select("task", *("start", "ready", "end", "waited_for")).rows()
    ]
    assert sorted(said) == truth
    assert any(s.waited_for is not None for s in truth)
    _check_sums(found, truth, shift)


def _check_sums(found: Analysis, truth: list[Split], shift: int) -> None:
    """Compare sums by rank, and by pair of ranks, inside the window."""
    low, high = found.window.start + shift, found.window.end + shift

    def inside(start: int, end: int) -> int:
        return max(min(end, high) - max(start, low), 0)

    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    pairs: Counter[tuple[int, int | None]] = Counter()
    for s in truth:
        sums[s.rank][0] += inside(s.start, s.ready)
        sums[s.rank][1] += inside(s.ready, s.end)
        pairs[s.rank, s.waited_for] += inside(s.start, s.ready)
    every = found.explanation.communication.filter(pl.col("operation") == "all")
    assert {rank: [w, t] for rank, w, t in every.select("rank", "waiting_ns", "transfer_ns").rows()} == sums
    matrix = {
        (rank, other): ns
        for rank, other, ns in found.explanation.waiting.select("rank", "waited_for", "waiting_ns").rows()
    }
    assert matrix == {pair: ns for pair, ns in pairs.items() if ns}


@pytest.mark.parametrize("window", ["steady", "device", "trace"])
@pytest.mark.parametrize("run", parameters("gpt-ddp", "mpi-halo", "mpi-cpu"))
def test_the_parts_are_the_whole_to_the_nanosecond(run: str, window: str) -> None:
    found = analysed(run, window)
    table = found.explanation.communication
    assert (table["waiting_ns"] + table["transfer_ns"]).equals(table["ns"], check_names=False)
    assert (table["overlapped_ns"] + table["exposed_ns"]).equals(table["ns"], check_names=False)
    assert (table["unmatched_ns"] <= table["transfer_ns"]).all()
    assert (table["waiting_ns"] >= 0).all()
    every = table.filter(pl.col("operation") == "all").select("rank", *SUMMED)
    by_operation = table.filter(pl.col("operation") != "all").group_by("rank").agg(pl.col(SUMMED).sum()).sort("rank")
    assert by_operation.equals(every)
    waited = found.explanation.waiting.group_by("rank").agg(pl.col("waiting_ns").sum()).sort("rank")
    assert waited.equals(every.filter(pl.col("waiting_ns") > 0).select("rank", "waiting_ns"))


SUMMED = ["activities", "bytes", "ns", "waiting_ns", "transfer_ns", "overlapped_ns", "exposed_ns", "unmatched_ns"]


def test_one_report_of_several_knows_of_no_wait() -> None:
    found = analyze(reports_of("gpt-ddp")[0], question=Question(window="device"))
    assert found.explanation.waiting.is_empty()
    assert (found.explanation.communication["unmatched_ns"] == found.explanation.communication["ns"]).all()


def test_ranks_that_are_not_chosen_are_still_waited_for() -> None:
    """Rank 1 waits as long as in the whole run, and nobody of the analyzed ranks is named."""
    whole = analyze(reports_of("mpi-halo"), question=Question(window="trace"))
    part = analyze(reports_of("mpi-halo"), question=Question(window="trace"), options=RunOptions(ranks=frozenset({1})))
    (own,) = (f.explanation.waiting.filter(pl.col("rank") == 1) for f in (part,))
    assert own["waited_for"].to_list() == [None]
    assert own["waiting_ns"].sum() == whole.explanation.waiting.filter(pl.col("rank") == 1)["waiting_ns"].sum()


def exchanges_of(*waits: tuple[int, int, int, int, int | None]) -> pl.DataFrame:
    """EXCHANGE of one communicator: task, start, ready, end, task waited for."""
    shared = {"kind": "nccl", "device": None, "communicator": "c", "operation": "AllReduce", "bytes": 8}
    rows = [
        {**shared, "index": n, "task": task, "row": task, "start": start, "ready": ready, "end": end, "last": ready,
         "waited_for": waited_for}
        for n, (task, start, ready, end, waited_for) in enumerate(waits)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=EXCHANGE)


def test_a_wait_for_another_host_below_the_error_of_the_clocks_is_uncertain() -> None:
    """Ranks 0 and 1 are on one host, rank 2 on another, and the clocks may differ by 20 ns."""
    tasks = tuple(Task(n, f"rank {n}", host) for n, host in enumerate("aab"))
    run = run_of(work_of([]), ranks=3)._replace(tasks=tasks, clock_error=20)
    waits = exchanges_of((0, 0, 10, 15, 2), (0, 20, 50, 60, 2), (0, 70, 80, 90, 1), (1, 10, 10, 15, None))
    table = communication(run, waits, one_span(0, 100)).select("rank", "operation", "waiting_ns", "uncertain_ns")
    assert table.rows() == [(0, "all", 50, 10), (1, "all", 0, 0), (0, "AllReduce", 50, 10), (1, "AllReduce", 0, 0)]
    assert waiting_matrix(run, waits, one_span(0, 100)).rows() == [(0, 1, 1, 10, 0), (0, 2, 2, 40, 10)]


def test_a_wait_counts_inside_the_window_only() -> None:
    run, waits = run_of(work_of([])), exchanges_of((0, 0, 30, 50, 1))
    sums = ["ns", "waiting_ns", "transfer_ns"]
    for window, wanted in (((10, 40), (30, 20, 10)), ((30, 100), (20, 0, 20)), ((0, 5), (5, 5, 0))):
        assert communication(run, waits, one_span(*window)).select(sums).row(0) == wanted


def test_the_text_shows_who_waits_for_whom(cli: Command) -> None:
    """Rank 3 of mpi-halo is late: the others wait for it, and it hardly waits."""
    text = cli("analyze", SAMPLES / "mpi-halo", "--window", "trace").out
    table = text.partition("\nWho waits for whom\n")[2].partition("\n\n")[0].splitlines()
    assert table[0].split("  ")[-1] == "for 3 ms"
    assert [line.split()[0] for line in table[1:]] == ["0", "1", "2", "3"]
    assert "\nWaiting and transfer of NCCL kernels and MPI calls, each by itself\n" in text
    assert "below the error of the clocks" not in text
    between = cli("analyze", SAMPLES / "gpt-ddp").out
    assert "below the error of the clocks" in between
