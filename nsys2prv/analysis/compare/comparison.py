"""A comparison of two runs: its verdict, the test behind it, and the figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

import polars as pl

from nsys2prv.analysis.compare.average import Average, average
from nsys2prv.analysis.compare.changed_findings import ChangedFindings, changed_findings
from nsys2prv.analysis.compare.compare_figures import (
    compare_figures,
    figures_per_iteration,
    same_iterations,
    same_marks,
    same_pattern,
)
from nsys2prv.analysis.compare.run_figures import RunFigures
from nsys2prv.analysis.compare.significance import LEAST_CHANGE, Change, Significance, least_iterations, significance
from nsys2prv.analysis.compare.work_of_iterations import common_work, more_work
from nsys2prv.errors import UsageError
from nsys2prv.model.words import few, short
from nsys2prv.run.steady import STEADY

ComparisonOutcome = Literal["slower", "faster", "rank slower", "rank faster", "none", "unknown"]
NONE = "No difference that the spread of iterations does not explain"
# More than chance explains, and less than counts.
NONE_THAT_COUNTS, BELOW = "No difference that counts", f"real but below {100 * LEAST_CHANGE:g} %"
UNKNOWN = "It cannot be told if B is slower"
# A lower p is written so.
LEAST_P = 0.001
# Ranks whose change a verdict tells.
MOST_CHANGED = 3


class Verdict(NamedTuple):
    """The change from a to b, in a word and in plain sentences.

    `change`: `slower` and `faster` are of the iteration, `rank slower` and `rank faster` of the compute time of a rank
    alone; `unknown`: there are too few iterations to tell.
    """

    change: ComparisonOutcome
    text: str


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

    @property
    def iterations(self) -> tuple[int, int]:
        """Return the number of iterations in the window of each run, 0 for a window of time."""
        return self.a.kept, self.b.kept

    @cached_property
    def changed_findings(self) -> ChangedFindings:
        """Return the findings that only one of the runs has."""
        return changed_findings(self.a.findings, self.b.findings)

    @cached_property
    def verdict(self) -> Verdict:
        """Return what changed from a to b."""
        return _verdict(self)

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
            "findings": self.changed_findings.as_json(),
            "rows": self.rows.to_dicts(),
            "per_iteration": self.per_iteration.to_dicts(),
        }

    def __repr__(self) -> str:
        return f"<Comparison: {self.verdict.text}>"


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


def _verdict(comparison: Comparison) -> Verdict:
    tested, changed = comparison.significance, [one for one in comparison.significance.ranks if one.significant]
    changed.sort(key=lambda one: -abs(one.share))
    if tested.iteration is None:
        return Verdict("unknown", f"{UNKNOWN}: {without_iterations(comparison)}.{_without_test(comparison)}")
    if tested.average and tested.average.decides:
        counts, outcome = abs(tested.average.share) >= LEAST_CHANGE, _direction(tested.average.share)
        usual = _times(tested.iteration) if tested.iteration.p is None else _taken(tested.iteration)
        outcome, what = (outcome, f"B is {outcome}") if counts else ("none", NONE_THAT_COUNTS)
        text = f"{what}: {tested.average.text}. The usual one (median) takes {usual}."
    elif tested.iteration.significant:
        outcome = _direction(tested.iteration.share)
        text = f"B is {outcome}: an iteration takes {_taken(tested.iteration)}."
    elif changed:
        outcome = "rank slower" if changed[0].b > changed[0].a else "rank faster"
        text = f"{_ranks(changed)}. An iteration takes {_times(tested.iteration)}; {_of_no_matter(tested)}."
    elif tested.iteration.p is None:
        outcome = "unknown"
        text = f"{UNKNOWN}: {_too_few(tested)}. An iteration takes {_times(tested.iteration)}."
    else:
        what = NONE_THAT_COUNTS if tested.iteration.real else NONE
        outcome, text = "none", f"{what}: an iteration takes {_taken(tested.iteration)}."
    if changed and not outcome.startswith("rank"):
        text += f" {_ranks(changed)}."
    return Verdict(outcome, text + _of_marks(comparison))


def _direction(share: float) -> ComparisonOutcome:
    return "slower" if share > 0 else "faster"


def without_iterations(comparison: Comparison) -> str:
    """Return why no iterations are compared, and what to do, as a clause."""
    a, b = comparison.a, comparison.b
    instead = ", and --window device compares without iterations" if a.window == STEADY else ""
    if more := more_work(a.work, b.work):
        one, other = "BA" if more.in_b else "AB"
        least, most = (f"{number:,.0f}" for number in more.launches)
        return (
            f"an iteration of {one} does the work of {more.times} iterations of {other}, {most} launches of "
            f"{short(more.kernel)} instead of {least}; --iteration names an NVTX range of the same work in both"
            f"{instead}"
        )
    if not same_marks(a, b):
        patterns, common = f"{a.iteration_pattern!r} in A, {b.iteration_pattern!r} in B", common_work(a.work, b.work)
        known = f", and {common.text}" if a.work and b.work else ""
        return f"the iterations are of other work, {patterns}{known}; --iteration names an NVTX range of both{instead}"
    which = " and ".join(n for n, count in zip("AB", comparison.significance.iterations, strict=True) if not count)
    return f"no steady iterations in {which}; --iteration names their NVTX range"


def _of_marks(comparison: Comparison) -> str:
    """Return why iterations that are found by other work compare, as a sentence; nothing for those of one name."""
    a, b = comparison.a, comparison.b
    if same_pattern(a, b):
        return ""
    patterns = f"by {short(str(a.iteration_pattern))!r} in A, by {short(str(b.iteration_pattern))!r} in B"
    return f" Iterations are found {patterns}; {common_work(a.work, b.work).text} in them."


def _without_test(comparison: Comparison) -> str:
    """Return what takes how long where no iterations are compared, as a sentence: the window, or the same work.

    Steady iterations may be others. There, all that was recorded is compared; of a stored run that is not known.
    """
    a, b = comparison.a, comparison.b
    if a.window != STEADY:
        window = Change(None, a.figures["window", "duration_ns"], b.figures["window", "duration_ns"], None)
        return f" The window ({short(a.window)}) takes {_times(window)}."
    if (more := more_work(a.work, b.work)) and all(comparison.iterations):
        means = average(a.iterations.filter("steady"), b.iterations.filter("steady"))
        once = (means.a * more.times, means.b) if more.in_b else (means.a, means.b * more.times)
        work = f"{more.times} iterations of {'A' if more.in_b else 'B'}"
        return f" The work of {work} takes {_times(Change(None, *once, None))} on average."
    if a.active_ns is None or b.active_ns is None:
        return ""
    recorded, common = Change(None, a.active_ns, b.active_ns, None), common_work(a.recorded_work, b.recorded_work)
    known = f", in which {common.text}" if common.every else ""
    return f" From the first activity to the last it takes {_times(recorded)}{known}."


def _of_no_matter(tested: Significance) -> str:
    """Return why a change of the iteration that is not significant says nothing."""
    if tested.iteration is None or tested.iteration.p is None:
        return _too_few(tested)
    return f"that is {BELOW}" if tested.iteration.real else "the spread of iterations explains that"


def _too_few(tested: Significance) -> str:
    counts = " and ".join(map(str, tested.iterations))
    return f"{counts} steady iterations are too few to tell, record {least_iterations()} or more of each run"


def _ranks(changed: list[Change]) -> str:
    shown = [f"{one.subject} {_taken(one)} an iteration" for one in changed[:MOST_CHANGED]]
    others = len(changed) - MOST_CHANGED
    more = f", and {others} more rank{'s' * (others != 1)} changed" if others > 0 else ""
    text = ", ".join(shown) + more
    return text[0].upper() + text[1:]


def _times(change: Change) -> str:
    """Write both times and the difference, in ms with three digits or more."""
    digits = 1 if min(change.a, change.b) >= 1e7 else 3
    a, b = (f"{ns / 1e6:.{digits}f}" for ns in (change.a, change.b))
    return f"{b} ms instead of {a} ({change.percent})"


def _taken(change: Change) -> str:
    """Write both times, the difference, and its significance."""
    word = "significant" if change.significant else BELOW if change.real else "not significant"
    p = f"p < {LEAST_P:g}" if change.p is not None and change.p < LEAST_P else f"p = {change.p:.3f}"
    return f"{_times(change)[:-1]}, {word}: {p})"


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
