"""The tasks of a run: its processes, each with its rank and host, and the ranks that were not chosen."""

from __future__ import annotations

from nsys2prv.analysis.frames import AnalyzedTask
from nsys2prv.model.interning import STREAM
from nsys2prv.run.plan import Plan
from nsys2prv.run.ranks import numbers_of_tasks, tasks_of_ranks


def tasks_of_run(plan: Plan) -> tuple[AnalyzedTask, ...]:
    """Return the tasks of a run, in order of their numbers."""
    objects, with_rank = plan.objects, _tasks_with_rank(plan)
    named = zip(numbers_of_tasks(objects.ranks), objects.tasks, objects.task_node, strict=True)
    return tuple(
        AnalyzedTask(rank, name, objects.nodes[node - 1], n in with_rank) for n, (rank, name, node) in enumerate(named)
    )


def unchosen_ranks(plan: Plan) -> tuple[int, ...]:
    """Return the ranks that the reports hold, and that were not chosen."""
    if not any(left_out.any() for left_out in plan.objects.unchosen):
        return ()
    return tuple(sorted(plan.objects.known.difference(plan.objects.ranks)))


def _tasks_with_rank(plan: Plan) -> set[int]:
    """Return the numbers of the tasks that are ranks, not helper processes."""
    rows = plan.objects.rows
    working = {task - 1 for task, kind in zip(rows.task.tolist(), rows.kind, strict=True) if kind == STREAM}
    return tasks_of_ranks(plan.objects.ranks, working)
