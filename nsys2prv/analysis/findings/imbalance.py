"""Imbalance: a rank computes longer than the others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.lateness import late_ranks


def imbalance(case: Case) -> Iterator[Finding]:
    """Yield the rank that is waited for the longest because it computes longer."""
    late = [one for one in late_ranks(case) if one.by_compute]
    if not late:
        return
    worst, gain = late[0], case.gain("imbalance=0")
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
            "exposed_waiting_ns": round(worst.net_ns),
            "waiting_ranks": list(worst.waiting),
            "load_balance": round(case.found.efficiency.load_balance, 4),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="high" if slow or not case.found.window.iterations else "medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="analysis/useful_time",
        at_ns=worst.at,
    )
