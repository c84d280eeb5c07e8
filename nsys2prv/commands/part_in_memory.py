"""The longest part around the middle of a run that fits into memory, where all of it does not."""

from __future__ import annotations

from typing import NamedTuple

from nsys2prv.analysis.gather.stored_intervals import gathered_rows
from nsys2prv.errors import UsageError
from nsys2prv.intervals.spans import Span
from nsys2prv.model.limits import Limits
from nsys2prv.model.units import bytes_text
from nsys2prv.pipeline.workers.memory import analysis_budget, analysis_needs, too_large
from nsys2prv.run.plan import Plan

# Parts are tried by so many shares of the time. Less than one of them says little of a run.
SHARES = 256
MICROSECOND = 1_000


class AnalyzedPart(NamedTuple):
    """The time that is analyzed (merged ns; None: all of the run), and what is said about the time left out.

    `refusal`: the error to raise where the part says nothing of the run; None where nothing is left out.
    """

    span: Span | None
    remarks: tuple[str, ...] = ()
    refusal: UsageError | None = None


def part_in_memory(plan: Plan, chosen: Span | None, memory: int | None, limits: Limits, in_part: bool) -> AnalyzedPart:
    """Return the chosen time of a run (None: all), or the longest part around its middle for which there is memory.

    What is typical of a run is in its middle, and start-up at its begin. `memory`: bytes (None: all that is free).
    Raises UsageError where even a short part takes more, and where no part is wanted (`in_part`).
    """
    budget, rows = analysis_budget(memory), gathered_rows(plan, chosen)
    needed = analysis_needs(*rows, limits)
    if needed <= budget:
        return AnalyzedPart(chosen)
    low, high = chosen or plan.active
    part = _longest(plan, Span(low, high), budget, limits) if in_part else None
    refusal = too_large(rows.intervals + rows.ranges, needed, budget)
    if part is None:
        raise refusal
    return AnalyzedPart(part, (_left_out(part, needed, budget),), refusal)


def _longest(plan: Plan, span: Span, budget: int, limits: Limits) -> Span | None:
    """Return the longest of the parts around the middle of a span that fits into a budget (bytes); None: none does."""
    fits, fails = 0, SHARES
    while fails - fits > 1:
        share = (fits + fails) // 2
        if analysis_needs(*gathered_rows(plan, _around_middle(span, share)), limits) <= budget:
            fits = share
        else:
            fails = share
    return _around_middle(span, fits) if fits else None


def _around_middle(span: Span, share: int) -> Span:
    """Return a share of a span, in whole microseconds: what is said of it chooses the same time by --time."""
    cut = (span.end - span.start) * (SHARES - share) // (2 * SHARES)
    return Span(*(-(-ns // MICROSECOND) * MICROSECOND for ns in (span.start + cut, span.end - cut)))


def _left_out(part: Span, needed: int, budget: int) -> str:
    """Return the remark on the time that is left out, given the analyzed part, and bytes needed and allowed."""
    low, high = (f"{ns / 1e9:.6f}" for ns in part)
    return (
        f"left out: all but {low} to {high} s: an analysis of all takes about {bytes_text(needed)} of memory, and "
        f"{bytes_text(budget)} are free or allowed (--memory); --time chooses another part"
    )
