"""Findings whose gains overlap: together they are more than a run could save."""

from __future__ import annotations

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.held_iterations import held_iterations, predicted_gain
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


# Findings whose gain is that of faster hosts, or a part of it.
OF_HOSTS = frozenset({"host-bound", "launch-bound", "late-rank", "late-ranks"})


def overlapping_gains(analysis: Analysis) -> str:
    """Return a sentence where the gains of findings cannot all be had, empty where they could.

    All together are more than an iteration, those that shorten no compute are clearly more than the rest of it, or
    those of hosts more than a replay without host work gains.
    """
    gains = [(one.id, one.share) for one in analysis.findings if one.gains and one.cost_ns]
    every = sum(share for _, share in gains)
    others = [share for name, share in gains if name not in SHORTEN_COMPUTE]
    if len(gains) > 1 and every > 1:
        return f"They overlap: together {100 * every:.0f} %. Once one is fixed, the others gain less."
    rest = 1 - analysis.headline_efficiency.parallel
    more = analysis.efficiency.measured and len(others) > 1 and sum(others) > rest + LOW.value
    if more or _more_than_hosts_gain(analysis):
        return "Some of them overlap: once one is fixed, the others gain less."
    return ""


def _more_than_hosts_gain(analysis: Analysis) -> bool:
    """Return True if several findings of hosts cost more than no launches or no host work gain by a replay."""
    costs = [one.cost_ns for one in analysis.findings if one.gains and one.cost_ns and one.id in OF_HOSTS]
    if len(costs) < 2:
        return False
    held = held_iterations(analysis)
    limit = max(predicted_gain(analysis, (change,), held) for change in ("launch=0", "host=0"))
    return sum(costs) > limit > 0
