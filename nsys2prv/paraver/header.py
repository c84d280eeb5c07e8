"""The first line of a PRV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


def header(start_ns: int, duration: int, cpus: Sequence[int], threads: Sequence[int], nodes: Sequence[int]) -> str:
    """Write the header of a trace of one application.

    `start_ns`: UTC of the run's beginning (0: unknown); `duration` in ns; `cpus` a node; `threads` and the node
    (1-based) a task. The date is UTC, so that it does not depend on where the trace is written.
    """
    date = datetime.fromtimestamp(start_ns // 1_000_000_000, UTC).strftime("%d/%m/%Y at %H:%M")
    return first_line(date, duration, cpus, tuple(zip(threads, nodes, strict=True)))


def first_line(date: str, duration: int, cpus: Sequence[int], tasks: Sequence[tuple[int, int]]) -> str:
    """Write the first line from a date in its final form and `tasks` as (threads, node)."""
    resources = f"{len(cpus)}({','.join(map(str, cpus))})"
    applications = ",".join(f"{threads}:{node}" for threads, node in tasks)
    return f"#Paraver ({date}):{duration}_ns:{resources}:1:{len(tasks)}({applications}),0\n"
