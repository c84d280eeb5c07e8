"""Global ranks of reports."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence, Set
from typing import Literal

from nsys2prv.report.identity import Identity
from nsys2prv.run.hosts import Host, host_numbers

RankFrom = Literal["auto", "mpi", "env", "file", "pid"]

# Environment variables in which launchers put the global rank, most trustworthy first.
RANK_VARIABLES = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK")

# In the name of a report: a number behind `rank`, any number, and the number of all ranks.
_BEHIND_RANK, _NUMBER, _OF_ALL = r"(?i)rank[ _.=-]?(\d+)", r"\d+", re.compile(r"(?i)[ _.-]?of[ _.-]?\d+")


def report_ranks(
    identities: Sequence[Identity], names: Sequence[str], hosts: Sequence[Host], rank_from: RankFrom = "auto"
) -> list[int | None]:
    """Return the rank of each report by its identity or its name; None where neither tells one.

    A trace may have other ranks, as those of NCCL, and a launcher's rank may be none of its processes': see find_tasks.
    """
    unknown: list[int | None] = [None] * len(identities)
    match rank_from:
        case "mpi":
            return [_mpi_rank(i) for i in identities]
        case "env":
            return launched_ranks(identities, hosts)
        case "file":
            return numbered_ranks(identities, names)
        case "pid":
            return unknown
    stated = stated_ranks(identities, hosts)
    return stated if stated != unknown or len(names) < 2 else numbered_ranks(identities, names)


def stated_ranks(identities: Sequence[Identity], hosts: Sequence[Host]) -> list[int | None]:
    """Return the rank that each report states: MPI's, without MPI the launcher's."""
    launched = launched_ranks(identities, hosts)
    return [
        _mpi_rank(identity) if any(p.mpi_rank is not None for p in identity.processes) else rank
        for identity, rank in zip(identities, launched, strict=True)
    ]


def launched_ranks(identities: Sequence[Identity], hosts: Sequence[Host]) -> list[int | None]:
    """Return the rank that the launcher put into each report's environment."""
    variables = _rank_variables(identities, hosts)
    return [_launched_as(i, variables) for i in identities]


def numbered_ranks(identities: Sequence[Identity], names: Sequence[str]) -> list[int | None]:
    """Return the number behind `rank` in each report's name, else the last one, if all have one and all differ.

    A number of all, as in `0_of_4`, does not count. Captures of one session are numbered too: those numbers are no
    ranks.
    """
    sessions = [i.session for i in identities if i.session]
    if len(set(sessions)) == len(sessions):
        for pattern in (_BEHIND_RANK, _NUMBER):
            numbers = [re.findall(pattern, _OF_ALL.sub("", name)) for name in names]
            if len({int(n[-1]) for n in numbers if n}) == len(names):
                return [int(n[-1]) for n in numbers]
    return [None] * len(names)


def numbers_of_tasks(ranks: Sequence[int | None]) -> tuple[int, ...]:
    """Return a number of its own for each task: its rank; one above the highest if it has none, or an earlier task's.

    `ranks`: the rank of each task, None if unknown.
    """
    first = {rank: n for n, rank in reversed(list(enumerate(ranks)))}
    free = itertools.count(max((rank for rank in first if rank is not None), default=-1) + 1)
    return tuple(next(free) if rank is None or first[rank] != n else rank for n, rank in enumerate(ranks))


def tasks_of_ranks(ranks: Sequence[int | None], working: Set[int]) -> set[int]:
    """Return the tasks that are ranks, not helpers: those with a rank, and those with device work; without any all.

    `ranks`: the rank of each task, None if unknown; `working`: the tasks with device work.
    """
    return {n for n, rank in enumerate(ranks) if rank is not None} | working or set(range(len(ranks)))


def _mpi_rank(identity: Identity) -> int | None:
    """Return the MPI rank of a report; None unless exactly one process has one."""
    ranks = [p.mpi_rank for p in identity.processes if p.mpi_rank is not None]
    return ranks[0] if len(ranks) == 1 else None


def _rank_variables(identities: Sequence[Identity], hosts: Sequence[Host]) -> Sequence[str]:
    """Return RANK_VARIABLES without those at the front that give several processes one rank.

    They are dropped only while the others distinguish these processes.

    Such a variable comes from an outer launcher: `srun` starts one `torchrun` a node, which starts the ranks.
    """
    host_of = host_numbers(hosts)
    # Reports of one process, as of repeated captures, have one session.
    processes = [(host_of[r], i.session, tuple(p.pid for p in i.processes)) for r, i in enumerate(identities)]
    known = [_launched_as(i, RANK_VARIABLES) is not None for i in identities]
    for n in range(len(RANK_VARIABLES)):
        ranks = [_launched_as(i, RANK_VARIABLES[n:]) for i in identities]
        if known != [rank is not None for rank in ranks]:
            break
        ranked = {pair for pair in zip(ranks, processes, strict=True) if pair[0] is not None}
        if len({rank for rank, _ in ranked}) == len(ranked):
            return RANK_VARIABLES[n:]
    return RANK_VARIABLES


def _launched_as(identity: Identity, variables: Sequence[str]) -> int | None:
    """Return the launcher's rank from the first of some environment variables that has one."""
    values = (identity.environment.get(name, "") for name in variables)
    return next((int(v) for v in values if re.fullmatch(r"\d{1,9}", v, re.ASCII)), None)
