"""Tasks of the trace: the processes of the run in order of rank, each in all reports that recorded it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import polars as pl

from nsys2prv.families.mpi.mpi_communicators import is_of_mpi
from nsys2prv.model.global_ids import is_main_thread, pid_of, process_of
from nsys2prv.model.interning import STREAM, THREAD
from nsys2prv.model.words import few
from nsys2prv.run.clocks import Clock
from nsys2prv.run.hosts import Host, host_numbers
from nsys2prv.run.ranks import RankFrom, launched_ranks, numbered_ranks
from nsys2prv.run.report_summary import Summary


class RecordedProcess(NamedTuple):
    """A process as one report has it: the report's index, and its globalPid there."""

    report: int
    global_pid: int


class Task(NamedTuple):
    """One process of the run. `host`: its index; `recorded`: the process in each report that recorded it."""

    host: int
    pid: int
    name: str
    rank: int | None
    recorded: tuple[RecordedProcess, ...]

    @property
    def label(self) -> str:
        """Return the name at TASK level."""
        program = f"{self.name}:{self.pid}"
        return program if self.rank is None else f"rank {self.rank} {program}"


class _Candidate(NamedTuple):
    """A process in one report. `span` (merged ns): first and last time of its own events."""

    report: int
    global_pid: int
    host: int
    name: str
    session: str
    rank: int | None
    span: tuple[int, int]

    @property
    def pid(self) -> int:
        return pid_of(self.global_pid)


def find_tasks(
    summaries: Sequence[Summary], clocks: Sequence[Clock], hosts: Sequence[Host], rank_from: RankFrom
) -> list[Task]:
    """Find the tasks, in order of global rank, then host and pid."""
    host_of = host_numbers(hosts)
    ranks = _ranks(summaries, hosts, rank_from)
    names = [_names(summary) for summary in summaries]
    candidates = [
        _Candidate(
            report=r,
            global_pid=g,
            host=host_of[r],
            name=_program(names[r].get(g, "")),
            session=summary.identity.session,
            rank=ranks.get(RecordedProcess(r, g)),
            span=span,
        )
        for r, summary in enumerate(summaries)
        for g, span in _spans(summary, clocks[r]).items()
    ]
    # Grouped by pid first: to compare all pairs is slow where reports hold all processes of their hosts.
    candidates.sort(key=lambda c: (c.host, c.pid, c.span, c.report))
    by_pid = groupby(candidates, key=lambda c: (c.host, c.pid))
    tasks = [_task(group) for _, of_pid in by_pid for group in _grouped(of_pid)]
    return sorted(tasks, key=lambda t: (t.rank is None, t.rank or 0, hosts[t.host].order, t.pid, t.recorded))


def _names(summary: Summary) -> dict[int, str]:
    """Return the name of each process of a report: the program's, else the main thread's."""
    main = {process_of(t): name for t, name in summary.identity.thread_names.items() if is_main_thread(t)}
    return main | {p.global_pid: p.name for p in summary.identity.processes if p.name}


def ranks_by_report(tasks: Sequence[Task], reports: int) -> list[int | None]:
    """Return the rank that the tasks of each of some reports have: None for a report of several ranks or of none."""
    ranks: list[set[int]] = [set() for _ in range(reports)]
    for task in tasks:
        for process in task.recorded:
            ranks[process.report].update([] if task.rank is None else [task.rank])
    return [min(own) if len(own) == 1 else None for own in ranks]


def rank_warnings(tasks: Sequence[Task]) -> Iterator[str]:
    """Warn where several tasks have one rank."""
    repeated = [str(rank) for rank, n in Counter(t.rank for t in tasks).items() if rank is not None and n > 1]
    if repeated:
        yield (
            f"several tasks have the same rank ({few(repeated)}): what names the ranks does not tell them apart; "
            "choose another source with --rank-from"
        )


def _spans(summary: Summary, clock: Clock) -> dict[int, tuple[int, int]]:
    """Return the first and last time (merged ns) of the events of each process with places in a report."""
    own = summary.places.filter(pl.col("kind").is_in([THREAD, STREAM]))
    used = own.join(summary.uses, left_on="id", right_on="place", how="inner")
    spans = used.group_by("process").agg(pl.col("first").min(), pl.col("last").max()).sort("process")
    return {g: (clock.merged_one(a), clock.merged_one(b)) for g, a, b in spans.rows()}


def _grouped(candidates: Iterable[_Candidate]) -> list[list[_Candidate]]:
    """Group candidates of one pid on a host by process."""
    groups: list[list[_Candidate]] = []
    for candidate in candidates:
        group = next((g for g in groups if all(_one_process(m, candidate) for m in g)), None)
        if group is None:
            groups.append([candidate])
        else:
            group.append(candidate)
    return groups


def _one_process(a: _Candidate, b: _Candidate) -> bool:
    """Return True if two reports of one pid and host recorded one process.

    They did if they are of one session, or parts that follow each other. Process ids are used again: sessions at one
    time, or of other ranks or programs, recorded two processes.
    """
    if a.report == b.report or a.name != b.name:
        return False
    if a.session and a.session == b.session:
        # A capture without MPI_Init may lack the rank.
        return a.rank == b.rank or None in (a.rank, b.rank)
    if a.rank != b.rank:
        return False
    return (a.span[1] <= b.span[0] or b.span[1] <= a.span[0]) and a.rank is not None


