"""Numbers of collectives of two runs: with larger buckets there are fewer of them, and each is longer."""

from __future__ import annotations

from nsys2prv.analysis.compare.run_figures import RunFigures
from nsys2prv.analysis.compare.size_of_work import LEAST_DIFFERENCE
from nsys2prv.analysis.compare.work_of_iterations import LaunchedWork
from nsys2prv.model.units import bytes_text

# Numbers in an iteration differ by so many operations or more: the mean of rarer ones goes by how many iterations ran.
LEAST_OPERATIONS = 0.5
# Operations whose numbers are told, the most changed first.
MOST_TOLD = 3
# A graph that is recorded as a whole hides its collectives.
HIDES = "whole-graphs"
NO_WORK = LaunchedWork(0, 0)


def of_other_counts(a: RunFigures, b: RunFigures) -> str:
    """Return how many NCCL operations an iteration of b has instead of those in a, as a sentence; nothing if as many.

    Nothing of runs whose operations are not known: stored ones, and those with graphs that are recorded as a whole.
    """
    if not (a.work and b.work) or any(one.id == HIDES for run in (a, b) for one in run.findings):
        return ""
    names = sorted({*a.collectives, *b.collectives})
    pairs = [(name, a.collectives.get(name, NO_WORK), b.collectives.get(name, NO_WORK)) for name in names]
    changed = sorted(
        (one for one in pairs if _differ(*one[1:])), key=lambda one: -abs(one[1].launches - one[2].launches)
    )
    told = [_changed(*one) for one in changed[:MOST_TOLD]]
    others = len(changed) - MOST_TOLD
    more = [f"and {others} more kind{'s' * (others > 1)} in another number"] if others > 0 else []
    return f" NCCL operations of a device in an iteration: {', '.join([*told, *more])}." if changed else ""


def _differ(old: LaunchedWork, new: LaunchedWork) -> bool:
    fewer, more = sorted((old.launches, new.launches))
    return more - fewer > LEAST_DIFFERENCE * fewer and more - fewer >= LEAST_OPERATIONS


def _changed(name: str, old: LaunchedWork, new: LaunchedWork) -> str:
    """Return the numbers of an operation in both runs, with the mean sizes where both are known."""
    counts = [f"{one.launches:.3g}" if one.launches < 100 else f"{one.launches:,.0f}" for one in (old, new)]
    known = old.size and new.size
    sizes = [f" ({bytes_text(round(one.size / one.launches))} on average)" if known else "" for one in (old, new)]
    after, before = (counts[1] if new.launches else "no"), (counts[0] if old.launches else "none")
    return f"{after} {name}{sizes[1]} instead of {before}{sizes[0]}"
