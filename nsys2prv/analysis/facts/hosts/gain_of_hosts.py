"""Limit of the cost of hosts, which an estimate passes where other ranks, kernels or transfers hold up the run next."""

from __future__ import annotations

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import PREDICTED


def limit_of_hosts(case: Case, cost_ns: float) -> float | None:
    """Return what no launches or no host work gain (ns of an iteration), if less than a cost of hosts; else None.

    The larger gain counts. None, too, of a single GPU, which waits for no other, and where these gains are less than
    PREDICTED of the cost: then the replay does not know what holds up the devices.
    """
    limit = max(case.gain("launch=0"), case.gain("host=0"))
    if len(case.run.devices) == 1 or not PREDICTED.value * cost_ns <= limit < cost_ns:
        return None
    return limit
