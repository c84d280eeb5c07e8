"""Exposed communication, transfer: time that data takes from rank to rank while nothing else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.repeated_passes import saved_by_reducing_once
from nsys2prv.analysis.facts.communication.shared_norms import advice_on_shared_norms, common_norms
from nsys2prv.analysis.facts.communication.single_channel import advice_on_channels
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import ATTAINABLE, BUSY, HIGH, LOW, MOSTLY_UNMATCHED, NAMED
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.interval_frames import at_longest, known_sum
from nsys2prv.model.units import text_ms

# Highest number of operations in a title.
OPERATIONS_NAMED = 3
OVERLAP = Words(
    general="pieces that are sent as soon as they are ready, a stream of their own",
    pytorch="buckets, prefetch, asynchronous messages",
    jax="XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true, other sharding",
)
OVERLAP_OF_MPI = "MPI_Isend, MPI_Irecv"
# Gradients and activations bear fewer digits than they have.
SMALLER = Words(general="", pytorch="BF16 gradients, ", jax="gradients in bfloat16, ")
# Calls that wait for operations of MPI that others started.
ASYNCHRONOUS = r"^MPI_Wait"
ADVICE_PROGRESS = (
    "Most of the time is in {name}: let MPI progress before it (a progress thread, MPI_Test between pieces of work), "
    "or send less (fewer, larger messages)."
)


class _Chief(NamedTuple):
    """The operations of one kind that have most of the exposed transfers. Times (ns) and bytes of the whole window.

    `names`: of the first of them, `table`: operation, transfer_ns and exposed_transfer_ns of each; `most_of_rank_ns`:
    the exposed transfers of the rank that has most, the other sums are of all ranks; `bytes`: None if none are known;
    `known_ns`: transfers of those with known bytes; `at`: begin of the longest one.
    """

    kind: str
    names: str
    table: pl.DataFrame
    transfer_ns: float
    exposed_ns: float
    bytes: float | None
    known_ns: float
    most_of_rank_ns: float
    at: int


def exposed_transfer(case: Case) -> Iterator[Finding]:
    """Yield what transfers cost, by the prediction for an ideal network, or the host that is as slow as they are."""
    if case.exposed.is_empty() or case.unmatched >= MOSTLY_UNMATCHED.value:
        return
    chief = _chief_operations(case.exposed)
    each = 1 / case.exposed["rank"].n_unique() / case.step_count
    exposed, most_of_rank = chief.exposed_ns * each, chief.most_of_rank_ns / case.step_count
    # A replay takes for transfers what it cannot tell from them, such as waiting for ranks that were not chosen. Where
    # all ranks are known, transfers of those that hand on what they received add up.
    gain = min(case.gain("transfer=0"), most_of_rank if case.run.unchosen else chief.exposed_ns / case.step_count)
    # One rank alone has less: what others take is on the critical path, too.
    in_turn = " (those of several ranks come one after another)" if gain > most_of_rank else ""
    if not gain or gain < LOW.value * case.iteration_ns:
        yield from _as_slow_hosts(case, chief.names, exposed, chief.at)
        return
    # What fewer collectives save is a finding of its own.
    fewer = saved_by_reducing_once(case)
    rest = gain - fewer
    if rest < LOW.value * case.iteration_ns:
        return
    progress = _asynchronous(chief.table)
    channels = advice_on_channels(case) if chief.kind == NCCL else ""
    first = f"{channels}{advice_on_shared_norms(case)}"
    advice = ADVICE_PROGRESS.format(name=progress) if progress else f"{first}{_advice(case, chief.kind, exposed)}"
    yield Finding(
        "exposed-transfer",
        f"Transfers ({chief.names}) are not hidden: an ideal network would save {text_ms(rest)} {case.unit}"
        f"{' beyond what fewer collectives save' if fewer else ''}{in_turn}, a real one about half",
        ATTAINABLE.value * rest,
        advice,
        evidence={
            "operation": chief.names,
            "gain_without_transfers_ns": round(gain),
            "transfer_ns": round(chief.transfer_ns * each),
            "exposed_transfer_ns": round(exposed),
            **_size(chief, each),
        },
        command="nsys2prv whatif RUN --set transfer=0",
        cfg="analysis/overlap_of_window" if chief.kind == NCCL else "analysis/host_mpi",
        at_ns=chief.at,
        common=common_norms(case, advice),
    )


def _chief_operations(moved: pl.DataFrame) -> _Chief:
    """Return the operations of one kind with most of the exposed transfers. `moved`: EXPOSED, not empty."""
    by_operation = (
        moved.group_by("kind", "operation")
        .agg(
            pl.col("transfer_ns", "exposed_transfer_ns").sum(),
            at=at_longest("exposed_transfer_ns", "transfers_at"),
        )
        .sort("exposed_transfer_ns", "operation", "kind", descending=[True, False, False])
    )
    kind, at = by_operation.row(0)[0], by_operation.row(0)[-1]
    most = pl.col("exposed_transfer_ns").max()
    named = by_operation.filter(pl.col("kind") == kind, pl.col("exposed_transfer_ns") >= NAMED.value * most)
    of_named = moved.join(named, on=["kind", "operation"], how="semi")
    of_known = pl.col("transfer_ns").filter(pl.col("bytes").is_not_null()).sum().alias("known_ns")
    sums = (pl.col("transfer_ns", "exposed_transfer_ns").sum(), known_sum("bytes"), of_known)
    transfer, exposed, size, known = of_named.select(sums).row(0)
    by_rank = of_named.group_by("rank").agg(pl.sum("exposed_transfer_ns"))
    most_of_rank = float(by_rank["exposed_transfer_ns"].max() or 0)  # type: ignore[arg-type]
    names = ", ".join(named["operation"].head(OPERATIONS_NAMED))
    return _Chief(kind, names, named, transfer, exposed, size, known, most_of_rank, at)


def _size(chief: _Chief, each: float) -> dict[str, float | None]:
    """Return bytes and GB/s as evidence, None of unknown bytes. `each`: the part of a rank and iteration."""
    if chief.bytes is None:
        return {"bytes": None, "gb_s": None}
    rate = chief.bytes / chief.known_ns if chief.known_ns else 0.0
    return {"bytes": round(chief.bytes * each), "gb_s": round(rate, 3)}


def _as_slow_hosts(case: Case, operation: str, exposed: float, at: int) -> Iterator[Finding]:
    """Yield the host that hides what transfers cost: it is busy all the time, and starves devices for less.

    They take longer than devices wait for launches: else hosts cost more, and are findings of their own.
    """
    waits = {device.rank: case.host_waits[device.rank] for device in case.run.devices}
    if not waits or not case.iteration_ns:
        return
    busiest = min(waits, key=lambda rank: (waits[rank], rank))
    busy, idle = 1 - waits[busiest] / case.iteration_ns, case.idle("launching").mean_ns
    if exposed < HIGH.value * case.iteration_ns or busy < BUSY.value or idle >= exposed:
        return
    yield Finding(
        "exposed-transfer",
        f"Transfers ({operation}) are not hidden for {text_ms(exposed)} {case.unit}, but gain nothing alone: rank "
        f"{busiest}'s host is busy for {100 * busy:.0f} % of the time",
        0.0,
        "Give the host less to do first, in launches and between them (see the other findings): then faster or hidden "
        f"transfers gain.{_together(case)}",
        ranks=(busiest,),
        evidence={"operation": operation, "exposed_transfer_ns": round(exposed), "host_busy": round(busy, 3)},
        command="nsys2prv whatif RUN --set transfer=0 --set host=0",
        cfg="analysis/overlap_of_window",
        at_ns=at,
        severity="medium",
    )


def _together(case: Case) -> str:
    """Return what hosts and transfers of no cost gain at once, as a sentence; nothing where that is hardly more."""
    alone, both = case.gain("host=0"), case.gain("transfer=0", "host=0")
    if both - alone < LOW.value * case.iteration_ns:
        return ""
    together, hosts = (f"{100 * gain / case.iteration_ns:.0f} %" for gain in (both, alone))
    return f" Without host work and transfers an iteration would take {together} less, without host work alone {hosts}."


def _asynchronous(named: pl.DataFrame) -> str:
    """Return the waits of asynchronous MPI that have most of the exposed transfers; an empty text if these have less.

    `named`: operation and exposed_transfer_ns, the longest first.
    """
    own, half = named.filter(pl.col("operation").str.contains(ASYNCHRONOUS)), named["exposed_transfer_ns"].sum() / 2
    together = own["exposed_transfer_ns"].cum_sum()
    if not (together > half).any():
        return ""
    return " and ".join(own["operation"][: int((together <= half).sum()) + 1])


def _computing(case: Case) -> float | None:
    """Return how long the devices compute (ns of an iteration, the mean): transfers can be hidden behind no more.

    None without devices: the time in which hosts compute is not recorded.
    """
    return sum(case.useful) / len(case.useful) if case.useful else None


def _advice(case: Case, kind: str, exposed: float) -> str:
    """Return what to do about transfers of one kind, NCCL or MPI, that are exposed for a time (ns of an iteration)."""
    of_nccl, computing = kind == NCCL, _computing(case)
    overlap = f"overlap transfers with compute ({OVERLAP.of(case.framework) if of_nccl else OVERLAP_OF_MPI})"
    less = f"send less ({SMALLER.of(case.framework) if of_nccl else ''}fewer and larger messages)"
    names = "NCCL_DEBUG=INFO names the transport" if of_nccl else "which transport does MPI use?"
    network = f"see why the network is slow ({names})"
    if computing is None or exposed <= computing:
        return f"{overlap[0].upper()}{overlap[1:]}, {less}, or {network}."
    little = f"beside {text_ms(computing)} of compute, overlap can hide little of {text_ms(exposed)}"
    return f"{less[0].upper()}{less[1:]}, or {network}; {little}."
