"""The first line of a PRV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


def header(start_ns: int, duration: int, cpus: Sequence[int], threads: Sequence[int], nodes: Sequence[int]) -> str:
    """Header of a trace of one application.

    `start_ns`: UTC of the run's beginning (0: unknown); `duration` in ns; `cpus` a node; `threads` and the node
    (1-based) a task. The date is UTC, so that it does not depend on where the trace is written.
    """
    date = datetime.fromtimestamp(start_ns // 1_000_000_000, UTC).strftime("%d/%m/%Y at %H:%M")
    resources = f"{len(cpus)}({','.join(map(str, cpus))})"
    tasks = ",".join(f"{t}:{n}" for t, n in zip(threads, nodes, strict=True))
    return f"#Paraver ({date}):{duration}_ns:{resources}:1:{len(threads)}({tasks}),0\n"
