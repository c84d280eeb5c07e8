"""Findings that are gone, new, or cost less or more: what counts, and how many are told."""

from __future__ import annotations

from nsys2prv.analysis.compare.changed_findings import StatedFinding, changed_findings

LATE = StatedFinding("late-rank", "high", "Rank 1 is late", 9_000_000)
LESS_LATE = StatedFinding("late-rank", "medium", "Rank 0 is late", 2_000_000)
COPIES = StatedFinding("pageable-copies", "medium", "Copies of pageable memory", 4_000_000)


def test_a_finding_that_costs_a_third_or_less_is_gone_and_one_that_costs_half_is_not() -> None:
    half = LESS_LATE._replace(cost_ns=5_000_000)
    assert changed_findings([LATE, COPIES], [LESS_LATE]) == ((LATE, COPIES), (), ())
    assert changed_findings([LATE], [half]) == ((), (), ((LATE, half),))
    assert changed_findings([LESS_LATE], [LATE, COPIES]) == ((), (LATE, COPIES), ())


def test_a_finding_of_both_runs_is_told_where_its_cost_changed_by_a_fifth_and_costs_compare() -> None:
    half, alike = LATE._replace(cost_ns=5_000_000, title="Rank 1 is less late"), LATE._replace(cost_ns=8_000_000)
    assert changed_findings([LATE], [alike]).changed == ()
    assert changed_findings([LATE], [half], costs_compare=False).changed == ()
    assert changed_findings([COPIES], [COPIES._replace(cost_ns=2_000_000)]).changed == ()
    assert [*changed_findings([LATE], [half]).lines()] == ["Less, 5.00 ms instead of 9.00 ms: Rank 1 is less late"]
    assert [*changed_findings([half], [LATE]).lines()] == ["More, 9.00 ms instead of 5.00 ms: Rank 1 is late"]


def test_what_is_low_or_was_not_recorded_is_no_change() -> None:
    low = COPIES._replace(severity="low")
    missing = StatedFinding("missing-data", "high", "Not recorded: CUDA", 0)
    assert changed_findings([low, missing], []) == ((), (), ())


def test_findings_without_a_cost_change_only_where_the_other_run_has_none() -> None:
    failed = StatedFinding("failed-calls", "medium", "CUDA calls of the program failed", 0)
    assert changed_findings([failed], [failed]) == ((), (), ())
    assert changed_findings([failed], []).gone == (failed,)


def test_a_finding_about_another_rank_is_another_one() -> None:
    first, other = LATE._replace(ranks=(3,)), LATE._replace(ranks=(5,))
    assert changed_findings([first], [other]) == ((first,), (other,), ())
    assert changed_findings([first], [LATE]) == ((), (), ())


def test_the_worst_three_are_told() -> None:
    many = [COPIES._replace(id=f"rule-{n}", title=f"Finding {n}") for n in range(5)]
    assert list(changed_findings(many, [LATE]).lines()) == [
        "Gone: Finding 0",
        "Gone: Finding 1",
        "Gone: Finding 2",
        "Gone: 2 more findings",
        "New: Rank 1 is late",
    ]
