"""Findings that are gone, new, or cost less or more: what counts, and how many are told."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.analysis.compare.changed_findings import changed_findings
from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.run_figures import KERNEL_TIME, RunFigures
from nsys2prv.analysis.compare.stated_finding import StatedFinding, stated_finding
from nsys2prv.analysis.iterations.iteration_times import ITERATION
from nsys2prv.model.units import text_ms

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
        ("late-rank", "high", 800_000, True),
        ("launch-bound", "low", 0, False),
    ],
)
def test_a_finding_of_both_runs_is_told_where_its_cost_changed(rule: str, severity: str, cost: int, told: bool) -> None:
    """Also if it is of low severity in one of them."""
    one = StatedFinding(rule, severity, "Launches, 9.00 ms", 9_000_000)
    other = StatedFinding(rule, "low", f"Launches, {text_ms(cost)}", cost)
    assert changed_findings([other], [one]).changed == (((other, one),) if told else ())
    more, less = (
        f"{word}, costing {text_ms(new.cost_ns)} instead of {text_ms(old.cost_ns)}: {new.title}"
        for word, old, new in (("More", other, one), ("Less", one, other))
    )
    assert [*changed_findings([other], [one]).lines()] == [more] * told
    assert [*changed_findings([one], [other]).lines()] == [less] * told


def test_of_findings_of_both_runs_the_costs_are_told_and_the_title_once() -> None:
    """The same long sentence stood twice in a line, and of others there were numbers without words."""
    first = StatedFinding("launch-bound", "high", "9 kernels leave it idle, 9.00 ms; so it is", 9_000_000, (1,))
    other = first._replace(title="2 kernels leave it idle, 2.00 ms", cost_ns=2_000_000)
    less = "Less, costing 2.00 ms instead of 9.00 ms: 2 kernels leave it idle, 2.00 ms"
    assert [*changed_findings([first], [other]).lines()] == [less]
    # Of other ranks the title tells which.
    both = other._replace(ranks=(1, 2))
    assert [*changed_findings([first], [both]).lines()] == [f"{less}; in A: 9 kernels leave it idle, 9.00 ms"]


def test_costs_are_told_where_titles_tell_other_times() -> None:
    """Less stood beside titles with a longer time than in the first run."""
    one = StatedFinding("unfused-elementwise", "high", "Kernels take 10.6 ms", 10_600_000)
    other = one._replace(title="Kernels take 10.7 ms", cost_ns=6_770_000)
    less = "Less, costing 6.77 ms instead of 10.6 ms: Kernels take 10.7 ms"
    more = "More, costing 10.6 ms instead of 6.77 ms: Kernels take 10.6 ms"
    assert [*changed_findings([one], [other]).lines()] == [less]
    assert [*changed_findings([other], [one]).lines()] == [more]


def test_a_costly_finding_of_iterations_that_take_as_long_has_to_change_as_much_as_another() -> None:
    """What the spread of iterations moves is no change: two lines of a verdict contradicted each other."""
    one, less, far_less = (
        StatedFinding("launch-bound", "high", f"{ns}", ns) for ns in (9_000_000, 7_000_000, 2_000_000)
    )
    assert changed_findings([one], [less]).changed == ((one, less),)
    assert changed_findings([one], [less], as_long=True).changed == ()
    assert changed_findings([one], [far_less], as_long=True).changed == ((one, far_less),)


def test_a_cost_that_changed_by_a_tenth_of_an_iteration_is_told_whatever_part_of_it_that_is() -> None:
    """A run became 28 % faster by copies of 0.24 ms instead of 0.7 ms, and no line said so."""
    half = COPIES._replace(cost_ns=COPIES.cost_ns // 2)
    changes = [
        changed_findings([COPIES], [half], as_long, noticeable_ns=ns).changed
        for as_long, ns in ((False, 2_000_000), (False, 2_000_001), (True, 2_000_000))
    ]
    assert changes == [((COPIES, half),), (), ()]


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
        # Hosts that are late in turn: which one is the latest is chance.
        ("exposed-waiting", (1, 2), 8_000_000, "Moved"),
        ("late-ranks", (2, 1), 8_000_000, "Moved"),
        # Of the same rank, too, or of all.
        ("exposed-waiting", (1, 0), 8_000_000, "Now"),
        ("exposed-waiting", (), 4_000_000, "Now"),
        ("late-ranks", (1, 0), 26_000_000, "Now"),
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


@pytest.mark.parametrize("rule", ["late-rank", "late-ranks"])
@pytest.mark.parametrize("cost", [2_000_000, 28_000_000])
def test_ranks_that_are_late_for_no_cause_by_name_are_one_fault_only_if_for_about_as_long(rule: str, cost: int) -> None:
    one = LATE._replace(ranks=(0,))
    other = one._replace(id=rule, ranks=(1,), cost_ns=cost)
    assert changed_findings([one], [other]) == ((one,), (other,), (), (), ())


@pytest.mark.parametrize(
    ("old", "new", "ranks", "line"),
    [
        ("mlp", "mlp", (1,), "Moved, and less: B; in A: Rank 1 is late"),
        ("mlp", "sem_wait", (1,), "Gone: Rank 1 is late, New: B"),
        ("mlp", "", (1,), "Gone: Rank 1 is late, New: B"),
        # By far less.
        ("", "launching k", (1,), "Gone: Rank 1 is late, New: B"),
        ("mlp", "sem_wait", (0,), "Now, and less: B; in A: Rank 1 is late"),
        ("", "fsync", (0,), "Now, and less: B; in A: Rank 1 is late"),
        # Where a busy host comes late by chance.
        ("", "launching k", (0,), ""),
        ("launching j", "launching k", (0,), ""),
    ],
)
def test_a_late_rank_has_moved_only_with_its_cause_and_another_cause_is_told(
    old: str, new: str, ranks: tuple[int, ...], line: str
) -> None:
    """Ranks that were late for other reasons were told as one fault that had moved."""
    one = LATE._replace(ranks=(0,), subject=old)
    other = LATE._replace(ranks=ranks, subject=new, title="B", cost_ns=2_000_000)
    assert ", ".join(changed_findings([one], [other]).lines()) == line


@pytest.mark.parametrize(
    ("rule", "ranks", "word"),
    [("late-rank", (1,), "Moved"), ("late-ranks", (1, 2), "Moved"), ("late-ranks", (0, 1), "Now")],
)
@pytest.mark.parametrize(
    ("old", "new", "one_fault"),
    [
        ("", "launching k", True),
        ("launching j", "launching k", True),
        ("launching k", "", True),
        ("launching k", "fsync", False),
    ],
)
def test_a_busy_host_has_moved_wherever_it_comes_late(
    rule: str, ranks: tuple[int, ...], word: str, old: str, new: str, one_fault: bool
) -> None:
    """Rank 0 late before one kernel and rank 1 late before another, for as long, were told as two faults."""
    one = LATE._replace(ranks=(0,), subject=old)
    other = LATE._replace(id=rule, ranks=ranks, subject=new, title="B", cost_ns=8_000_000)
    words = [line.split(":")[0] for line in changed_findings([one], [other]).lines()]
    assert words == ([word] if one_fault else ["Gone", "New"])


def test_a_late_rank_with_a_cause_by_name_is_not_the_waiting_in_turn_of_busy_hosts() -> None:
    one, waiting = LATE._replace(ranks=(0,), subject="eval"), LATE._replace(id="exposed-waiting", cost_ns=10_000_000)
    assert changed_findings([one], [waiting]) == ((one,), (waiting,), (), (), ())


@pytest.mark.parametrize("rule", ["late-rank", "host-bound"])
def test_waiting_in_turn_is_neither_gone_nor_new_where_a_rank_is_late_for_longer(rule: str) -> None:
    """The finding of such waiting is left out there, as it may be of the late rank, which `host-bound` tells, too."""
    one, waiting = (
        LATE._replace(id=rule, ranks=(0,), subject="eval"),
        LATE._replace(id="exposed-waiting", cost_ns=1_000_000),
    )
    assert changed_findings([one], [waiting]) == ((one,), (), (), (), ())
    assert changed_findings([waiting], [one]) == ((), (one,), (), (), ())


def test_a_cost_decides_nothing_where_costs_do_not_compare() -> None:
    """Waiting of 5 ms an iteration was hidden by a rank that was late for 400 ms of a window."""
    late, waiting = LATE._replace(ranks=(1,), subject="eval", cost_ns=400_000_000), LATE._replace(id="exposed-waiting")
    assert changed_findings([waiting], [late], costs_compare=False) == ((waiting,), (late,), (), (), ())
    busy = LATE._replace(ranks=(0,)), LATE._replace(ranks=(1,), cost_ns=400_000_000)
    assert changed_findings(busy[:1], busy[1:], costs_compare=False) == ((), (), (), (), ())
    of_causes = [one._replace(subject=call) for one, call in zip(busy, ("eval", "save"), strict=True)]
    assert changed_findings(of_causes[:1], of_causes[1:], costs_compare=False).gone == (of_causes[0],)


@pytest.mark.parametrize(
    ("rule", "evidence", "subject"),
    [
        ("late-rank", {"cause": "launching k", "manner": "launching more than others"}, "launching more than others"),
        ("late-rank", {"cause": "launching k", "manner": "slow at many places"}, ""),
        ("late-rank", {"cause": "launching k", "manner": None}, "launching k"),
        ("late-rank", {"phase": "load", "delay_ns": 1}, "load"),
        ("system-waiting", {"call": "fork"}, "fork"),
        ("allocations", {"call": "cudaFree"}, ""),
    ],
)
def test_the_subject_is_what_the_title_names(rule: str, evidence: dict[str, object], subject: str) -> None:
    assert stated_finding(rule, "high", "B", 1.4, [1], evidence) == (rule, "high", "B", 1, (1,), subject, ())


def test_waiting_in_another_call_is_another_fault() -> None:
    """0.3 ms in one call and 13 ms in another were told as more of the same."""
    one = StatedFinding("system-waiting", "low", "sem_clockwait", 300_000, subject="sem_clockwait")
    other = StatedFinding("system-waiting", "high", "fork", 13_000_000, subject="fork")
    assert changed_findings([one], [other]) == ((), (other,), (), (), ())


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
    less, waiting = one._replace(cost_ns=LATE.cost_ns // 2), zero._replace(id="exposed-waiting", cost_ns=10_000_000)
    assert changed_findings([zero], [waiting, less]) == ((), (waiting,), (), ((zero, less),), ())
    assert changed_findings([waiting, zero], [one]) == ((waiting,), (), (), ((zero, one),), ())
    both = zero._replace(ranks=(0, 1), title="Ranks 0 and 1 are late")
    assert changed_findings([both, one], [one]) == ((both,), (), (), (), ())


@pytest.mark.parametrize(
    ("evidence", "kernels"), [({"kernels": ["a", "b"]}, ("a", "b")), ({"kernel": "a"}, ("a",)), ({"kernels": 3}, ())]
)
def test_the_kernels_are_those_that_the_evidence_names(evidence: dict[str, object], kernels: tuple[str, ...]) -> None:
    assert stated_finding("matrix-products", "high", "B", 1, [], evidence).kernels == kernels


@pytest.mark.parametrize(
    ("rule", "kernels", "kept", "told"),
    [
        ("matrix-products", ("conv",), (9, 9), ", though its kernels take as long"),
        ("matrix-products", ("conv", "faster"), (9, 9), ""),
        ("matrix-products", ("faster",), (9, 9), ""),
        ("matrix-products", ("conv",), (9, 18), ""),  # as long in twice as many iterations
        ("matrix-products", ("only a",), (9, 9), ""),
        ("matrix-products", (), (9, 9), ""),
        # The worst kernel of several, the spread of its time, and the idle time around it.
        ("low-occupancy", ("conv",), (9, 9), ""),
        ("varying-kernels", ("conv",), (9, 9), ""),
        ("timed-kernels", ("conv",), (9, 9), ""),
    ],
)
def test_a_finding_is_not_said_to_be_gone_alone_where_its_kernels_take_as_long(
    rule: str, kernels: tuple[str, ...], kept: tuple[int, int], told: str
) -> None:
    """The critical path ran through others: convolutions of 38 ms in both runs were gone in one."""
    times = {"conv": (38.0, 37.0), "faster": (30.0, 3.0), "only a": (5.0, None)}
    sides = [
        RunFigures(
            *("a", ("app",), 1, 1, "communication", "steady", kept[side], None),
            {(KERNEL_TIME, name): of[side] for name, of in times.items() if of[side] is not None},
            pl.DataFrame(schema=ITERATION),
            findings=() if side else (COPIES._replace(id=rule, kernels=kernels),),
        )
        for side in (0, 1)
    ]
    assert Comparison(*sides).finding_lines == [f"Gone{told}: Copies of pageable memory"]
    assert Comparison(*reversed(sides)).finding_lines == [f"New{told}: Copies of pageable memory"]


@pytest.mark.parametrize("kept", [(9, 0), (0, 9)])
def test_findings_of_one_run_alone_are_told_where_costs_do_not_compare(kept: tuple[int, int]) -> None:
    """Nothing was told of two runs of which one has no iterations."""
    costly = COPIES._replace(cost_ns=100 * COPIES.cost_ns, severity="high")
    sides = [
        RunFigures(
            "a", ("app",), 1, 1, "communication", "steady", count, None, {}, pl.DataFrame(schema=ITERATION), findings
        )
        for count, findings in zip(kept, ((LATE, COPIES), (costly,)), strict=True)
    ]
    found = Comparison(*sides)
    assert found.changed_findings == ((LATE,), (), (), (), ())
    why = "one run has no iterations, without which other findings may be found"
    before = f"Findings of one run alone (costs of the others do not compare: {why}):"
    assert found.finding_lines == [before, "Gone: Rank 1 is late"]
    assert found.as_json()["findings"]["costs_compare"] is False
    alike = Comparison(sides[1], sides[1]._replace(findings=(LATE,)))
    assert alike.finding_lines == ["Gone: Copies of pageable memory", "New: Rank 1 is late"]
    assert alike.as_json()["findings"]["costs_compare"] is True


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
