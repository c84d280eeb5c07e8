"""Conditions on a comparison, such as `iteration > 3%`, which make a build fail."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.run_figures import CLASS_TIME, KERNEL_TIME, PHASE, WHOLE, unit_of_figure
from nsys2prv.analysis.compare.significance import Change, least_iterations, shared_ranks, whole_iterations
from nsys2prv.analysis.compare.verdict_sentences import BELOW, without_iterations
from nsys2prv.errors import UsageError
from nsys2prv.model.units import MS, Unit
from nsys2prv.model.words import NAMES_SHOWN, did_you_mean, few, short

NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
# Names of changes that are tested, and of figures: name -> (what, name) of COMPARISON.
ITERATION_TIME, COMPUTE_TIME = "iteration", "compute"
FIGURES = {
    "parallel": ("efficiency", "parallel"),
    "load balance": ("efficiency", "load_balance"),
    "communication": ("efficiency", "communication"),
    "orchestration": ("efficiency", "orchestration"),
    "whole iterations": ("efficiency", WHOLE),
    "exposed": ("overlap", "exposed_ns"),
    "overlapped": ("overlap", "overlapped_ns"),
    "memory": ("memory", "total_ns"),
    "idle": ("iteration, mean", "idle_ns"),
    "useful": ("devices", "useful_ns"),
    "busy": ("devices", "busy_ns"),
}
ADVICE = "a condition is NAME > N% or NAME < -N%, with %, ns, us, ms or s, such as 'iteration > 3%'"


class Condition(NamedTuple):
    """A limit for the change of a figure. `unit`: % or a unit of time; `above`: the change must not exceed it."""

    text: str
    name: str
    above: bool
    limit: float
    unit: str


class Judgment(NamedTuple):
    """A condition on a comparison. `holds`: None if this cannot be told; `text`: the reason as one sentence."""

    condition: Condition
    holds: bool | None
    text: str


def condition_of(text: str) -> Condition:
    """Parse a condition. Raises UsageError."""
    found = re.fullmatch(r"\s*(.+?)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)\s*(%|ns|us|ms|s)\s*", text)
    if not found:
        raise UsageError(f"--fail-on {short(text)!r}: cannot be read; {ADVICE}")
    name, sign, limit, unit = found.groups()
    return Condition(text.strip(), name, sign == ">", float(limit), unit)


def judge(comparison: Comparison, conditions: Sequence[Condition]) -> list[Judgment]:
    """Judge each condition on a comparison. Raises UsageError for a name that no figure has."""
    figures = _figures(comparison.per_iteration)
    known = [ITERATION_TIME, COMPUTE_TIME, *figures]
    for one in conditions:
        if one.name not in known:
            near, names = did_you_mean(one.name, known), few(known, len(FIGURES) + NAMES_SHOWN)
            cause = f"--fail-on {short(one.text)!r}: no figure {short(one.name)!r}{near}"
            raise UsageError(f"{cause}; the figures are: {names}")
        if one.unit != "%" and one.name in figures and figures[one.name].unit != MS:
            raise UsageError(f"--fail-on {short(one.text)!r}: {one.name} is no time; give its change in %")
    return [
        _judge_tested(comparison, one) if one.name in (ITERATION_TIME, COMPUTE_TIME) else _judge_figure(one, figures)
        for one in conditions
    ]


class ComparedFigure(NamedTuple):
    """A figure of both runs in its JSON's unit, None where a run lacks it. `unit`: the one that it is shown in.

    Not `alike`: both have it, of different amounts of work.
    """

    what: str
    unit: Unit
    a: float | None
    b: float | None
    alike: bool = True


def _figures(table: pl.DataFrame) -> dict[str, ComparedFigure]:
    """Return each figure by its name in conditions: FIGURES, phases, families, kernels."""
    alike = pl.col("difference").is_not_null() | pl.col("a").is_null() | pl.col("b").is_null()
    rows = {(what, name): values for what, name, *values in table.select("what", "name", "a", "b", alike).rows()}
    keys = dict(FIGURES)
    for what, name in rows:
        if what in (PHASE, CLASS_TIME, KERNEL_TIME):
            keys.setdefault(name, (what, name))
    return {n: ComparedFigure(key[0], unit_of_figure(*key), *rows.get(key, (None, None))) for n, key in keys.items()}


def _exceeds(condition: Condition, a: float, b: float) -> bool:
    if condition.unit == "%":
        change = 100 * (b - a) / a if a else math.copysign(math.inf, b) if b else 0.0
    else:
        change = (b - a) / NS[condition.unit]
    return change > condition.limit if condition.above else change < condition.limit


def _judge_figure(condition: Condition, figures: dict[str, ComparedFigure]) -> Judgment:
    """Judge a change that is not tested: it counts as it is."""
    what, unit, a, b, alike = figures[condition.name]
    if not alike:
        return Judgment(condition, None, f"{condition.text}: cannot be told, it is of other work or time in B")
    # A kernel of only one run took no time in the other.
    in_one = what in (CLASS_TIME, KERNEL_TIME) and (a is None) != (b is None)
    if not in_one and (a is None or b is None):
        return Judgment(condition, None, f"{condition.text}: cannot be told, a run lacks this figure")
    one, other = a or 0.0, b or 0.0
    change = f" ({100 * (other - one) / one:+.1f} %)" if one else ""
    values = f"{unit.scale * other:.3f} {unit.sign} instead of {unit.scale * one:.3f}{change}"
    return Judgment(condition, _exceeds(condition, one, other), f"{condition.text}: {condition.name} is {values}")


def _judge_tested(comparison: Comparison, condition: Condition) -> Judgment:
    """Judge a change that is tested: it counts only if it is significant."""
    tested = comparison.significance
    average = tested.average
    if condition.name == ITERATION_TIME and average and average.decides:
        return Judgment(condition, _exceeds(condition, average.a, average.b), f"{condition.text}: {average.text}")
    changes = tested.ranks if condition.name == COMPUTE_TIME else tuple(filter(None, [tested.iteration]))
    if not changes or any(one.p is None for one in changes):
        return Judgment(condition, None, f"{condition.text}: cannot be told, {_untested(comparison, condition)}")
    decisive = _decisive(condition, changes)
    beyond = _exceeds(condition, decisive.a, decisive.b)
    text = f"{condition.text}: {_described(decisive, beyond)}"
    return Judgment(condition, beyond and decisive.significant, text)


def _decisive(condition: Condition, changes: Sequence[Change]) -> Change:
    """Return the largest of the changes beyond the limit that are significant, else of those beyond it, else of all."""
    beyond = [one for one in changes if _exceeds(condition, one.a, one.b)]
    holding = [one for one in beyond if one.significant]
    return max(holding or beyond or changes, key=lambda one: one.share if condition.above else -one.share)


def _untested(comparison: Comparison, condition: Condition) -> str:
    """Return why a change cannot be tested, and what to do, as a clause."""
    tested = comparison.significance
    if tested.iteration is None:
        return without_iterations(comparison.a, comparison.b, tested)
    counts, of_what = tested.iterations, "steady iterations"
    if condition.name == COMPUTE_TIME:
        # Ranks are tested together, over the iterations that all of them have.
        steady = [run.iterations.filter("steady") for run in (comparison.a, comparison.b)]
        ranks = shared_ranks(*steady)
        if not ranks:
            return "the runs share no rank; compare runs of the same ranks"
        whole = [whole_iterations(run, ranks).height // len(ranks) for run in steady]
        if whole != [*counts]:
            counts, of_what = (whole[0], whole[1]), "steady iterations of all ranks that the runs share"
    least = f"record {least_iterations()} or more of each run"
    return f"{' and '.join(map(str, counts))} {of_what} are too few; {least}"


def _described(change: Change, beyond: bool) -> str:
    """Return a tested change as a clause; of one that is `beyond` a limit and still does not count, why."""
    times = f"{change.b / 1e6:.3f} ms instead of {change.a / 1e6:.3f}"
    why = f" ({BELOW if change.real else 'not significant'})" if beyond and not change.significant else ""
    return f"{change.subject} {times} ({change.difference}, p = {change.p:.4f}){why}"
