"""A finding as comparisons see it, and how near those of two runs are to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, auto
from typing import Any, NamedTuple

from nsys2prv.analysis.graph.host_labels import AT_MANY_PLACES, BEFORE_LAUNCH

# Costs are alike if one is this part of the other or more.
LESS = 1 / 3
# These rules tell one fault: others wait for the host of a rank, of several ranks, or of one rank after the other.
# Which rank comes last is chance where all hosts are busy.
LATENESS = ("late-rank", "late-ranks", "exposed-waiting")
# Findings of low severity come and go with the spread of iterations.
UNSTABLE = "low"
# What the title of a rule names, by its keys in the evidence, the first one that is given.
SUBJECTS = {
    "late-rank": ("manner", "cause", "phase"),
    "late-gpu": ("cause",),
    "system-waiting": ("call",),
    "host-functions": ("call",),
    "dominant-kernel": ("kernel",),
    "varying-kernels": ("kernel",),
}


class Kinship(IntEnum):
    """Nearness of two findings of one fault, the nearest first: in rules and ranks. One without ranks is of all."""

    SAME_RANKS = auto()
    COMMON_RANKS = auto()
    OTHER_RANKS = auto()
    OTHER_CAUSE = auto()
    OTHER_RULE = auto()
    OTHER_RULE_AND_RANKS = auto()


class StatedFinding(NamedTuple):
    """A finding as a comparison sees it, whether it was found now or is stored: rule, severity, title, cost.

    `cost_ns`: of an iteration; `ranks`: those concerned, empty for all; `subject`: the call, kernel or cause that its
    title names, "" for rules whose titles name none. Of a late rank it is `launching KERNEL` where its host works
    before that, and "" where it is slow at many places. `kernels`: names of those that it is about, five at most.
    """

    id: str
    severity: str
    title: str
    cost_ns: int
    ranks: tuple[int, ...] = ()
    subject: str = ""
    kernels: tuple[str, ...] = ()

    def kinship(self, other: StatedFinding, costs_compare: bool = True) -> Kinship | None:
        """Return how near a finding of another run is to this one; None if it is not of the same fault.

        Other ranks or another rule tell a fault only if neither finding is of low severity, and both have one cause, or
        no cause and costs alike, if costs compare.
        """
        apart = bool(self.ranks and other.ranks and not {*self.ranks} & {*other.ranks})
        if self.id == other.id and not apart:
            return self._of_common_ranks(other)
        if UNSTABLE in (self.severity, other.severity) or not self._may_move_to(other, costs_compare):
            return None
        if self.id == other.id:
            return Kinship.OTHER_RANKS
        if {self.id, other.id} <= {*LATENESS}:
            return Kinship.OTHER_RULE_AND_RANKS if apart else Kinship.OTHER_RULE
        return None

    def _of_common_ranks(self, other: StatedFinding) -> Kinship | None:
        """Return how near a finding of the same rule and of ranks in common is.

        A rank is late again where its host comes late at another place, but of another cause where that is a call or a
        range by name.
        """
        if self.subject != other.subject:
            if self.id not in LATENESS:
                return None
            if self._has_cause or other._has_cause:
                return None if UNSTABLE in (self.severity, other.severity) else Kinship.OTHER_CAUSE
        return Kinship.SAME_RANKS if self.ranks == other.ranks else Kinship.COMMON_RANKS

    @property
    def _has_cause(self) -> bool:
        """Return whether the subject is more than the place where a host was late by chance."""
        return bool(self.subject) and not self.subject.startswith(BEFORE_LAUNCH)

    def _may_move_to(self, other: StatedFinding, costs_compare: bool) -> bool:
        """Return whether ranks may be late for one reason: the same cause, or none by name and about as long.

        How long counts only if costs compare.
        """
        if self._has_cause or other._has_cause:
            return self.subject == other.subject
        less, more = sorted((self.cost_ns, other.cost_ns))
        return not costs_compare or less >= LESS * more


def stated_finding(
    rule: str, severity: str, title: str, cost_ns: float, ranks: Sequence[int], evidence: Mapping[str, Any]
) -> StatedFinding:
    """Return a finding, found now or stored, as comparisons see it."""
    subject, kernels = _subject(rule, evidence), _kernels(evidence)
    return StatedFinding(rule, severity, title, round(cost_ns), tuple(ranks), subject, kernels)


def _subject(rule: str, evidence: Mapping[str, Any]) -> str:
    subject = next((str(evidence[key]) for key in SUBJECTS.get(rule, ()) if evidence.get(key)), "")
    # A host that is slow at many places has no cause by name.
    return "" if subject == AT_MANY_PLACES else subject


def _kernels(evidence: Mapping[str, Any]) -> tuple[str, ...]:
    # Some rules give the number of kernels by this key.
    several = evidence.get("kernels")
    if isinstance(several, list):
        return tuple(map(str, several))
    return (str(evidence["kernel"]),) if evidence.get("kernel") else ()
