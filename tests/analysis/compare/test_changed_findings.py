"""Findings that are gone, new, or cost less or more: what counts, and how many are told."""

from __future__ import annotations

import pytest

from nsys2prv.analysis.compare.changed_findings import StatedFinding, changed_findings

LATE = StatedFinding("late-rank", "high", "Rank 1 is late", 9_000_000)
COPIES = StatedFinding("pageable-copies", "medium", "Copies of pageable memory", 4_000_000)


def test_a_finding_of_one_run_is_gone_or_new() -> None:
    assert changed_findings([LATE, COPIES], [LATE]) == ((COPIES,), (), (), (), ())
    assert changed_findings([LATE], [LATE, COPIES]) == ((), (COPIES,), (), (), ())


@pytest.mark.parametrize(
    ("rule", "severity", "cost", "told"),
    [
        ("launch-bound", "high", 8_000_000, True),
        ("launch-bound", "high", 8_500_000, False),
        ("launch-bound", "medium", 4_000_000, False),
        ("launch-bound", "medium", 2_000_000, True),
        # A bound, which other hosts set.
        ("late-rank", "high", 2_000_000, False),
        ("launch-bound", "low", 0, False),
    ],
)
def test_a_finding_of_both_runs_is_told_where_its_cost_changed(rule: str, severity: str, cost: int, told: bool) -> None:
    """Also if it is of low severity in one of them."""
    one = StatedFinding(rule, severity, "Launches of B", 9_000_000)
    other = StatedFinding(rule, "low", "Launches of A", cost)
    assert changed_findings([other], [one]).changed == (((other, one),) if told else ())
    assert [*changed_findings([other], [one]).lines()] == ["More: Launches of B; in A: Launches of A"] * told
    assert [*changed_findings([one], [other]).lines()] == ["Less: Launches of A; in A: Launches of B"] * told


def test_a_costly_finding_of_iterations_that_take_as_long_has_to_change_as_much_as_another() -> None:
    """What the spread of iterations moves is no change: two lines of a verdict contradicted each other."""
    one, less, far_less = (
        StatedFinding("launch-bound", "high", f"{ns}", ns) for ns in (9_000_000, 7_000_000, 2_000_000)
    )
    assert changed_findings([one], [less]).changed == ((one, less),)
    assert changed_findings([one], [less], as_long=True).changed == ()
    assert changed_findings([one], [far_less], as_long=True).changed == ((one, far_less),)


def test_what_is_low_or_was_not_recorded_is_no_change() -> None:
    low = COPIES._replace(severity="low")
    missing = StatedFinding("missing-data", "high", "Not recorded: CUDA", 0)
    assert changed_findings([low, missing], []) == ((), (), (), (), ())


def test_findings_without_a_cost_change_only_where_the_other_run_has_none() -> None:
    failed = StatedFinding("failed-calls", "medium", "CUDA calls of the program failed", 0)
    assert changed_findings([failed], [failed]) == ((), (), (), (), ())
    assert changed_findings([failed], []).gone == (failed,)


def test_a_rank_that_another_run_names_as_well_has_not_moved() -> None:
    """Findings without ranks are about all of them."""
    assert changed_findings([LATE._replace(ranks=(3,))], [LATE]) == ((), (), (), (), ())


@pytest.mark.parametrize(
    ("rule", "ranks", "cost", "word"),
    [
        ("late-rank", (1,), 8_000_000, "Moved"),
        ("late-rank", (1,), 2_000_000, "Moved, and less"),
        ("late-rank", (1,), 28_000_000, "Moved, and more"),
        # Hosts that are late in turn: which one is the latest is chance.
        ("exposed-waiting", (1, 2), 8_000_000, "Moved"),
        ("late-ranks", (2, 1), 8_000_000, "Moved"),
        # Of the same rank, too, or of all.
        ("exposed-waiting", (1, 0), 8_000_000, "Now"),
        ("exposed-waiting", (), 2_000_000, "Now, and less"),
        ("late-ranks", (1, 0), 28_000_000, "Now, and more"),
    ],
)
def test_a_fault_of_another_rank_or_rule_is_one_line_with_both_costs(
    rule: str, ranks: tuple[int, ...], cost: int, word: str
) -> None:
    one, other = LATE._replace(ranks=(0,)), StatedFinding(rule, "medium", "Others wait", cost, ranks)
    found = changed_findings([one], [other])
    told_otherwise = found.moved if word.startswith("Moved") else found.retold
    assert told_otherwise == ((one, other),)
    assert [*found.lines()] == [f"{word}: Others wait; in A: Rank 1 is late"]


def test_only_one_fault_moves_and_none_of_low_severity() -> None:
    one = LATE._replace(ranks=(0,))
    for other in (one._replace(id="imbalance", ranks=(1,)), COPIES):
        assert changed_findings([one], [other]) == ((one,), (other,), (), (), ())
    assert changed_findings([one], [one._replace(severity="low", ranks=(1,))]) == ((one,), (), (), (), ())


def test_a_finding_moves_only_if_its_own_ranks_are_free_of_it() -> None:
    zero, one, two = (LATE._replace(ranks=(rank,)) for rank in range(3))
    assert changed_findings([zero, one], [one, two]).moved == ((zero, two),)


def test_a_finding_matches_the_nearest_one_whatever_it_costs() -> None:
    """Of one rule before another, and of the same ranks before others, also where a worse finding comes first."""
    zero, one = (LATE._replace(ranks=(rank,)) for rank in range(2))
    less, waiting = one._replace(cost_ns=LATE.cost_ns // 2), zero._replace(id="exposed-waiting")
    assert changed_findings([zero], [waiting, less]) == ((), (waiting,), (), ((zero, less),), ())
    assert changed_findings([waiting, zero], [one]) == ((waiting,), (), (), ((zero, one),), ())
    both = zero._replace(ranks=(0, 1), title="Ranks 0 and 1 are late")
    assert changed_findings([both, one], [one]) == ((both,), (), (), (), ())


def test_the_worst_three_are_told() -> None:
    many = [COPIES._replace(id=f"rule-{n}", title=f"Finding {n}") for n in range(5)]
    assert list(changed_findings(many, [LATE]).lines()) == [
        "Gone: Finding 0",
        "Gone: Finding 1",
        "Gone: Finding 2",
        "Gone: 2 more findings",
        "New: Rank 1 is late",
    ]


def test_each_finding_changes_into_one() -> None:
    """Of one rule that names all ranks, or ranks in common: the one of the same ranks, else the next in cost."""
    many = [COPIES._replace(cost_ns=100_000_000 - n, title=f"Late {n}") for n in range(4)]
    assert changed_findings(many, many).changed == ()
    half = [one._replace(cost_ns=one.cost_ns // 4) for one in many]
    named = COPIES._replace(ranks=(1, 2), cost_ns=40_000_000)
    assert changed_findings([named], [half[3], named]).changed == ()
    assert list(changed_findings(many, half).lines())[-1] == "Less or more: 1 more finding"
    others = [one._replace(ranks=(2 * n,)) for n, one in enumerate(many)]
    moved = [one._replace(ranks=(2 * n + 1,)) for n, one in enumerate(many)]
    assert list(changed_findings(others, moved).lines())[-1] == "Moved: 1 more finding"