def _task(group: Sequence[_Candidate]) -> Task:
    """Return the task of one process, as some reports recorded it."""
    first = group[0]
    rank = next((c.rank for c in group if c.rank is not None), None)
    return Task(first.host, first.pid, first.name, rank, tuple(RecordedProcess(c.report, c.global_pid) for c in group))


def _program(path: str) -> str:
    """Return the name of a program without its folder."""
    return path.rsplit("/", 1)[-1] or "process"


def known_ranks(summaries: Sequence[Summary], hosts: Sequence[Host], rank_from: RankFrom) -> frozenset[int]:
    """Return the global ranks of all reports, with or without events."""
    return frozenset(_ranks(summaries, hosts, rank_from).values())


def _ranks(summaries: Sequence[Summary], hosts: Sequence[Host], rank_from: RankFrom) -> dict[RecordedProcess, int]:
    """Return the global rank of each process that has one, from the source that is asked for.

    `auto`: those of the environment and of MPI, where MPI wins, with those of NCCL if these contradict none; those of
    file names only if nothing else is known.
    """
    identities = [s.identity for s in summaries]
    sources: dict[str, Callable[[], dict[RecordedProcess, int]]] = {
        "mpi": lambda: _mpi_ranks(summaries),
        "env": lambda: _of_one_process(summaries, launched_ranks(identities, hosts)),
        "nccl": lambda: _nccl_ranks(summaries),
        "file": lambda: _of_one_process(summaries, numbered_ranks(identities, [s.name for s in summaries])),
    }
    if rank_from == "pid":
        return {}
    if rank_from != "auto":
        return sources[rank_from]()
    found, of_nccl = {**sources["env"](), **sources["mpi"]()}, sources["nccl"]()
    # Sources that contradict each other count from different processes.
    if all(of_nccl.get(process, rank) == rank for process, rank in found.items()):
        found = {**of_nccl, **found}
    return found or (sources["file"]() if len(summaries) > 1 else {})


def _mpi_ranks(summaries: Sequence[Summary]) -> dict[RecordedProcess, int]:
    return {
        RecordedProcess(r, p.global_pid): p.mpi_rank
        for r, summary in enumerate(summaries)
        for p in summary.identity.processes
        if p.mpi_rank is not None
    }


def _nccl_ranks(summaries: Sequence[Summary]) -> dict[RecordedProcess, int]:
    """Return the ranks on the largest NCCL communicator, if it has every process that calls NCCL once.

    Children of a launcher such as `torchrun` have a report in common, and no rank in its environment.
    """
    every_member = pl.concat([s.members.with_columns(report=pl.lit(r)) for r, s in enumerate(summaries)])
    members = every_member.filter(~is_of_mpi(pl.col("communicator")))
    told = members.drop_nulls(["rank", "ranks"]).sort("ranks", "communicator", descending=[True, False])
    if told.is_empty():
        return {}
    world = told.filter(pl.col("communicator") == told["communicator"][0])
    ranks = {RecordedProcess(r, p): rank for r, p, rank in world.select("report", "process", "rank").rows()}
    every = {RecordedProcess(*one) for one in members.select("report", "process").rows()}
    once = len(ranks) == world.height and len(set(ranks.values())) == len(ranks)
    return ranks if once and every == ranks.keys() else {}


def _of_one_process(summaries: Sequence[Summary], ranks: Sequence[int | None]) -> dict[RecordedProcess, int]:
    """Assign the rank of each report to one of its processes, if it is clear to which.

    That is the only one that may have it (see _may_be_ranked). Where that is clear in most reports, a report of several
    has helpers that use a GPU, too: its rank belongs to the first one, which started them. Elsewhere the rank may be
    that of none of them: their launcher was profiled, and had it.
    """
    candidates = [_may_be_ranked(s) for s in summaries]
    most_are_clear = 2 * sum(len(of_report) == 1 for of_report in candidates) > len(candidates)
    return {
        RecordedProcess(r, min(of_report, key=pid_of)): rank
        for r, (of_report, rank) in enumerate(zip(candidates, ranks, strict=True))
        if rank is not None and (len(of_report) == 1 or (of_report and most_are_clear))
    }


def _may_be_ranked(summary: Summary) -> list[int]:
    """Return the processes that may have the rank of a report.

    They are those that use a GPU; if none does, the only one with events. A rank may have helper processes, such as
    loaders of its data.
    """
    places = summary.places.filter(pl.col("process").is_not_null())
    used = places.join(summary.uses, left_on="id", right_on="place", how="inner")
    # Any event on a stream makes its row; a line that only ends there does not.
    active = used.filter(pl.col("makes_rows") | ((pl.col("kind") == STREAM) & (pl.col("rows") > 0)))
    with_context = {pid for pid, _ in summary.identity.contexts}
    with_work = set(active.filter(pl.col("kind") == STREAM)["process"])
    processes = sorted(set(active["process"]))
    on_device = [p for p in processes if p in with_work or pid_of(p) in with_context]
    return on_device or (processes if len(processes) == 1 else [])
