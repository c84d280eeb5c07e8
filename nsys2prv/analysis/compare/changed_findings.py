"""Findings that only one of two runs has, or that cost more there: what was mended, and what is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from nsys2prv.model.units import text_ms

# What costs less than this part of what it cost is gone for the most part.
LESS = 1 / 3
# What costs this part or more of the larger cost has hardly changed.
ALIKE = 0.8
# Lines that say so, each for the findings that are gone, that are new, and whose cost changed.
MOST_TOLD = 3
# Findings of low severity come and go with the spread of iterations, and data that was not recorded is no change.
UNSTABLE = "low"
# Other costs are too small for a change of a fifth to count.
COSTLY = "high"
OF_RECORDING = (
    "missing-data",
    "late-capture",
    "whole-graphs",
    "unrecorded-probes",
    "unmatched-communication",
    "doubtful-clocks",
    "defective-reports",
)


class StatedFinding(NamedTuple):
    """A finding as a comparison sees it, whether it was found now or is stored: rule, severity, title, cost.

    `cost_ns`: of an iteration; `ranks`: those concerned, empty for all.
    """

    id: str
    severity: str
    title: str
    cost_ns: int
    ranks: tuple[int, ...] = ()

    def is_like(self, other: StatedFinding) -> bool:
        """Return True for findings of one rule about the same ranks, or about some of them."""
        apart = self.ranks and other.ranks and not {*self.ranks} & {*other.ranks}
        return self.id == other.id and not apart


class ChangedFindings(NamedTuple):
    """Findings of the first run that are gone in the second, and those that are new there, the worst first.

    `changed`: findings of both runs, as in the first and as in the second, the most changed first.
    """

    gone: tuple[StatedFinding, ...]
    new: tuple[StatedFinding, ...]
    changed: tuple[tuple[StatedFinding, StatedFinding], ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield a line for each of the worst ones, and one for the number of others."""
        for word, findings in (("Gone", self.gone), ("New", self.new)):
            yield from (f"{word}: {one.title}" for one in findings[:MOST_TOLD])
            if (more := len(findings) - MOST_TOLD) > 0:
                yield f"{word}: {more} more finding{'s' * (more > 1)}"
        for old, new in self.changed[:MOST_TOLD]:
            word = "Less" if new.cost_ns < old.cost_ns else "More"
            yield f"{word}, {text_ms(new.cost_ns)} instead of {text_ms(old.cost_ns)}: {new.title}"

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return {
            "gone": [one._asdict() for one in self.gone],
            "new": [one._asdict() for one in self.new],
            "changed": [{"a": old._asdict(), "b": new._asdict()} for old, new in self.changed],
        }


def changed_findings(
    a: Sequence[StatedFinding], b: Sequence[StatedFinding], costs_compare: bool = True
) -> ChangedFindings:
    """Return the findings of two runs that count, and cost at most a third in the other run, or are none there.

    Beside them those of both runs whose cost changed by a fifth or more, if `costs_compare`: the costs are of
    iterations of one work, or of windows.
    """
    return ChangedFindings(tuple(_only(a, b)), tuple(_only(b, a)), tuple(_changed(a, b)) if costs_compare else ())


def _changed(a: Iterable[StatedFinding], b: Iterable[StatedFinding]) -> Iterator[tuple[StatedFinding, StatedFinding]]:
    """Yield the findings of both runs that differ in cost, the most changed first."""
    pairs = [(old, new) for old in a for new in b if old.is_like(new) and old.id not in OF_RECORDING]
    for old, new in sorted(pairs, key=lambda pair: -abs(pair[0].cost_ns - pair[1].cost_ns)):
        less, more = sorted([old, new], key=lambda one: one.cost_ns)
        if more.severity == COSTLY and LESS <= less.cost_ns / max(more.cost_ns, 1) < ALIKE:
            yield old, new


def _only(run: Iterable[StatedFinding], other: Iterable[StatedFinding]) -> Iterator[StatedFinding]:
    others = list(other)
    for one in run:
        costs = [each.cost_ns for each in others if each.is_like(one)]
        less = not costs or max(costs) < LESS * one.cost_ns
        if less and one.severity != UNSTABLE and one.id not in OF_RECORDING:
            yield one
