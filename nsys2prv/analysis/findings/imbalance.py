"""Imbalance: a rank computes longer than the others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.devices.time_slices import time_slices
from nsys2prv.analysis.facts.ranks.latecomers import Latecomer
from nsys2prv.analysis.facts.ranks.longer_kernels import advice_on_longer
from nsys2prv.analysis.facts.ranks.shares_of_launches import SHARED
from nsys2prv.analysis.facts.ranks.uneven_ranks import (
    cost_of_shares,
    excess_by_step,
    mean_worked,
    seldom_longer,
    uneven_host,
    uneven_rank,
    worked,
)
from nsys2prv.analysis.facts.thresholds import LOW, PAUSED
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.sentences import counted
from nsys2prv.model.units import text_ms

# Why the replay predicts less than equal shares gain.
KEEPS_LAUNCHES = "it keeps all launches, while what a rank launches no more saves its host that time, too."


def imbalance(case: Case) -> Iterator[Finding]:
    """Yield the rank that is waited for the longest because it computes longer.

    Where kernels pause for a process that is not of the run, that is a finding of its own, if it explains most of this.
    """
    if (host := uneven_host(case)) is not None:
        yield _of_hosts(case, host)
        return
    worst, gain = uneven_rank(case), case.gain("imbalance=0")
    if worst is None:
        return
    sliced = time_slices(case)
    if sliced and {*sliced.ranks} == {worst.member} and sliced.lost_ns >= PAUSED.value * worst.longer_ns:
        return
    by_step = excess_by_step(case, worst.member)
    longest, compared = by_step["longest"].sum(), by_step.height
    often = f" (the longest in {longest} of {compared} iterations)" if longest else ""
    longer = f"{text_ms(worst.excess_ns)} longer than the mean{case.in_window}{often}"
    then = seldom_longer(case, worst.member)
    if then.height:
        each = text_ms(float(then["excess"].mean()))  # type: ignore[arg-type]
        which = counted(then.select("iteration", "repeat").rows())
        longer = f"{each} longer than the mean in {which} ({then.height} of {compared})"
    cost = cost_of_shares(case, worst)
    advice = f"{SHARED} Where it launches the same, its input is longer then." if then.height else _advice(case, worst)
    predicted = ""
    if text_ms(gain) != text_ms(cost) and gain < cost:
        of_it = "next to nothing" if gain < LOW.value * case.iteration_ns else f"{text_ms(gain)} of it"
        predicted = f" `nsys2prv whatif RUN --set imbalance=0` predicts {of_it}: {KEEPS_LAUNCHES}"
    yield Finding(
        "imbalance",
        f"{_name(case, worst.member)} computes {longer}, and others wait",
        cost,
        f"{advice}{predicted}",
        ranks=(worst.member,),
        iterations=tuple(sorted(set(then["iteration"]))) or case.iterations,
        evidence={
            "longer_than_mean_ns": round(worst.excess_ns),
            "exposed_waiting_ns": round(max(worst.net_ns, 0.0)),
            "waiting_ranks": list(worst.waiting),
            "load_balance": round(case.analysis.efficiency.load_balance, 4),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="high" if then.height or 2 * longest > compared or not case.analysis.window.iterations else "medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="analysis/useful_time",
        at_ns=worst.at,
        spare=(predicted,) if predicted else (),
    )


def _of_hosts(case: Case, late: Latecomer) -> Finding:
    """Return the finding of a rank whose host works longer than others."""
    own, mean, gain = worked(case)[late.member], mean_worked(case), case.gain("imbalance=0")
    return Finding(
        "imbalance",
        f"Rank {late.member} works {text_ms(own)} {case.unit} outside of MPI, {text_ms(own - mean)} longer than the "
        "mean, and others wait",
        min(gain, own - mean),
        f"Share the work evenly. If the shares are equal, see what slows the host of rank {late.member}: other "
        "processes on its cores, binding to cores, more profiling than on other ranks.",
        ranks=(late.member,),
        iterations=case.iterations,
        evidence={
            "worked_ns": round(own),
            "mean_worked_ns": round(mean),
            "exposed_waiting_ns": round(late.net_ns),
            "waiting_ranks": list(late.waiting),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="views/collective_arrival",
        at_ns=late.at,
    )


def _name(case: Case, rank: int) -> str:
    """Return the words for a rank, with the GPU that computes longest if it shares its work over several."""
    several = len(shared_compute(case).get(rank, ())) > 1
    return f"GPU {case.run.devices[_longest(case, rank)].gpu} of rank {rank}" if several else f"Rank {rank}"


def _advice(case: Case, worst: Latecomer) -> str:
    """Return advice on a rank by the kernels in which its GPU computes longer than those of other ranks."""
    others = [device for rank, own in shared_compute(case).items() if rank != worst.member for device in own]
    return advice_on_longer(case, _longest(case, worst.member), others, worst.longer_ns)


def _longest(case: Case, rank: int) -> int:
    """Return the device on which a rank computes longest."""
    own = shared_compute(case)[rank]
    return max(own, key=lambda number: (own[number], -number))
