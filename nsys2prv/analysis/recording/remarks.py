"""Remarks on a run: warnings in its reports, and rows lost or altered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from nsys2prv.analysis.frames import AnalyzedTask
from nsys2prv.model.interning import GPU
from nsys2prv.model.words import few
from nsys2prv.report.diagnostics import by_text, is_routine, is_serial, is_unprocessed, who_says
from nsys2prv.run.defects import EFFECTS
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Summary


def renumbered(plan: Plan, tasks: Sequence[AnalyzedTask]) -> Iterator[str]:
    """Yield a remark on the processes that have no rank in the run but in the analysis, if others have one there."""
    rows, ranks = plan.objects.rows, plan.objects.ranks
    working = {task for task, kind in zip(rows.task.tolist(), rows.kind, strict=True) if kind != GPU}
    given = [
        f"rank {task.rank} is {task.name}"
        for n, (task, rank) in enumerate(zip(tasks, ranks, strict=True), start=1)
        if rank != task.rank and n in working
    ]
    if given and any(rank is not None for rank in ranks):
        yield f"tasks without a rank of their own are numbered behind the others: {few(given)}"


def said_diagnostics(plan: Plan, routine: bool) -> Iterator[str]:
    """Yield the warnings of the reports, each once with its number of reports: the `routine` ones, or the others.

    Errors of nsys when it processed events are left out: they are defects.
    """
    by_report = (
        # The same name may be that of two reports.
        (str(n), [text for text in s.diagnostics if not is_unprocessed(text) and is_routine(text) == routine])
        for n, s in enumerate(plan.summaries)
    )
    for text, reports in by_text(by_report):
        yield f"{who_says(len(reports), len(plan.summaries))}: {text}"


def other_losses(plan: Plan, minor: bool) -> Iterator[str]:
    """Yield by family how many rows were lost or altered, and why: the `minor` losses, or the others; no defects."""
    rows: Counter[tuple[str, str]] = Counter()
    for summary in plan.summaries:
        for family, count in summary.counts.items():
            for lost, n in count.dropped.items():
                if lost.loss not in EFFECTS and lost.loss.minor == minor:
                    rows[family, lost.sentence] += n
    return (f"{family}, {n:,} row{'s' * (n != 1)}: {reason}" for (family, reason), n in rows.items())


def recorded_families(plan: Plan) -> frozenset[str]:
    """Return the families with rows in any report, chosen or not, drawn or not."""
    return frozenset().union(*map(families_in, plan.summaries))


def families_in(summary: Summary) -> frozenset[str]:
    """Return the families with rows in a report, drawn or not."""
    counted = (family for family, count in summary.counts.items() if count.rows or count.dropped)
    return frozenset((*(f for f, rows in summary.off.items() if rows), *summary.uses["family"].unique(), *counted))


def runs_serially(plan: Plan) -> bool:
    """Return True if a profiler of counters ran the kernels of any report one after the other."""
    return any(is_serial(text) for s in plan.summaries for text in s.diagnostics)
