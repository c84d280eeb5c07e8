"""A comparison of two runs: its verdict, the test behind it, and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any

import polars as pl

from nsys2prv.analysis.compare.average import Average
from nsys2prv.analysis.compare.changed_findings import ALIKE, ChangedFindings, changed_findings
from nsys2prv.analysis.compare.compare_figures import (
    compare_figures,
    figures_per_iteration,
    same_iterations,
)
from nsys2prv.analysis.compare.run_figures import KERNEL_TIME, RunFigures
from nsys2prv.analysis.compare.significance import Change, Significance, significance
from nsys2prv.analysis.compare.stated_finding import StatedFinding
from nsys2prv.analysis.compare.told_figures import one_has_iterations, told_figures, why_not_told
from nsys2prv.analysis.compare.verdict import DecidedBy, Decision, Verdict, decide
from nsys2prv.analysis.compare.verdict_sentences import verdict_sentences
from nsys2prv.errors import UsageError
from nsys2prv.model.words import few, short

# A cost that changed by this part of the shorter iteration is told: a finding of that cost is of high severity.
NOTICEABLE = 0.1
# Rules that tell the time of the kernels which their evidence names. Others name the worst kernel of several, or tell
# the spread of its time or the idle time around it, which may be mended though it takes as long.
OF_KERNEL_TIME = (
    "conversions",
    "dominant-kernel",
    "double-precision",
    "gathers",
    "matrix-products",
    "unfused-attention",
)


class Comparison:
    """Two runs side by side."""

    def __init__(self, a: RunFigures, b: RunFigures) -> None:
        self.a, self.b = a, b

    @cached_property
    def significance(self) -> Significance:
        """Return the changes of the iterations, each with its significance."""
        if not same_iterations(self.a, self.b):
            return Significance((0, 0), None, ())
        return significance(self.a.iterations, self.b.iterations)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Return COMPARISON of the figures: sums over the window of each run."""
        return compare_figures(self.a, self.b)

    @cached_property
    def per_iteration(self) -> pl.DataFrame:
        """Return COMPARISON of the figures: sums of an iteration, if both windows have some.

        Where iterations are of other work, their sums do not compare: these changes are null.
        """
        return figures_per_iteration(self.rows, self.iterations, same_iterations(self.a, self.b))

    @cached_property
    def told(self) -> pl.DataFrame:
        """Return the rows of `per_iteration` that the terminal and the page tell; JSON has all."""
        return told_figures(self.per_iteration, self.a, self.b)

    @property
    def not_told(self) -> str:
        """Return which figures are not compared and why, as a sentence; empty where all are."""
        return why_not_told(self.a, self.b)

    @property
    def iterations(self) -> tuple[int, int]:
        """Return the number of iterations in the window of each run, 0 for a window of time."""
        return self.a.kept, self.b.kept

    @cached_property
    def changed_findings(self) -> ChangedFindings:
        """Return the findings that only one of the runs has, and those whose cost changed.

        Where costs do not compare, they are the findings that only one of the runs has.
        """
        tested = self.significance.iteration
        noticeable = NOTICEABLE * min(tested.a, tested.b) if tested else inf
        return changed_findings(
            self.a.findings, self.b.findings, self._as_long, not self._why_costs_differ, noticeable or inf
        )

    @property
    def _why_costs_differ(self) -> str:
        """Return why costs of findings do not compare, in words; nothing where they do."""
        if one_has_iterations(self.a, self.b):
            return "one run has no iterations, without which other findings may be found"
        return "" if same_iterations(self.a, self.b) else "iterations are of other work"

    @property
    def finding_lines(self) -> list[str]:
        """Return a line for each of the worst findings that changed; before them why costs do not compare, if so."""
        lines, why = [*self.changed_findings.lines(self._unmended)], self._why_costs_differ
        before = f"Findings of one run alone (costs of the others do not compare: {why}):"
        return [before, *lines] if why and lines else lines

    @property
    def _unmended(self) -> list[StatedFinding]:
        """Return the findings of one run alone whose kernels take as long in both: others hide them in one run.

        Only those that tell the time of their kernels: see OF_KERNEL_TIME.
        """
        if self._why_costs_differ:
            return []
        kernels = self.per_iteration.filter(pl.col("what") == KERNEL_TIME)
        times = {name: (a or 0.0, b or 0.0) for name, a, b in kernels.select("name", "a", "b").rows()}
        found = self.changed_findings
        of_time = (one for one in (*found.gone, *found.new) if one.id in OF_KERNEL_TIME)
        return [one for one in of_time if _take_as_long(one.kernels, times)]

    @property
    def _as_long(self) -> bool:
        """Return whether iterations were found to take as long in both runs, also where ranks changed."""
        iteration = self.significance.iteration
        tested = iteration is not None and iteration.p is not None
        return self.decision.outcome == "none" or (tested and self.decision.by == DecidedBy.RANKS)

    @cached_property
    def decision(self) -> Decision:
        """Return what changed from a to b, and by which test."""
        return decide(self.significance)

    @cached_property
    def verdict(self) -> Verdict:
        """Return what changed from a to b, in sentences."""
        return Verdict(self.decision.outcome, verdict_sentences(self.a, self.b, self.significance, self.decision))

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        tested = self.significance
        return {
            "verdict": self.verdict._asdict(),
            "significance": {
                "iterations": list(tested.iterations),
                "iteration": _change(tested.iteration) if tested.iteration else None,
                "average": _average(tested.average) if tested.average else None,
                "ranks": [_change(one) for one in tested.ranks],
            },
            "findings": {**self.changed_findings.as_json(), "costs_compare": not self._why_costs_differ},
            "rows": self.rows.to_dicts(),
            "per_iteration": self.per_iteration.to_dicts(),
            "not_compared": self.not_told or None,
        }

    @property
    def only_copies(self) -> bool:
        """Return True if nothing but copies communicates in both runs."""
        return self.a.only_copies and self.b.only_copies

    def __repr__(self) -> str:
        return f"<Comparison: {self.verdict.text}>"


