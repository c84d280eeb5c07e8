"""Findings that only one of two runs has, or that cost more there: what was mended, what is new, and what moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

# A finding of both runs is told where its cost in one is less than this part of that in the other.
LESS = 1 / 3
# Of a costly one already less than this part counts.
ALIKE, COSTLY = 0.9, "high"
# What these rules say that a delay costs is a bound, which other hosts set. A change of it tells nothing.
BOUNDS = ("late-rank", "late-ranks")
# These rules tell one fault: others wait for the host of a rank, of several ranks, or of one rank after the other.
# Which rank comes last is chance where all hosts are busy.
LATENESS = ("late-rank", "late-ranks", "exposed-waiting")
# Lines that say so, each for the findings that are gone, that are new, and whose cost changed.
MOST_TOLD = 3
# Findings of low severity come and go with the spread of iterations, and data that was not recorded is no change.
UNSTABLE = "low"
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

    def moves_to(self, other: StatedFinding) -> bool:
        """Return True for findings of one fault, if not of the same ranks, of which neither is of low severity."""
        alike = self.id == other.id or {self.id, other.id} <= {*LATENESS}
        return alike and UNSTABLE not in (self.severity, other.severity)


# A finding as in the first run, and as in the second.
Pair = tuple[StatedFinding, StatedFinding]


class ChangedFindings(NamedTuple):
    """Findings of the first run that are gone in the second, and those that are new there, the worst first.

    `changed`: findings of both runs, as in the first and as in the second, the most changed first; `moved`: those that
    are of other ranks in the second, in the order of the first.
    """

    gone: tuple[StatedFinding, ...]
    new: tuple[StatedFinding, ...]
    changed: tuple[Pair, ...] = ()
    moved: tuple[Pair, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield a line for each of the worst ones, and one for the number of others."""
        for word, findings in (("Gone", self.gone), ("New", self.new)):
            yield from (f"{word}: {one.title}" for one in findings[:MOST_TOLD])
            if (more := len(findings) - MOST_TOLD) > 0:
                yield f"{word}: {more} more finding{'s' * (more > 1)}"
        for old, new in self.changed[:MOST_TOLD]:
            yield f"{'Less' if new.cost_ns < old.cost_ns else 'More'}: {new.title}; in A: {old.title}"
        if (more := len(self.changed) - MOST_TOLD) > 0:
            yield f"Less or more: {more} more finding{'s' * (more > 1)}"
        yield from (f"{_moved(old, new)}: {new.title}; in A: {old.title}" for old, new in self.moved[:MOST_TOLD])
        if (more := len(self.moved) - MOST_TOLD) > 0:
            yield f"Moved: {more} more finding{'s' * (more > 1)}"

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return {
            "gone": [one._asdict() for one in self.gone],
            "new": [one._asdict() for one in self.new],
            "changed": [{"a": old._asdict(), "b": new._asdict()} for old, new in self.changed],
            "moved": [{"a": old._asdict(), "b": new._asdict()} for old, new in self.moved],
        }


def changed_findings(a: Sequence[StatedFinding], b: Sequence[StatedFinding], as_long: bool = False) -> ChangedFindings:
    """Return the findings that only one of two runs has, those of both whose cost changed, and those of other ranks.

    Costs have to compare: they are of iterations of one work, or of windows. `as_long`: iterations take as long but for
    their spread, which moves costs, too: then costly findings have to change as much as the others.
    """
    counting = [[one for one in run if one.id not in OF_RECORDING] for run in (a, b)]
    pairs = [*_pairs(counting, StatedFinding.is_like)]
    moved = [*_pairs(_unpaired(counting, pairs), StatedFinding.moves_to)]
    gone, new = (tuple(one for one in run if one.severity != UNSTABLE) for run in _unpaired(counting, [*pairs, *moved]))
    alike = LESS if as_long else ALIKE
    differing = [pair for pair in pairs if _is_changed(pair, alike)]
    changed = sorted(differing, key=lambda pair: -abs(pair[0].cost_ns - pair[1].cost_ns))
    return ChangedFindings(gone, new, tuple(changed), tuple(moved))


def _unpaired(runs: Iterable[Sequence[StatedFinding]], pairs: Sequence[Pair]) -> list[list[StatedFinding]]:
    """Return the findings of each run that are in none of the pairs."""
    return [[one for one in run if not any(one is pair[side] for pair in pairs)] for side, run in enumerate(runs)]


def _pairs(
    runs: Sequence[Sequence[StatedFinding]], alike: Callable[[StatedFinding, StatedFinding], bool]
) -> Iterator[Pair]:
    """Yield each finding with the one of the other run that is `alike`: about the same ranks, or else next in cost."""
    a, free = runs[0], [*runs[1]]
    for old in a:
        if like := [new for new in free if alike(old, new)]:
            nearest = min(like, key=lambda new: (new.ranks != old.ranks, abs(new.cost_ns - old.cost_ns)))
            free.remove(nearest)
            yield old, nearest


def _moved(old: StatedFinding, new: StatedFinding) -> str:
    """Return the word for a finding of other ranks, and if it costs far more or less there."""
    less, more = sorted((old.cost_ns, new.cost_ns))
    if less >= LESS * more:
        return "Moved"
    return f"Moved, and {'less' if new.cost_ns < old.cost_ns else 'more'}"


def _is_changed(pair: Pair, alike: float) -> bool:
    """Return True for a finding as in both runs, if its cost changed by enough to tell. `alike`: of a costly one."""
    less, more = sorted(pair, key=lambda one: one.cost_ns)
    least = alike if more.severity == COSTLY else LESS
    return more.severity != UNSTABLE and more.id not in BOUNDS and less.cost_ns < least * more.cost_ns
