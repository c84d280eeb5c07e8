"""Threads without a row in the trace. Their OS calls still count in the sums by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from nsys2prv.run.places import PROFILER_THREAD
from nsys2prv.run.plan import Plan
from nsys2prv.run.trace_rows import NO_ROW


def undrawn_tasks(plan: Plan, r: int) -> npt.NDArray[np.int64]:
    """Return the task of each place of a report that has no row, of a process with rows; NO_ROW for others."""
    places, rows = plan.summaries[r].places, plan.objects.row_of[r]
    names = plan.summaries[r].identity.thread_names
    task_of = tasks_of_processes(plan, r)
    found = np.full(len(rows), NO_ROW, dtype=np.int64)
    for n, (process, thread) in enumerate(places.select("process", "thread").rows()):
        name = names.get((process or 0) + (thread or 0), "")
        if rows[n] == NO_ROW and not re.search(PROFILER_THREAD, name):
            found[n] = task_of.get(process, NO_ROW)
    return found


def tasks_of_processes(plan: Plan, r: int) -> Mapping[int | None, int]:
    """Return the task of each process (globalPid) of a report that has a row."""
    task_of: dict[int | None, int] = {}
    for process, row in zip(plan.summaries[r].places["process"], plan.objects.row_of[r].tolist(), strict=True):
        if row != NO_ROW and process is not None:
            task_of.setdefault(process, int(plan.objects.rows.task[row]) - 1)
    return task_of
