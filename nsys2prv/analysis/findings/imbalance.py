"""Imbalance: a rank computes longer than the others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.lateness import LateRank, awaited_ranks, late_ranks
from nsys2prv.analysis.findings.thresholds import LATE, MEDIUM


def imbalance(case: Case) -> Iterator[Finding]:
    """Yield the rank that is waited for the longest because it computes longer."""
    gain = case.gain("imbalance=0")
    late = [one for one in late_ranks(case) if one.by_compute] or _hidden(case, gain)
    if not late:
        return
    worst = late[0]
    ranks = case.found.ranks
    slow = ranks.slow.get(worst.rank, 0) if ranks else 0
    compared = case.found.iterations.filter("steady", rank=worst.rank).height
    often = f" (the slowest in {slow} of {compared} iterations)" if slow else ""
    yield Finding(
        "imbalance",
        f"Rank {worst.rank} computes {text_ms(worst.excess_ns)} longer than the mean{often}, and others wait",
        max(gain, min(worst.excess_ns, worst.net_ns)),
        "Share the work evenly: compare the kernels of that rank with another's. More launches or larger grids are "
        "unequal shares; the same kernels taking longer are a slower GPU (clocks, power, other processes).",
        ranks=(worst.rank,),
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


def _hidden(case: Case, gain: float) -> list[LateRank]:
    """Return the ranks that compute longer, the longest first, if equal shares gain something (ns of an iteration).

    They may wait for longer than others wait for them, as when one rank writes a file now and then.
    """
    if gain < MEDIUM.value * case.iteration_ns:
        return []
    longer = [one for one in awaited_ranks(case) if min(one.excess_ns, one.longer_ns) >= LATE.value * case.iteration_ns]
    return sorted(longer, key=lambda one: (-one.excess_ns, one.rank))
