"""Findings that only one of two runs has, or that cost more there: what was mended, what is new, what moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from nsys2prv.analysis.compare.stated_finding import LESS, UNSTABLE, Kinship, StatedFinding
from nsys2prv.model.units import text_ms

# A costly finding changed if one cost is less than this part of the other.
ALIKE, COSTLY = 0.9, "high"
# What these rules say that a delay costs is a bound, which other hosts set. Only a cost below this part of the other
# one tells of a change.
BOUNDS, OF_BOUND = ("late-rank", "late-ranks"), 0.1
# Ranks wait for each other in turn.
WAITING = "exposed-waiting"
# Findings of each kind with a line of their own: of those that are gone, that are new, and so on.
MOST_TOLD = 3
# Data that was not recorded is no change.
OF_RECORDING = (
    "missing-data",
    "late-capture",
    "whole-graphs",
    "unrecorded-probes",
    "unmatched-communication",
    "doubtful-clocks",
    "defective-reports",
)
# A finding as in the first run, and as in the second.
Pair = tuple[StatedFinding, StatedFinding]
Match = tuple[StatedFinding, StatedFinding, Kinship]


class ChangedFindings(NamedTuple):
    """Findings of the first run that are gone in the second, and those that are new there, the worst first.

    `changed`: findings of both runs, as in the first and as in the second, the most changed first; `moved`: those that
    are of other ranks in the second, in the order of the first; `retold`: those of ranks in common of which another
    rule tells in the second, or another cause.
    """

    gone: tuple[StatedFinding, ...]
    new: tuple[StatedFinding, ...]
    changed: tuple[Pair, ...] = ()
    moved: tuple[Pair, ...] = ()
    retold: tuple[Pair, ...] = ()

    def lines(self, unmended: Collection[StatedFinding] = ()) -> Iterator[str]:
        """Yield a line for each of the worst ones, and one for the number of others.

        `unmended`: those that only one run has, though what they are about takes as long in the other.
        """
        for word, findings in (("Gone", self.gone), ("New", self.new)):
            for one in findings[:MOST_TOLD]:
                yield f"{word}{', though its kernels take as long' * (one in unmended)}: {one.title}"
            if (more := len(findings) - MOST_TOLD) > 0:
                yield f"{word}: {more} more finding{'s' * (more > 1)}"
        for old, new in self.changed[:MOST_TOLD]:
            less_or_more = "Less" if new.cost_ns < old.cost_ns else "More"
            costs = f"{text_ms(new.cost_ns)} instead of {text_ms(old.cost_ns)}"
            # Of the same ranks the titles tell the same but for numbers: both of them are long to read.
            yield f"{less_or_more}, costing {costs}: {new.title}{'' if old.ranks == new.ranks else _in_a(old)}"
        if (more := len(self.changed) - MOST_TOLD) > 0:
            yield f"Less or more: {more} more finding{'s' * (more > 1)}"
        for word, pairs in (("Moved", self.moved), ("Now", self.retold)):
            for old, new in pairs[:MOST_TOLD]:
                yield f"{word}{_far_less_or_more(old, new)}: {new.title}{_in_a(old)}"
            if (more := len(pairs) - MOST_TOLD) > 0:
                yield f"{word}: {more} more finding{'s' * (more > 1)}"

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return {
            "gone": [one._asdict() for one in self.gone],
            "new": [one._asdict() for one in self.new],
            "changed": [{"a": old._asdict(), "b": new._asdict()} for old, new in self.changed],
            "moved": [{"a": old._asdict(), "b": new._asdict()} for old, new in self.moved],
            "retold": [{"a": old._asdict(), "b": new._asdict()} for old, new in self.retold],
        }


def changed_findings(
    a: Sequence[StatedFinding],
    b: Sequence[StatedFinding],
    as_long: bool = False,
    costs_compare: bool = True,
    noticeable_ns: float = inf,
) -> ChangedFindings:
    """Return the findings that only one of two runs has, those of both whose cost changed, and those told otherwise.

    `as_long`: iterations take as long but for their spread, which moves costs, too: then costly findings have to change
    as much as the others. Not `costs_compare`: costs are of an iteration in one run and of a window in the other, or of
    iterations of other work; then only what one run alone has is told, and no cost decides what that is. A change of a
    cost by `noticeable_ns` or more is told whatever part of the cost it is, unless iterations take as long.
    """
    counting = [[one for one in run if one.id not in OF_RECORDING] for run in (a, b)]
    matches = _matches(counting[0], counting[1], costs_compare)
    unpaired = _unpaired(counting, matches)
    gone, new = (
        tuple(one for one in run if one.severity != UNSTABLE and not (costs_compare and _is_hidden(one, other)))
        for run, other in zip(unpaired, reversed(counting), strict=True)
    )
    if not costs_compare:
        return ChangedFindings(gone, new)
    alike = LESS if as_long else ALIKE
    in_both = _of(matches, Kinship.SAME_RANKS, Kinship.COMMON_RANKS)
    differing = [pair for pair in in_both if _is_changed(pair, alike, inf if as_long else noticeable_ns)]
    changed = sorted(differing, key=lambda pair: -abs(pair[0].cost_ns - pair[1].cost_ns))
    moved = _of(matches, Kinship.OTHER_RANKS, Kinship.OTHER_RULE_AND_RANKS)
    retold = _of(matches, Kinship.OTHER_CAUSE, Kinship.OTHER_RULE)
    return ChangedFindings(gone, new, tuple(changed), moved, retold)


def _unpaired(runs: Iterable[Sequence[StatedFinding]], matches: Sequence[Match]) -> list[list[StatedFinding]]:
    """Return the findings of each run that match none of the other."""
    return [[one for one in run if not any(one is match[side] for match in matches)] for side, run in enumerate(runs)]


def _is_hidden(one: StatedFinding, run: Iterable[StatedFinding]) -> bool:
    """Return True for waiting in turn that a late rank of the other run, with the findings `run`, may hide.

    Where a rank is late for longer than others wait in turn, that waiting may be of its lateness, which `host-bound` of
    that rank may tell, too (see folded_findings).
    """
    late = (other.cost_ns for other in run if other.id in BOUNDS or (other.id == "host-bound" and other.ranks))
    return one.id == WAITING and one.cost_ns <= max(late, default=-1)


def _matches(a: Sequence[StatedFinding], b: Sequence[StatedFinding], costs_compare: bool) -> list[Match]:
    """Return findings of a, each with one of b that tells its fault, in the order of a: first the nearest in kinship.

    Of those as near, the next in cost. Each finding matches one.
    """
    known = [(old.kinship(new, costs_compare), n, m) for n, old in enumerate(a) for m, new in enumerate(b)]
    nearest = sorted((kinship, abs(b[m].cost_ns - a[n].cost_ns), n, m) for kinship, n, m in known if kinship)
    found: dict[int, Match] = {}
    taken: set[int] = set()
    for kinship, _, n, m in nearest:
        if n not in found and m not in taken:
            found[n] = a[n], b[m], kinship
            taken.add(m)
    return [found[n] for n in sorted(found)]


def _of(matches: Iterable[Match], *kinds: Kinship) -> tuple[Pair, ...]:
    return tuple((old, new) for old, new, kinship in matches if kinship in kinds)


def _in_a(old: StatedFinding) -> str:
    """Return what to add to a finding of the second run: the first clause of the title that it has in the first."""
    return f"; in A: {old.title.partition('; ')[0]}"


def _far_less_or_more(old: StatedFinding, new: StatedFinding) -> str:
    """Return what to add to the word for a fault that is told otherwise, if it costs far less or more there."""
    less, more = sorted((old.cost_ns, new.cost_ns))
    if less >= LESS * more:
        return ""
    return f", and {'less' if new.cost_ns < old.cost_ns else 'more'}"


def _is_changed(pair: Pair, alike: float, noticeable_ns: float) -> bool:
    """Return True for a finding as in both runs, if its cost changed by enough to tell.

    `alike`: the part of its cost from which on a costly one has not changed; `noticeable_ns`: see changed_findings.
    """
    less, more = sorted(pair, key=lambda one: one.cost_ns)
    if more.severity == UNSTABLE:
        return False
    if more.id in BOUNDS:
        return less.cost_ns < OF_BOUND * more.cost_ns
    least = alike if more.severity == COSTLY else LESS
    return less.cost_ns < least * more.cost_ns or more.cost_ns - less.cost_ns >= noticeable_ns
