"""Decide what changed from one run to the other, and by which test. The sentences are in verdict_sentences."""

from __future__ import annotations

from enum import Enum, auto
from typing import Literal, NamedTuple

from nsys2prv.analysis.compare.significance import LEAST_CHANGE, Change, Significance

# A rank explains a change of the iteration if its compute time changed by this part of it, or more.
EXPLAINS = 0.25

ComparisonOutcome = Literal["slower", "faster", "rank slower", "rank faster", "none", "unknown"]


class Verdict(NamedTuple):
    """The change from a to b, in a word and in plain sentences.

    `change`: `slower` and `faster` are of the iteration, `rank slower` and `rank faster` of the compute time of a rank
    alone; `unknown`: there are too few iterations to tell.
    """

    change: ComparisonOutcome
    text: str


class DecidedBy(Enum):
    """The test or the lack of one on which a verdict rests."""

    NO_ITERATIONS = auto()  # a run has none, or those of the runs do not compare
    AVERAGE = auto()  # a few long iterations move it, and not the median
    MEDIAN = auto()  # the median iteration changed significantly
    RANKS = auto()  # the iteration did not, but the compute time of ranks
    TOO_FEW = auto()  # the test needs more iterations
    NO_CHANGE = auto()  # neither the iteration nor a rank changed significantly


class Decision(NamedTuple):
    """The outcome of a comparison, what it rests on, and the ranks that changed significantly, most changed first."""

    outcome: ComparisonOutcome
    by: DecidedBy
    ranks: tuple[Change, ...]

    def explained_by(self, a: float, b: float) -> tuple[Change, ...]:
        """Return the ranks whose compute time explains a change of the iteration from `a` to `b` (ns)."""
        return tuple(one for one in self.ranks if (one.b - one.a) * (b - a) >= EXPLAINS * (b - a) ** 2)


def decide(tested: Significance) -> Decision:
    """Decide what changed from a to b. The average counts before the median, and that before single ranks."""
    ranks = tuple(sorted((one for one in tested.ranks if one.significant), key=lambda one: -abs(one.share)))
    if tested.iteration is None:
        return Decision("unknown", DecidedBy.NO_ITERATIONS, ranks)
    if tested.average and tested.average.decides:
        counts = abs(tested.average.share) >= LEAST_CHANGE
        return Decision(_direction(tested.average.share) if counts else "none", DecidedBy.AVERAGE, ranks)
    if tested.iteration.significant:
        return Decision(_direction(tested.iteration.share), DecidedBy.MEDIAN, ranks)
    if ranks:
        return Decision("rank slower" if ranks[0].b > ranks[0].a else "rank faster", DecidedBy.RANKS, ranks)
    if tested.iteration.p is None:
        return Decision("unknown", DecidedBy.TOO_FEW, ranks)
    return Decision("none", DecidedBy.NO_CHANGE, ranks)


def _direction(share: float) -> ComparisonOutcome:
    return "slower" if share > 0 else "faster"
