"""Names of the sections that `analyze --show` prints, and their choice."""

from __future__ import annotations

from nsys2prv.errors import UsageError
from nsys2prv.model.words import did_you_mean

ALL_SECTIONS = "all"
# In the order of the text. Names are those of JSON with - for _, with three exceptions: JSON has no `nvtx` (it has
# `ranges`, by operation), `roofline` is inside `ncu`, and `queues` inside `launches`.
SECTIONS = (
    "findings",
    "window",
    "defects",
    "efficiency",
    "devices",
    "host",
    "overlap",
    "communication",
    "waiting",
    "causes",
    "critical-path",
    "idle-causes",
    "what-if",
    "contention",
    "pipeline",
    "metrics",
    "iterations",
    "classes",
    "kernels",
    "ncu",
    "roofline",
    "memory",
    "memory-kinds",
    "launches",
    "queues",
    "nccl-bandwidths",
    "api",
    "ranges",
    "nvtx",
    "idle",
    "host-samples",
    "warnings",
    "missing",
)


def sections_named(text: str) -> frozenset[str]:
    """Return the sections that a text `NAME,...|all` names, with - or _. Raises UsageError for an unknown name."""
    names = [name.strip().replace("_", "-") for name in text.lower().split(",") if name.strip()]
    for name in names:
        if name not in (*SECTIONS, ALL_SECTIONS):
            near = did_you_mean(name, (*SECTIONS, ALL_SECTIONS))
            raise UsageError(
                f"--show {name}: no such section{near}; there are {', '.join(SECTIONS)}, and {ALL_SECTIONS}"
            )
    if not names:
        raise UsageError(f"--show: names no section; there are {', '.join(SECTIONS)}, and {ALL_SECTIONS}")
    return frozenset(SECTIONS if ALL_SECTIONS in names else names)
