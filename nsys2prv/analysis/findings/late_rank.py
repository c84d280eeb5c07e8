"""A late rank: others wait for it, and its kernels are not the reason; or it was late in single iterations.

The module `late_ranks` handles ranks that are late together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from nsys2prv.analysis.communication.delays import KERNELS
from nsys2prv.analysis.facts.case import Case, usual
from nsys2prv.analysis.facts.chief_cause import ChiefCause, chief_cause, delay_of, host_work, interpreter_lock
from nsys2prv.analysis.facts.code_loading import advice_on_compiling
from nsys2prv.analysis.facts.few_iterations import waiting_in_few
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.functions_of_hosts import Seen, seen_functions
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.garbage import advice_on_garbage
from nsys2prv.analysis.facts.host_compute import advice_on_trips
from nsys2prv.analysis.facts.late_groups import find_group
from nsys2prv.analysis.facts.latecomers import Latecomer, gains_less, latecomer_ranks
from nsys2prv.analysis.facts.longer_call import longer_call
from nsys2prv.analysis.facts.many_operations import advice_on_operations
from nsys2prv.analysis.facts.pageable_copies import advice_on_pageable
from nsys2prv.analysis.facts.recurring_cause import RecurringCause, recurring_causes
from nsys2prv.analysis.facts.shares_of_launches import advice_on_launches
from nsys2prv.analysis.facts.single_delays import advice_on_single_delay
from nsys2prv.analysis.facts.stray_work import advice_on_peer_copies
from nsys2prv.analysis.facts.system_calls import advice_on_call
from nsys2prv.analysis.facts.thresholds import GAINED, MEDIUM, PREDICTED
from nsys2prv.analysis.facts.uneven_ranks import uneven_host
from nsys2prv.analysis.facts.waits_of_hosts import COPY_BESIDE, advice_on_waits
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import MPI, OF_DEVICE
from nsys2prv.analysis.graph.critical_path import COPYING, HOST, TRANSFER
from nsys2prv.analysis.graph.host_labels import LAUNCHING, call_of
from nsys2prv.intervals.spans import union
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short

# Operations between two ranks.
MESSAGES = r"(?i)send|recv|MPI_(wait|test|m?probe)"

# Messages of NCCL.
RECEIVE_EARLY, SEND_ASIDE = (
    Words("irecv", jax="lax.ppermute", cuda="ncclRecv"),
    Words("isend", jax="lax.ppermute", cuda="ncclSend"),
)


def late_rank(case: Case) -> Iterator[Finding]:
    """Yield findings of three kinds: a rank that is late all along, one with a recurring cause, one late at times.

    The first is the latest of the ranks for which the same others wait, unless longer compute explains it. The last are
    ranks of neither kind with delays in single iterations.
    """
    group = find_group(case)
    together = group.members if group else ()
    late = _apart([one for one in latecomer_ranks(case) if not one.by_compute and one.member not in together])
    uneven = uneven_host(case)
    yield from (_lasting(case, one) for one in late if uneven is None or one.member != uneven.member)
    recurring = recurring_causes(case)
    yield from (_recurring(case, one, sum(each.ns for each in recurring)) for one in recurring)
    lasting = {*together, *(one.member for one in late), *(one.rank for one in recurring)}
    delays = case.held(case.analysis.delays).filter(~pl.col("rank").is_in(lasting), pl.col("phase") != KERNELS)
    total = int(delays["delay_ns"].sum())
    for (rank,), own in delays.group_by("rank", maintain_order=True):
        yield _delayed(case, int(str(rank)), own, total)


def _apart(late: Sequence[Latecomer]) -> list[Latecomer]:
    """Return the latest rank of each group.

    Ranks that share a waiting rank with one that is even later are left out: they may only pass on its lateness.
    """
    found: list[Latecomer] = []
    known: set[int] = set()
    for one in late:
        if known.isdisjoint(own := {one.member, *one.waiting}):
            found.append(one)
        known |= own
    return found


def _lasting(case: Case, late: Latecomer) -> Finding:
    cause = _longer_call(case, late, chief_cause(case, late.member))
    # It costs no more than others wait for it.
    delay = delay_of(case, late)
    gain = case.gain("delay=0")
    # A replay knows no delay of which it has no usual time. Where it explains less, slack says what can be gained.
    predicted = gain >= GAINED.value * delay
    cost = min(gain if predicted else case.slack(late.waiting), delay)
    device = [n for n, one in enumerate(case.run.devices) if one.rank == late.member]
    seen, in_few = _seen(case, late.member, cause), waiting_in_few(case, late.waiting, delay)
    starved = case.starved.filter(pl.col("device").is_in(device)).select(
        usual(pl.sum_horizontal("load", "system", "synchronized", "launching"))
    )
    idle = starved.item() or 0
    return Finding(
        "late-rank",
        _title(case, late, cause, delay, cost, in_few),
        cost,
        _advice(case, late.member, cause, seen, delay, cost, in_few),
        ranks=(late.member,),
        iterations=case.iterations,
        evidence={
            "cause": (cause.name or cause.kind) if cause else None,
            "in_iterations": cause.iterations if cause else None,
            "waiting_ranks": list(late.waiting),
            "exposed_waiting_ns": round(delay),
            "gain_without_delays_ns": round(gain),
            "waiting_hosts_wait_ns": round(case.slack(late.waiting)),
            "its_device_starved_ns": round(idle),
            **seen.evidence,
        },
        confidence="high" if predicted else "medium",
        command="nsys2prv whatif RUN --set delay=0" if predicted else "nsys2prv analyze RUN --show waiting,causes",
        cfg="views/collective_arrival",
        at_ns=late.at,
    )


def _longer_call(case: Case, late: Latecomer, cause: ChiefCause | None) -> ChiefCause | None:
    """Return the call of the system in which this rank is longer than others by half of its delay; else the cause.

    Host work takes the name of a call only where that fills half of it, so that such a call may be no cause by name.
    """
    if cause and not (cause.kind == HOST and cause.name.startswith(LAUNCHING)):
        return cause
    call = longer_call(case, late.member)
    if call is None or 2 * call.ns < late.net_ns:
        return cause
    return ChiefCause(HOST, call.name, call.ns, 0, 0, min(call.ns / late.net_ns, 1.0))


def _recurring(case: Case, late: RecurringCause, total: float) -> Finding:
    """Return the finding of a recurring cause. `total`: what all recurring causes cost (ns of an iteration).

    It gains its part of `total` in what the run gains without any delays.
    """
    gain = case.gain("delay=0") * late.ns / total
    predicted = gain >= GAINED.value * late.ns
    cost = min(gain if predicted else case.slack(late.waiting), late.ns)
    what = f"Rank {late.rank}'s {host_work(late.name)}"
    cause = ChiefCause(HOST, late.name, late.ns, late.iterations, late.of_iterations, 1.0)
    seen, in_few = _seen(case, late.rank, cause), waiting_in_few(case, late.waiting, late.ns)
    return Finding(
        "late-rank",
        f"{what} delays {_whom(late.waiting)} by {_how_long(case, cause, late.ns, cost, in_few)}",
        cost,
        _advice(case, late.rank, cause, seen, late.ns, cost, in_few),
        ranks=(late.rank,),
        iterations=case.iterations,
        evidence={
            "cause": late.name,
            "in_iterations": late.iterations,
            "waiting_ranks": list(late.waiting),
            "exposed_waiting_ns": round(late.ns),
            "gain_without_delays_ns": round(gain),
            **seen.evidence,
        },
        confidence="medium",
        command="nsys2prv whatif RUN --set delay=0" if predicted else "nsys2prv analyze RUN --show waiting,causes",
        cfg="views/collective_arrival",
        at_ns=late.at,
    )


def _seen(case: Case, rank: int, cause: ChiefCause | None) -> Seen:
    """Return what samples say of the host of a late rank; nothing where its host is not the cause."""
    if cause and cause.kind in (TRANSFER, COPYING):
        return Seen()
    return seen_functions(case, kept_time(case.analysis), rank, waiting=bool(_system_call(case, rank, cause)))


def _advice(
    case: Case, rank: int, cause: ChiefCause | None, seen: Seen, delay_ns: float, cost_ns: float, in_few: str
) -> str:
    """Return what to do about a late rank.

    `seen`: what samples say of its host; `delay_ns`: how long others wait for it, and `cost_ns` what the run would gain
    (ns of an iteration); `in_few`: words on the few iterations in which they wait (see few_iterations).
    """
    of_mpi = (case.exposed["kind"] == MPI).any()
    if cause and cause.kind == TRANSFER and not _in_messages(case, rank):
        return (
            f"See the collectives of rank {rank} before (analyze RUN --show communication): send less in them, overlap "
            "them with compute, or see why the network between their ranks is slow."
        )
    if cause and cause.kind == TRANSFER:
        receive, send = (
            ("MPI_Irecv", "MPI_Isend") if of_mpi else (w.of(case.framework) for w in (RECEIVE_EARLY, SEND_ASIDE))
        )
        return (
            f"See the messages to and from rank {rank}. Where its partners receive late, receive earlier ({receive} "
            f"before the work); else send less, earlier, or without waiting ({send})."
        )
    if computes := advice_on_trips(case, rank, delay_ns, seen):
        return computes
    if of_copies := advice_on_pageable(case, rank, cause) or advice_on_peer_copies(case, rank, cause):
        return of_copies
    if cause and cause.kind == COPYING and cause.name == OF_DEVICE:
        # Such copies grow with the work of a rank.
        return (
            f"See why rank {rank} copies more on its device than others: a larger share of the work copies more. Let "
            "kernels write where the result is needed (out=, buffers that are swapped) rather than copy it."
        )
    if cause and cause.kind == COPYING:
        return (
            f"See what rank {rank} copies, and others do not: a checkpoint, metrics, data. "
            f"{COPY_BESIDE.of(case.framework)}"
        )
    enters = " or enters MPI" if of_mpi else ""
    before, memory = (f"it launches{enters}", " and memory of its GPU") if case.run.devices else ("it enters MPI", "")
    causes = f"data, Python, other processes on its cores, binding to cores{memory}, more profiling than on other ranks"
    posted = " Receives posted before that work (MPI_Irecv) hold up no sender." if _holds_up_sends(case, rank) else ""
    return (
        interpreter_lock(case, (rank,), cause.name if cause else "")
        or advice_on_waits(case, rank)
        or advice_on_operations(case, rank)
        or advice_on_launches(case, rank)
        or _own_call(case, rank, cause, seen)
        or f"{_if_all_are_slow(case, delay_ns, cost_ns)} what the host of rank {rank} does before {before}: "
        f"{seen.text or causes}"
        f"{advice_on_compiling(case, seen) or advice_on_garbage(case, seen, in_few)}.{posted}"
    )


def _if_all_are_slow(case: Case, delay_ns: float, cost_ns: float) -> str:
    """Return the begin of a sentence on what a host does, after one that says if hosts of other ranks are slow, too."""
    starved = case.idle("launching").mean_ns >= MEDIUM.value * case.iteration_ns
    slow = "Hosts of other ranks have little time to spare, too: launching less helps every rank. Then see"
    return slow if starved and gains_less(cost_ns, delay_ns) else "See"


def _in_messages(case: Case, rank: int) -> bool:
    """Return True if a rank takes most of its time in transfers for messages, not for collectives."""
    own, of_messages = case.exposed.filter(rank=rank), pl.col("operation").str.contains(MESSAGES)
    return 2 * float(own.filter(of_messages)["transfer_ns"].sum()) > float(own["transfer_ns"].sum())


def _own_call(case: Case, rank: int, cause: ChiefCause | None, seen: Seen) -> str:
    """Return what to do about a host that is late as it is in a call of the system; else an empty text."""
    call = _system_call(case, rank, cause)
    return advice_on_call(case, call, seen, rank) if call else ""


def _system_call(case: Case, rank: int, cause: ChiefCause | None) -> str:
    """Return the call of the system that makes a host late; else an empty text."""
    call, task = call_of(cause.name) if cause else "", case.run.task_by_rank[rank]
    named = (pl.col("kind") == "os") & (pl.col("name") == call) & (pl.col("task") == task)
    return "" if case.run.calls.filter(named).is_empty() else call


def _holds_up_sends(case: Case, rank: int) -> bool:
    """Return True if others wait for a rank mostly in sends, as its receives begin late."""
    waits = case.exposed.filter(pl.col("kind") == MPI, waited_for=rank)
    sends = waits.filter(pl.col("operation").str.contains(r"(?i)^MPI_[sr]?send$"))
    return 2 * float(sends["exposed_waiting_ns"].sum()) > float(waits["exposed_waiting_ns"].sum())


def _title(case: Case, late: Latecomer, cause: ChiefCause | None, delay: float, cost: float, in_few: str) -> str:
    """Return who delays whom, by how much and in how many iterations; and what can be gained, if that is less.

    `in_few`: words on the few iterations with nearly all of the delay.
    """
    what = f"The host of rank {late.member} delays"
    if cause and cause.kind == TRANSFER:
        held_in = "Messages" if _in_messages(case, late.member) else "Collectives"
        what = f"{held_in} hold up rank {late.member}, which delays"
    elif cause and cause.kind == COPYING:
        what = f"Rank {late.member}'s copies (`{cause.name}`) delay"
    elif cause and cause.scattered:
        what = f"Rank {late.member}'s host, slow at many places, delays"
    elif cause:
        what = f"Rank {late.member}'s {host_work(cause.name)} delays"
    return f"{what} {_whom(late.waiting)} by {_how_long(case, cause, delay, cost, in_few)}"


def _whom(waiting: Sequence[int]) -> str:
    return f"{len(waiting)} ranks" if len(waiting) > 1 else f"rank {waiting[0]}"


def _how_long(case: Case, cause: ChiefCause | None, delay: float, cost: float, in_few: str) -> str:
    often = f" on average{in_few}" if in_few else ""
    if not in_few and cause and cause.iterations and not cause.scattered:
        # Programs may exchange results every few iterations only.
        waiting = " in which ranks wait" if 2 * cause.of_iterations < case.step_count else ""
        average = " on average" if cause.iterations < case.step_count else ""
        often = f"{average}, in {cause.iterations} of {cause.of_iterations} iterations{waiting}"
    return f"{text_ms(delay)} {case.unit}{often}{gains_less(cost, delay)}"


def _delayed(case: Case, rank: int, own: pl.DataFrame, total: int) -> Finding:
    """Return the finding of a rank's delays in single iterations, `own` (DELAY). `total`: of all such ranks (ns).

    Without them the run gains their part of `total` in what it gains without any delays.
    """
    lost = int(own["delay_ns"].sum())
    gain = min(case.gain("delay=0") * lost / total, lost / case.step_count)
    columns = ("delay_ns", "repeat", "iteration", "phase")
    longest, repeat, iteration, phase = own.select(columns).sort(columns).row(-1)
    more = f" and {own.height - 1} more" if own.height > 1 else ""
    hidden = gain < PREDICTED.value * lost / case.step_count
    effect = "removing this delay would not make the run faster" if hidden else f"{text_ms(gain)} {case.unit}"
    steps = case.analysis.iterations.filter(rank=rank).join(own, on=["repeat", "iteration"], how="semi")
    spans = union(steps["start_ns"].to_numpy(), (steps["start_ns"] + steps["total_ns"]).to_numpy())
    seen = Seen() if hidden else seen_functions(case, spans, rank)
    step = steps.filter(iteration=iteration, repeat=repeat)
    return Finding(
        "late-rank",
        f"Rank {rank} is {text_ms(longest)} late in `{short(phase, 40)}` of iteration {iteration}{more}: {effect}",
        gain,
        "Nothing to gain here: others do not wait for it longer than for other things."
        if hidden
        else advice_on_single_delay(case, rank, spans, longest, seen),
        ranks=(rank,),
        iterations=tuple(own["iteration"].unique().sort().to_list()),
        evidence={"delay_ns": lost, "phase": phase, "delays": own.height, **seen.evidence},
        command="nsys2prv whatif RUN --set delay=0",
        cfg="analysis/host_states",
        at_ns=None if step.is_empty() else int(step["start_ns"][0]),
        # A single delay may cost little on average, and is reported all the same.
        severity="low" if hidden or gain < MEDIUM.value * case.iteration_ns else None,
    )
