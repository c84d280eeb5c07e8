"""What a verdict rests on, decided from the tested changes alone."""

import pytest

from nsys2prv.analysis.compare.average import Average
from nsys2prv.analysis.compare.significance import Change, Significance
from nsys2prv.analysis.compare.verdict import DecidedBy, decide

SLOWER, ALIKE, UNTOLD = Change(None, 100, 120, 0.001), Change(None, 100, 101, 0.5), Change(None, 100, 120, None)
RANKS = (Change(0, 100, 90, 0.001), Change(1, 100, 150, 0.001), Change(2, 100, 200, 0.5))
FASTER_ON_AVERAGE = Average(100, 80, (3, 0), (8, 8), apart=True, decides=True)


@pytest.mark.parametrize(
    ("iteration", "ranks", "average", "outcome", "by"),
    [
        (None, RANKS, None, "unknown", DecidedBy.NO_ITERATIONS),
        (SLOWER, RANKS, FASTER_ON_AVERAGE, "faster", DecidedBy.AVERAGE),
        (SLOWER, RANKS, FASTER_ON_AVERAGE._replace(b=100.1), "none", DecidedBy.AVERAGE),
        (SLOWER, RANKS, FASTER_ON_AVERAGE._replace(decides=False), "slower", DecidedBy.MEDIAN),
        (ALIKE, RANKS, None, "rank slower", DecidedBy.RANKS),
        (UNTOLD, RANKS[:1], None, "rank faster", DecidedBy.RANKS),
        (UNTOLD, RANKS[2:], None, "unknown", DecidedBy.TOO_FEW),
        (ALIKE, (), None, "none", DecidedBy.NO_CHANGE),
    ],
)
def test_the_first_of_average_median_and_ranks_that_tells_a_change_decides(
    iteration: Change | None, ranks: tuple[Change, ...], average: Average | None, outcome: str, by: DecidedBy
) -> None:
    found = decide(Significance((8, 8), iteration, ranks, average))
    assert (found.outcome, found.by) == (outcome, by)


def test_the_ranks_that_changed_come_with_the_most_changed_first() -> None:
    assert [one.rank for one in decide(Significance((8, 8), SLOWER, RANKS)).ranks] == [1, 0]


def test_ranks_that_changed_far_less_than_the_iteration_do_not_explain_it() -> None:
    decision = decide(Significance((8, 8), Change(None, 1000, 1200, 0.001), RANKS))
    assert [one.rank for one in decision.explained_by(1000, 1200)] == [1]
    assert decision.explained_by(1000, 1201) == ()
    assert [one.rank for one in decision.explained_by(120, 100)] == [0]
