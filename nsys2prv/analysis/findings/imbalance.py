"""Imbalance: a rank computes longer than the others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.latecomers import Latecomer, awaited_ranks, late_ranks, shared_compute
from nsys2prv.analysis.findings.thresholds import LATE, MEDIUM

ADVICE = (
    "More launches or larger grids are unequal shares; the same kernels taking longer are a slower GPU (clocks, power, "
    "other processes)."
)


def imbalance(case: Case) -> Iterator[Finding]:
    """Yield the rank that is waited for the longest because it computes longer."""
    worst, gain = uneven_rank(case), case.gain("imbalance=0")
    if worst is None:
        return
    ranks = case.found.ranks
    slow = ranks.slow.get(worst.member, 0) if ranks else 0
    compared = case.found.iterations.filter("steady", rank=worst.member).height
    often = f" (the slowest in {slow} of {compared} iterations)" if slow else ""
    yield Finding(
        "imbalance",
        f"{_name(case, worst.member)} computes {text_ms(worst.excess_ns)} longer than the mean{often}, and others wait",
        max(gain, min(worst.excess_ns, worst.net_ns)),
        f"Share the work evenly: compare its kernels with another's. {ADVICE}",
        ranks=(worst.member,),
        iterations=case.iterations,
        evidence={
            "longer_than_mean_ns": round(worst.excess_ns),
            "exposed_waiting_ns": round(max(worst.net_ns, 0.0)),
            "waiting_ranks": list(worst.waiting),
            "load_balance": round(case.found.efficiency.load_balance, 4),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="high" if slow or not case.found.window.iterations else "medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="analysis/useful_time",
        at_ns=worst.at,
    )


def uneven_rank(case: Case) -> Latecomer | None:
    """Return the rank that others wait for the longest because it computes longer, or None.

    Where equal shares gain something, it may wait for longer than others wait for it, as when it writes a file now and
    then.
    """
    late = [one for one in late_ranks(case) if one.by_compute]
    if late or case.gain("imbalance=0") < MEDIUM.value * case.iteration_ns:
        return next(iter(late), None)
    longer = [one for one in awaited_ranks(case) if min(one.excess_ns, one.longer_ns) >= LATE.value * case.iteration_ns]
    return min(longer, key=lambda one: (-one.excess_ns, one.member), default=None)


def _name(case: Case, rank: int) -> str:
    """Return the words for a rank, with the GPU that computes longest if it shares its work over several."""
    own = shared_compute(case).get(rank, {})
    if len(own) < 2:
        return f"Rank {rank}"
    longest = max(own, key=lambda number: (own[number], -number))
    return f"GPU {case.run.devices[longest].gpu} of rank {rank}"
