"""Findings whose gains overlap: together they are more than a run could save."""

from __future__ import annotations

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.thresholds import LOW

# Findings whose gain is, or may be, a part of the time in which devices compute. Each other one is listed in the tests.
SHORTEN_COMPUTE = frozenset(
    {
        "contention",
        "conversions",
        "gathers",
        "long-iterations",
        "matrix-products",
        "migrations",
        "recomputed-activations",
        "shared-gpu",
        "slow-gpu",
        "small-grids",
        "stray-kernels",
        "timed-kernels",
        "unaligned-products",
        "unfused-attention",
        "unfused-elementwise",
        "varying-kernels",
    }
)


def overlapping_gains(analysis: Analysis) -> str:
    """Return a sentence where the gains of findings cannot all be had, empty where they could.

    All together are more than an iteration, or those that shorten no compute are clearly more than the rest of it.
    """
    gains = [(one.id, one.share) for one in analysis.findings if one.gains and one.cost_ns]
    every = sum(share for _, share in gains)
    others = [share for name, share in gains if name not in SHORTEN_COMPUTE]
    if len(gains) > 1 and every > 1:
        return f"They overlap: together {100 * every:.0f} %. Once one is fixed, the others gain less."
    rest = 1 - analysis.headline_efficiency.parallel
    if analysis.efficiency.measured and len(others) > 1 and sum(others) > rest + LOW.value:
        return "Some of them overlap: once one is fixed, the others gain less."
    return ""
