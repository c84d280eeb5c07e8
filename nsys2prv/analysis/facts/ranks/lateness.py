"""A rank that is late, as findings tell it: what samples say of its host, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.communication.delays import DELAY
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.many_operations import advice_on_operations
from nsys2prv.analysis.facts.communication.message_operations import MESSAGES, SENDS
from nsys2prv.analysis.facts.communication.shared_norms import advice_on_shared_norms
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.hosts.blocking_launches import advice_on_blocking
from nsys2prv.analysis.facts.hosts.code_loading import advice_on_compiling
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen, seen_functions
from nsys2prv.analysis.facts.hosts.garbage import advice_on_garbage
from nsys2prv.analysis.facts.hosts.host_compute import advice_on_trips
from nsys2prv.analysis.facts.hosts.system_calls import advice_on_call
from nsys2prv.analysis.facts.hosts.waits_of_hosts import COPY_BESIDE, advice_on_waits
from nsys2prv.analysis.facts.ranks.chief_cause import ChiefCause, interpreter_lock
from nsys2prv.analysis.facts.ranks.latecomers import gains_less
from nsys2prv.analysis.facts.ranks.pageable_copies import advice_on_pageable
from nsys2prv.analysis.facts.ranks.shares_of_launches import advice_on_launches
from nsys2prv.analysis.facts.ranks.stray_work import advice_on_peer_copies
from nsys2prv.analysis.facts.thresholds import GAINED, MEDIUM
from nsys2prv.analysis.frames import MPI, OF_DEVICE
from nsys2prv.analysis.graph.critical_path import COPYING, TRANSFER
from nsys2prv.analysis.graph.host_labels import AT_MANY_PLACES, call_of
from nsys2prv.model.words import few_ranks

# Messages of NCCL.
RECEIVE_EARLY, SEND_ASIDE = (
    Words("irecv", jax="lax.ppermute", cuda="ncclRecv"),
    Words("isend", jax="lax.ppermute", cuda="ncclSend"),
)


# Why a host is late at many places: the function that gives advice where it is so, and words for a title.
REASONS = (
    (advice_on_blocking, "waiting for each of its kernels"),
    (advice_on_waits, "waiting for its device more often than others"),
    (advice_on_operations, "launching many NCCL kernels"),
    (advice_on_launches, "launching more than others"),
)


class Lateness(NamedTuple):
    """A rank that others wait for. Times are ns of an iteration.

    `waiting`: those that wait; `cause`: what makes it late; `delay_ns`: how long they wait for it; `gain_ns`: what the
    run gains without delays, as the replay predicts; `slack_ns`: how long the hosts of those that wait have nothing
    to do; `at`: begin of the longest wait; `share`: the part of that gain that counts for it, where findings of other
    late ranks have the rest; `limit_ns`: what it gains at most, by a replay without host work (None: more than that);
    `late_too`: delays (DELAY) of ranks that are late in turn with it (see late_in_turn): that part is theirs, too.
    """

    rank: int
    waiting: tuple[int, ...]
    cause: ChiefCause | None
    delay_ns: float
    gain_ns: float
    slack_ns: float
    at: int
    share: float = 1.0
    limit_ns: float | None = None
    late_too: pl.DataFrame = pl.DataFrame(schema=DELAY)

    @property
    def others(self) -> tuple[int, ...]:
        """Return the ranks that are late in turn with it."""
        return tuple(self.late_too["rank"].unique().sort())

    @property
    def predicted(self) -> bool:
        """Return True if the replay explains the delay; it knows no delay of which it has no usual time."""
        return self.gain_ns >= GAINED.value * self.delay_ns

    @property
    def replayed(self) -> bool:
        """Return True if the replay tells what can be gained: it explains the delay, or knows more than the slack."""
        return self.predicted or self.share * self.gain_ns > self._of_slack

    @property
    def limited(self) -> bool:
        """Return True if a replay without host work limits what can be gained."""
        return not self.replayed and self.limit_ns == self._of_slack

    @property
    def cost_ns(self) -> float:
        """Return what can be gained: by the replay, else by the slack, and no more than others wait."""
        return min(self.share * self.gain_ns if self.replayed else self._of_slack, self.delay_ns)

    @property
    def _of_slack(self) -> float:
        """Return what the slack of those that wait lets gain."""
        gained = min(self.slack_ns, self.delay_ns)
        return gained if self.limit_ns is None else min(gained, self.limit_ns)


def samples_of_host(case: Case, late: Lateness) -> Seen:
    """Return what samples say of the host of a late rank; nothing where its host is not the cause."""
    if late.cause and late.cause.kind in (TRANSFER, COPYING):
        return Seen()
    return seen_functions(case, kept_time(case.analysis), late.rank, waiting=bool(_system_call(case, late)))


def advice_on_lateness(case: Case, late: Lateness, seen: Seen, in_few: str) -> str:
    """Return what to do about a late rank.

    `seen`: what samples say of its host; `in_few`: words on the few iterations in which others wait (few_iterations).
    """
    if late.cause and late.cause.kind == TRANSFER:
        return _advice_on_transfers(case, late.rank)
    return (
        advice_on_trips(case, late.rank, late.delay_ns, seen)
        or _advice_on_copies(case, late)
        or _advice_on_host(case, late, seen, in_few)
    )


def manner_of_host(case: Case, late: Lateness, seen: Seen) -> str:
    """Return how a host is late that is so at many places, in words that follow its name and fit its advice.

    `seen`: what samples say of it.
    """
    if advice_on_trips(case, late.rank, late.delay_ns, seen):
        return "working between copies from and to its device"
    return next((words for advice, words in REASONS if advice(case, late.rank)), AT_MANY_PLACES)


def in_messages(case: Case, rank: int) -> bool:
    """Return True if a rank takes most of its time in transfers for messages, not for collectives."""
    own, of_messages = case.exposed.filter(rank=rank), pl.col("operation").str.contains(MESSAGES)
    return 2 * float(own.filter(of_messages)["transfer_ns"].sum()) > float(own["transfer_ns"].sum())


def _advice_on_transfers(case: Case, rank: int) -> str:
    """Return what to do about a rank that is late as it transfers."""
    if not in_messages(case, rank):
        return (
            f"See the collectives of rank {rank} before (nsys2prv analyze RUN --show communication): send less in "
            "them, overlap them with compute, or see why the network between their ranks is slow."
        )
    receive, send = (
        ("MPI_Irecv", "MPI_Isend") if _uses_mpi(case) else (w.of(case.framework) for w in (RECEIVE_EARLY, SEND_ASIDE))
    )
    return (
        f"See the messages to and from rank {rank}. Where its partners receive late, receive earlier ({receive} "
        f"before the work); else send less, earlier, or without waiting ({send})."
    )


def _advice_on_copies(case: Case, late: Lateness) -> str:
    """Return what to do about a rank that is late as it copies; else an empty text."""
    rank, cause = late.rank, late.cause
    if of_copies := advice_on_pageable(case, rank, cause) or advice_on_peer_copies(case, rank, cause):
        return of_copies
    if cause is None or cause.kind != COPYING:
        return ""
    if cause.name == OF_DEVICE:
        # Such copies grow with the work of a rank.
        return (
            f"See why rank {rank} copies more on its device than others: a larger share of the work copies more. Let "
            "kernels write where the result is needed (out=, buffers that are swapped) rather than copy it."
        )
    return (
        f"See what rank {rank} copies, and others do not: a checkpoint, metrics, data. {COPY_BESIDE.of(case.framework)}"
    )


def _advice_on_host(case: Case, late: Lateness, seen: Seen, in_few: str) -> str:
    """Return what to do about a rank whose host is late. `seen`, `in_few`: see advice_on_lateness."""
    rank = late.rank
    enters = " or enters MPI" if _uses_mpi(case) else ""
    before, memory = (f"it launches{enters}", " and memory of its GPU") if case.run.devices else ("it enters MPI", "")
    causes = f"data, Python, other processes on its cores, binding to cores{memory}, more profiling than on other ranks"
    posted = " Receives posted before that work (MPI_Irecv) hold up no sender." if _holds_up_sends(case, rank) else ""
    call = _system_call(case, late)
    whose = few_ranks([rank, *late.others])
    whose = f"hosts of {whose} do before they launch" if late.others else f"host of {whose} does before {before}"
    return (
        interpreter_lock(case, (rank,), late.cause.name if late.cause else "")
        or next(filter(None, (advice(case, rank) for advice, _ in REASONS)), "")
        or (advice_on_call(case, call, seen, rank) if call else "")
        or f"{advice_on_shared_norms(case)}"
        f"{_if_all_are_slow(case, late)} what the {whose}: "
        f"{f'on rank {rank}, ' if late.others and seen.text else ''}{seen.text or causes}"
        f"{advice_on_compiling(case, seen) or advice_on_garbage(case, seen, in_few)}.{posted}"
    )


def _if_all_are_slow(case: Case, late: Lateness) -> str:
    """Return the begin of a sentence on what a host does, after one that says if hosts of other ranks are slow, too."""
    starved = case.idle("launching").mean_ns >= MEDIUM.value * case.iteration_ns
    slow = "Hosts of other ranks have little time to spare, too: launching less helps every rank. Then see"
    return slow if starved and gains_less(late.cost_ns, late.delay_ns) else "See"


def _system_call(case: Case, late: Lateness) -> str:
    """Return the call of the system that makes a host late; else an empty text."""
    call, task = call_of(late.cause.name) if late.cause else "", case.run.task_by_rank[late.rank]
    named = (pl.col("kind") == "os") & (pl.col("name") == call) & (pl.col("task") == task)
    return "" if case.run.calls.filter(named).is_empty() else call


def _uses_mpi(case: Case) -> bool:
    """Return True if ranks wait or transfer in calls of MPI."""
    return bool((case.exposed["kind"] == MPI).any())


def _holds_up_sends(case: Case, rank: int) -> bool:
    """Return True if others wait for a rank mostly in sends, as its receives begin late."""
    waits = case.exposed.filter(pl.col("kind") == MPI, waited_for=rank)
    sends = waits.filter(pl.col("operation").str.contains(SENDS))
    return 2 * float(sends["exposed_waiting_ns"].sum()) > float(waits["exposed_waiting_ns"].sum())