def _take_as_long(kernels: Sequence[str], times: Mapping[str, tuple[float, float]]) -> bool:
    """Return whether kernels take as long in both runs. `times`: of each kernel in both."""
    sums = [sum(times.get(name, (0.0, 0.0))[side] for name in kernels) for side in (0, 1)]
    return min(sums) > 0 and min(sums) >= ALIKE * max(sums)


def check_comparable(a: RunFigures, b: RunFigures) -> None:
    """Raise UsageError if the runs are of other programs, or of other numbers of ranks or GPUs."""
    differences = [*_differences(a, b)]
    if differences:
        raise UsageError(f"the runs are not comparable: {', '.join(differences)}; --anyway compares them all the same")


def _differences(a: RunFigures, b: RunFigures) -> Iterator[str]:
    one, other = (sorted({*run.programs}) for run in (a, b))
    if one != other:
        yield f"A is of the program {few(one)}, B of {few(other)}"
    sizes = [("rank", [run.ranks for run in (a, b)]), ("GPU", [run.gpus for run in (a, b)])]
    for what, (first, second) in sizes:
        if first != second:
            yield f"A has {first} {what}{'s' * (first != 1)}, B {second}"
    # Those of two sets of reports answer one question; a stored run answered that of its time.
    if a.window != b.window:
        yield f"A covers the window {short(a.window)}, B {short(b.window)}"
    if a.nccl != b.nccl:
        yield f"A counts NCCL as {a.nccl}, B as {b.nccl}"


def _average(average: Average) -> dict[str, Any]:
    return {
        "a_ns": average.a,
        "b_ns": average.b,
        "change_percent": 100 * average.share,
        "long": list(average.long),
        "decides": average.decides,
    }


def _change(change: Change) -> dict[str, Any]:
    own = {
        "a_ns": change.a,
        "b_ns": change.b,
        "change_percent": 100 * change.share,
        "p": change.p,
        "level": change.level,
    }
    return {**({} if change.rank is None else {"rank": change.rank}), **own, "significant": change.significant}
