"""Ranks that are late: in all iterations or in some, alone or together, and the cause that is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from programs import ALL_BUSY, UNIT, Generous, analysis_of, ending_with_calls, findings_of, program

from nsys2prv.analysis.communication.delays import DELAY
from nsys2prv.analysis.communication.exposed_waits import EXPOSED
from nsys2prv.analysis.communication.wait_causes import CAUSE
from nsys2prv.analysis.facts.case import Case, case_of
from nsys2prv.analysis.facts.ranks.latecomers import gains_less
from nsys2prv.analysis.facts.ranks.recurring_cause import recurring_causes
from nsys2prv.analysis.findings.exposed_waiting import _why, for_whom
from nsys2prv.analysis.findings.imbalance import imbalance
from nsys2prv.analysis.findings.late_rank import BY_CHANCE, late_rank
from nsys2prv.analysis.frames import Run
from nsys2prv.cli.first_screen import verdict_of


def test_longer_compute_is_the_reason_if_it_explains_the_waiting_of_two_ranks() -> None:
    """Rank 1 computes 4.6 ms longer, which is 2.3 ms more than the mean, and rank 0 waits for it 5 ms."""
    late = "k @40 45-900, n @50 900-905, wait 60-905"
    found = findings_of(program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}"))
    assert next(reversed(found)) == "imbalance"
    assert "late-rank" not in found


@pytest.mark.parametrize(
    ("late", "says", "cost"),
    [
        # The device has nothing to do meanwhile.
        ("busy 0-300, k @300 305-700, k @301 700-990, n @302 990-995, wait 310-996", "2.99 ms late in `busy`", 0.5),
        # The kernels of the step before run until then.
        (
            "busy 0-300, k @300 305-500, k @301 500-690, n @302 690-995, wait 310-996",
            "removing this delay would not make the run faster",
            0,
        ),
    ],
)
def test_a_delay_of_one_iteration_is_named_and_costs_what_slack_leaves(late: str, says: str, cost: float) -> None:
    usual = "busy 0-1, k @1 2-402, k @2 402-690, n @2 690-695, wait 10-696"
    steps = f"0| {usual}\n1| {usual}"
    hidden = {} if cost else {"step5_rank0": usual.replace("690-695, wait 10-696", "690-995, wait 10-996")}
    run = ending_with_calls(program(steps, step5_rank1=late, **hidden))
    found = findings_of(run)
    own = found["late-rank"]
    assert (own.ranks, own.iterations) == ((1,), (5,))
    assert "late in `busy` of iteration 5" in own.title
    assert says in own.title
    assert own.cost_ns / 1e6 == pytest.approx(cost, abs=0.01)
    verdict = verdict_of(analysis_of(run), [Path("run")])
    assert ("late in `busy`" in verdict) == bool(cost)
    assert ("that gains next to nothing: --show findings" in verdict) != bool(cost)


@pytest.mark.parametrize(
    ("call", "says", "advice"),
    [
        ("os:clock_nanosleep 0-40, ", "Rank 1's `clock_nanosleep` delays rank 0", "The host sleeps"),
        ("os:fsync 0-40, ", "Rank 1's `fsync` delays rank 0", "writes or closes files"),
        # In it a thread may wait for others.
        ("os:pthread_cond_wait 0-40, ", "Rank 1's host work before `kernel` delays rank 0", "See what the host"),
        # Rank 1 sleeps while it waits for its device, and delays nobody by that.
        ("os:clock_nanosleep 110-150, ", "Rank 1's host work before `kernel` delays rank 0", "See what the host"),
        ("os:clock_nanosleep 0-15, ", "Rank 1's host work before `kernel` delays rank 0", "See what the host"),
        ("", "Rank 1's host work before `kernel` delays rank 0", "See what the host"),
    ],
)
def test_a_call_that_is_less_than_half_of_the_host_work_but_all_of_the_delay_is_named(
    call: str, says: str, advice: str
) -> None:
    """Both hosts work for 0.55 ms before they launch, and rank 1 is 0.4 ms longer in one call."""
    ranks = f"0| k @55 56-300, n @56 300-345, wait 60-346\n1| {call}k @95 96-340, n @96 340-345, wait 100-346"
    found = findings_of(program(ranks, every=400))["late-rank"]
    assert found.title.startswith(says)
    assert advice in found.advice


@pytest.mark.parametrize(
    ("steps", "seldom", "says", "advice"),
    [
        (8, (4, 7), "3.60 ms longer than the mean in iterations 4, 7 (2 of 8)", "share that over the ranks"),
        (20, (3, 7, 11, 15, 19), "longer than the mean in iterations 3, 7, 11, 15, 19 (5 of 20)", "share that over"),
        (8, (1, 2, 4, 6), "1.80 ms longer than the mean (the longest in 4 of 8 iterations)", "Share the work evenly"),
        (20, tuple(range(0, 20, 2)), "1.80 ms longer than the mean (the longest in 10 of 20", "Share the work evenly"),
    ],
)
def test_a_rank_that_computes_longer_now_and_then_is_named_with_the_iterations(
    steps: int, seldom: tuple[int, ...], says: str, advice: str
) -> None:
    """It evaluates alone after some steps, and the others wait for it in the next collective."""
    usual = "k @0 5-200, n @10 200-205, wait 20-205"
    longer = {f"step{n}_rank0": "k @0 5-200, k @1 200-920, n @10 920-925, wait 20-925" for n in seldom}
    waits = {f"step{n}_rank1": "k @0 5-200, n @10 200-925, wait 20-925" for n in seldom}
    found = findings_of(program(f"0| {usual}\n1| {usual}", steps=steps, **longer, **waits))["imbalance"]
    assert says in found.title
    assert advice in found.advice
    named = seldom if "in iterations" in says else tuple(range(steps))
    assert (found.ranks, found.iterations) == ((0,), named)
    assert found.confidence == ("high" if "in iterations" in says else "medium"), "alike in half of the iterations"


class Gaining(Case):
    """A case in which each change gains 0.6 ms."""

    def gain(self, change: str) -> float:
        return 600_000


def test_a_rank_that_computes_longer_is_named_though_it_waits_for_more_once() -> None:
    """Rank 0 writes a file in one of four iterations, for which rank 1 waits longer than rank 0 does in all others."""
    usual = "0| k @0 5-600, n @10 600-695, wait 20-695\n1| k @0 5-690, n @10 690-695, wait 20-695"
    writes = {
        "step2_rank0": "write 0-390, k @390 392-990, n @391 990-995, wait 392-995",
        "step2_rank1": "k @0 5-690, n @10 690-995, wait 20-995",
    }
    case = case_of(analysis_of(program(usual, steps=4, **writes)))
    (found,) = imbalance(Gaining(**vars(case)))
    excess = pytest.approx(found.evidence["longer_than_mean_ns"], abs=1)
    assert 300_000 < found.evidence["longer_than_mean_ns"] < 600_000
    assert (found.ranks, found.cost_ns, found.evidence["exposed_waiting_ns"]) == ((1,), excess, 0)
    assert not [*imbalance(Generous(**vars(case)))], "where equal shares gain far more, others compute longer in turn"
    assert not [*imbalance(case)], "what gains less than 3 % is none"


def test_a_late_rank_costs_no_more_than_others_wait_for_it() -> None:
    """Without delays other ranks gain, too."""
    late = "0| k @0 5-400, n @10 400-905, wait 20-905\n1| busy 0-500, k @500 505-900, n @510 900-905"
    (found,) = late_rank(Generous(**vars(case_of(analysis_of(program(late))))))
    assert found.cost_ns == found.evidence["exposed_waiting_ns"] == 5_000_000


@pytest.mark.parametrize(
    ("ms", "phase", "waits", "costs", "title"),
    [
        (
            3,
            "(outside its ranges)",
            3_000_000,
            (400, 200),
            "Rank 0 is 3.00 ms late in iteration 3: 0.20 ms an iteration",
        ),
        (
            30,
            "load",
            3_000_000,
            (400, 200),
            "in `load` of iteration 3: removing this delay alone gains 0.20 ms an iteration, as rank 1 is late, too",
        ),
        (
            30,
            "load",
            300_000,
            (571, 29),
            "late in `load` of iteration 3: removing this delay alone gains little, as rank 1 is late, too",
        ),
    ],
)
def test_what_a_run_gains_without_delays_is_told_once(
    ms: int, phase: str, waits: int, costs: tuple[int, int], title: str
) -> None:
    """Rank 1 is late all along, and rank 0 once: each has its part of the 0.6 ms, as others wait for it."""
    case = Gaining(**vars(case_of(analysis_of(program("0| k @0 5-900\n1| k @0 5-900")))))
    usual = {"kind": "nccl", "operation": "AllReduce", "waits_at": 0}
    pairs = [(0, 1, 6_000_000), (1, 0, waits)]
    rows = [{**usual, "rank": rank, "waited_for": late, "exposed_waiting_ns": ns} for rank, late, ns in pairs]
    exposed = pl.DataFrame(rows, schema={c: t for c, t in EXPOSED.items() if c in rows[0]})
    delays = pl.DataFrame([(0, 3, 0, phase, ms * 10**6, ms * 10**6, 0)], schema=DELAY, orient="row")
    found = [*late_rank(replace(case, exposed=exposed, analysis=case.analysis._replace(delays=delays)))]
    assert [(one.ranks, round(one.cost_ns / 1000)) for one in found] == [((1,), costs[0]), ((0,), costs[1])]
    assert title in found[1].title
    # 1 % of an iteration is something.
    assert found[1].gains == ("little" not in title)
    assert found[1].advice.startswith("See what the host of rank 0 does there")


@pytest.mark.parametrize(
    ("ms", "phase", "ranks"),
    [(2, "load", [(1, 0)]), (1, "load", [(1,), (0,)]), (2, "save", [(1,), (0,)])],
    ids=["as late", "less late", "late in another phase"],
)
def test_ranks_that_are_late_in_turn_are_told_by_one_finding(ms: int, phase: str, ranks: list[tuple[int, ...]]) -> None:
    """Rank 1 is 3 ms late once, and rank 0 in another iteration: what is gained without delays is of both."""
    case = Gaining(**vars(case_of(analysis_of(program("0| k @0 5-900\n1| k @0 5-900")))))
    usual = {"kind": "nccl", "operation": "AllReduce", "waits_at": 0}
    pairs = [(0, 1, 6_000_000), (1, 0, 2_000_000)]
    rows = [{**usual, "rank": rank, "waited_for": late, "exposed_waiting_ns": ns} for rank, late, ns in pairs]
    exposed = pl.DataFrame(rows, schema={c: t for c, t in EXPOSED.items() if c in rows[0]})
    late = [(1, 2, 0, "load", 3_000_000, 3_000_000, 0), (0, 3, 0, phase, ms * 10**6, ms * 10**6, 0)]
    delays = pl.DataFrame(late, schema=DELAY, orient="row")
    first, *rest = late_rank(replace(case, exposed=exposed, analysis=case.analysis._replace(delays=delays)))
    assert [first.ranks, *(one.ranks for one in rest)] == ranks
    assert first.cost_ns == pytest.approx(450_000 if rest else 600_000)
    title = "Ranks 0 and 1 are late in turn: the host of rank 1 delays rank 0 by 0.67 ms an iteration; "
    assert (first.title == f"{title}rank 0 is as late in 1 other") == (not rest)
    assert ("hosts of ranks 0 and 1" in first.advice) == (not rest)
    for one in rest:
        assert [part.again for part in one.common] == ["garbage collection (see above)"]


@pytest.mark.parametrize(
    ("waits", "titles"),
    [
        ([(0, 1, 30), (2, 3, 20)], ["1 delays rank 0", "3 delays rank 2"]),
        ([(0, 1, 30), (2, 3, 20), (2, 1, 2)], ["1 delays rank 0", "3 delays rank 2"]),
        ([(0, 1, 30), (2, 3, 20), (2, 1, 15)], ["1 delays 2 ranks"]),
        ([(0, 1, 30), (3, 0, 40)], ["1 delays rank 0"]),
    ],
    ids=["apart", "hardly waits", "waits for both", "passes on"],
)
def test_the_latest_rank_of_each_group_is_named(waits: list[tuple[int, int, int]], titles: list[str]) -> None:
    """Rank, the one that it waits for, and how long in all (ms)."""
    case = case_of(analysis_of(program("0| k @0 5-900\n1| k @0 5-900\n2| k @0 5-900\n3| k @0 5-900")))
    usual = {"kind": "nccl", "operation": "AllReduce", "waits_at": 0}
    rows = [{**usual, "rank": rank, "waited_for": late, "exposed_waiting_ns": ms * 10**6} for rank, late, ms in waits]
    exposed = pl.DataFrame(rows, schema={c: t for c, t in EXPOSED.items() if c in rows[0]})
    found = [*late_rank(replace(case, exposed=exposed))]
    assert [one.title.removeprefix("The host of rank ").split(" by ")[0] for one in found] == titles


def test_a_title_says_what_can_be_gained_if_that_is_far_less_than_the_delay() -> None:
    assert gains_less(5e6, 9e6) == ""
    assert gains_less(4e6, 9e6) == "; removing this delay gains about 4.00 ms, as other hosts are busy, too"


@pytest.mark.parametrize(
    ("causes", "title"),
    [
        ([("host work", "read", 9, 6)], "Rank 1's `read` delays rank 0 by 5.00 ms an iteration, in 6 of 6 iterations"),
        (
            [("host work", "read", 9, 5)],
            "Rank 1's `read` delays rank 0 by 5.00 ms an iteration on average, in 5 of 6 iterations",
        ),
        (
            [("host work", "read", 9, 2)],
            "Rank 1's `read` delays rank 0 by 5.00 ms an iteration on average, in 2 of 2 iterations in which ranks "
            "wait",
        ),
        ([("host work", "", 9, 6), ("host work", "read", 5, 5)], "Rank 1's `read` delays rank 0"),
        ([("host work", "", 9, 6), ("host work", "read", 4, 5)], "The host of rank 1 delays rank 0"),
        ([("host work", "read", 9, 0)], "Rank 1's `read` delays rank 0 by 5.00 ms an iteration"),
        ([("transfer", "", 9, 4), ("host work", "read", 8, 5)], "Collectives hold up rank 1, which delays rank 0"),
        ([("compute", "GEMM", 9, 6), ("host work", "read", 8, 5)], "Rank 1's `read` delays rank 0"),
    ],
    ids=[
        "named",
        "not in all",
        "few waits",
        "half of it named",
        "most without a name",
        "in none",
        "collectives",
        "compute is no reason",
    ],
)
def test_a_late_rank_is_late_for_what_most_of_the_waiting_comes_from(
    causes: list[tuple[str, str, int, int]], title: str
) -> None:
    late = "0| k @0 5-400, n @10 400-905, wait 20-905\n1| busy 0-500, k @500 505-900, n @510 900-905"
    case = case_of(analysis_of(program(late)))
    rows = [(1, kind, name, ns, 1, often, 2 if often == 2 else 6) for kind, name, ns, often in causes]
    told = case.analysis.explanation._replace(causes=pl.DataFrame(rows, schema=CAUSE, orient="row"))
    (found,) = late_rank(replace(case, analysis=case.analysis._replace(explanation=told)))
    assert found.title.startswith(title)
    assert "in 0 of" not in found.title
    assert ("See the collectives of rank 1" in found.advice) == title.startswith("Collectives")
    assert "messages" not in found.advice


def test_a_sleep_is_part_of_the_idle_time_of_a_late_rank() -> None:
    late = "0| k @0 5-400, n @10 400-905, wait 20-905\n1| os:nanosleep 0-500, k @500 505-900, n @510 900-905"
    assert findings_of(program(late))["late-rank"].evidence["its_device_starved_ns"] >= 500 * UNIT


@pytest.mark.parametrize(("name", "told"), [("python3.12", True), ("a.out", False)])
def test_a_rank_that_waits_for_the_interpreter_lock_is_told_so(name: str, told: bool) -> None:
    late = "os:pthread_cond_timedwait 0-500, k @500 505-900, n @510 900-905, wait 520-905"
    run = program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}")
    found = findings_of(run._replace(tasks=tuple(task._replace(name=name) for task in run.tasks)))
    assert ("Python waits for its interpreter lock" in found["late-rank"].advice) == told


def test_host_work_without_a_name_is_known_by_what_it_launches() -> None:
    late = "k @500 505-900, n @510 900-905"
    found = findings_of(program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}"))
    assert found["late-rank"].title.startswith("Rank 1's host work before `kernel` delays rank 0")


def test_a_replay_that_knows_more_than_hosts_have_to_spare_says_what_a_late_rank_costs() -> None:
    """`whatif --set delay=0` then gains what the finding says."""
    case = case_of(analysis_of(program(ALL_BUSY)))
    (known,) = late_rank(case)
    assert "delay=0" not in known.advice + known.command, "that replay does not know this delay"
    (told,) = late_rank(WithoutDelays(**vars(case)))
    assert known.cost_ns / 1e6 == pytest.approx(2.8, rel=0.06)
    assert told.cost_ns == 3e6
    assert "removing this delay gains about 3.00 ms" in told.title
    assert told.command == "nsys2prv whatif RUN --set delay=0"


def test_a_late_rank_costs_no_more_than_all_hosts_could_gain() -> None:
    late = "0| k @0 5-400, n @10 400-905, wait 20-905\n1| busy 0-500, k @500 505-900, n @510 900-905"
    case = case_of(analysis_of(program(late)))
    (found,) = late_rank(WithoutHosts(**vars(case)))
    assert found.cost_ns == 4e6
    assert found.title.endswith("; by a replay, faster hosts gain 4.00 ms")
    (unlimited,) = late_rank(WithoutGain(**vars(case)))
    assert unlimited.cost_ns > 4e6


class WithoutGain(Case):
    """A case in which replays gain nothing."""

    def gain(self, change: str) -> float:
        return 0.0


class WithoutHosts(Case):
    """A case in which hosts that are done at once would gain 4 ms."""

    def gain(self, change: str) -> float:
        return 4e6 if change == "host=0" else 0.0


class WithoutDelays(Case):
    """A case in which a run without delays would gain 3 ms."""

    def gain(self, change: str) -> float:
        return 3e6 if change == "delay=0" else 0.0


def test_the_place_of_a_late_host_is_on_the_device_that_has_least_work() -> None:
    """Rank 0's device has nothing for once longer, as where its host sleeps in one iteration."""
    sleeps = {"step3_rank0": "k @600 605-800, n @810 810-905, k @811 905-990, wait 820-990"}
    run = program(ALL_BUSY, **sleeps)
    at = findings_of(run)["host-bound"].at_ns
    assert at is not None
    assert at in run.work.filter(task=1)["end"].to_list()
    assert run.work.filter(pl.col("task") == 0, pl.col("start") <= at, pl.col("end") > at).height == 1


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_the_advice_on_a_late_host_says_if_the_others_are_slow_too(busy: bool) -> None:
    """Rank 0 waits for the AllReduce of rank 1, and its own last kernels are launched late, or at once."""
    own = (
        "n @190 205-905, k @700 905-950, k @701 950-990, wait 710-990"
        if busy
        else "n @10 205-905, k @11 905-950, k @12 950-990, wait 20-990"
    )
    late = "k @0 5-100, k @400 405-450, n @890 895-905, k @900 905-990"
    (found,) = late_rank(case_of(analysis_of(program(f"0| k @0 5-200, {own}\n1| {late}"))))
    assert found.title.startswith("Rank 1's host work before `NCCL AllReduce` delays rank 0")
    said = (
        "Hosts of other ranks have little time to spare, too: launching less helps every rank. Then see what the host"
    )
    assert found.advice.startswith(said if busy else "See what the host of rank 1 does")


def test_a_host_without_a_device_that_waits_says_nothing_of_the_others() -> None:
    found = findings_of(program(ALL_BUSY + "2| wait 0-990"))
    assert found["host-bound"].cost_ns / 1e6 == pytest.approx(7.1 - 2.8, rel=0.06)


WAITS_LONG = "k @0 5-100, n @10 100-705, wait 20-706"


def test_ranks_that_are_late_together_are_named_with_their_host() -> None:
    """Ranks 2 and 3 come last in turn, and the other one of them 3 ms before."""
    last, before = "k @0 5-100, busy 100-690, n @700 700-705", "k @0 5-100, busy 100-390, n @400 400-705"
    picture = f"0| {WAITS_LONG}\n1| {WAITS_LONG}\n2| {last}\n3| {before}"
    run = program(picture, **{f"step{n}_rank{r}": (last, before)[r % 2 == 0] for n in (1, 3, 5) for r in (2, 3)})
    found = findings_of(run)
    assert "late-rank" not in found
    assert found["late-ranks"].title == "Ranks 2 and 3 delay 2 ranks by 6.00 ms an iteration"
    assert found["late-ranks"].cost_ns / 1e6 == pytest.approx(6.0)
    tasks = tuple(task._replace(host=f"n{task.rank // 2}") for task in run.tasks)
    assert "Ranks 2 and 3, on n1, delay" in findings_of(run._replace(tasks=tasks))["late-ranks"].title


def test_of_a_large_late_group_the_first_ranks_are_named() -> None:
    """Each of the nine ranks 9 to 17 comes last in one of nine steps, and the others of them 0.5 ms before."""
    last, before = "k @0 5-100, busy 100-690, n @700 700-705", "k @0 5-100, busy 100-640, n @650 650-705"
    picture = "\n".join(f"{rank}| {WAITS_LONG if rank < 9 else before}" for rank in range(18))
    found = findings_of(program(picture, steps=9, **{f"step{n}_rank{9 + n}": last for n in range(9)}))
    assert found["late-ranks"].title.startswith("Ranks 9 to 17 delay 9 ranks")
    assert found["late-ranks"].ranks == tuple(range(9, 17))


def test_ranks_for_which_nobody_waits_are_in_no_late_group() -> None:
    """Ranks 4 and 5 come 0.5 ms before the last one, each time; rank 8 takes no part."""
    last, before = "k @0 5-100, busy 100-690, n @700 700-705", "k @0 5-100, busy 100-390, n @400 400-705"
    near = "k @0 5-100, busy 100-640, n @650 650-705"
    ranks = [WAITS_LONG, WAITS_LONG, last, before, near, near, WAITS_LONG, WAITS_LONG, "k @0 5-700"]
    picture = "\n".join(f"{rank}| {line}" for rank, line in enumerate(ranks))
    run = program(picture, **{f"step{n}_rank{r}": (last, before)[r % 2 == 0] for n in (1, 3, 5) for r in (2, 3)})
    found = findings_of(run)["late-ranks"]
    assert (found.ranks, found.evidence["waiting_ranks"]) == ((2, 3), [0, 1, 4, 5, 6, 7])


def test_a_rank_that_is_as_late_by_itself_is_no_group() -> None:
    """Rank 3 comes 3 ms before rank 2, each time."""
    last, before = "k @0 5-100, busy 100-690, n @700 700-705", "k @0 5-100, busy 100-390, n @400 400-705"
    found = findings_of(program(f"0| {WAITS_LONG}\n1| {WAITS_LONG}\n2| {last}\n3| {before}"))
    assert found["late-rank"].ranks == (2,)
    assert "late-ranks" not in found


def slept_and_late_in_turn() -> Run:
    """Rank 0 sleeps before the first collective of each iteration; before the second, ranks 1 and 2 are late in turn.

    They wait 2 ms for rank 0, and all of them 3 ms for one of the others.
    """
    slept = "k @0 5-100, os:clock_nanosleep 105-300, n @305 310-315"
    waited = "k @0 5-100, n @10 100-315"
    early, late = "k @315 320-400, n @325 400-705, wait 330-706", "k @610 615-700, n @620 700-705, wait 630-706"
    lates = {f"step{n}_rank{n % 2 + 1}": f"{waited}, {late}" for n in range(6)}
    return program(f"0| {slept}, {early}\n1| {waited}, {early}\n2| {waited}, {early}", **lates)


def test_a_cause_that_recurs_is_named_also_where_other_ranks_are_late_in_turn() -> None:
    found = findings_of(slept_and_late_in_turn())
    assert found["late-rank"].title == (
        "Rank 0's `clock_nanosleep` delays 2 ranks by 2.10 ms an iteration, in 6 of 6 iterations"
    )
    assert found["late-rank"].cost_ns / 1e6 == pytest.approx(2.1)
    waiting = found["exposed-waiting"]
    assert waiting.cost_ns / 1e6 == pytest.approx((2 * 2.1 + 2 * 3.0) / 3 - 2.1 * 2 / 3, rel=0.05)
    assert waiting.title.startswith("Ranks wait for others, each time for another rank, ")
    assert waiting.advice.startswith("Begin with `clock_nanosleep` on rank 0, which causes 41 % of the waiting. See")


@pytest.mark.parametrize(
    ("late", "mostly_for", "named"),
    [((), None, True), ((0,), None, False), ((), 1, False), ((), 0, True)],
    ids=["in turn", "late by itself", "for another rank", "for this rank"],
)
def test_a_cause_is_named_on_no_late_rank_and_on_those_of_the_title_alone(
    late: tuple[int, ...], mostly_for: int | None, named: bool
) -> None:
    """`clock_nanosleep` of rank 0 causes 41 % of all waiting. What late ranks cause is in their own findings."""
    case = case_of(analysis_of(slept_and_late_in_turn()))
    rest = case.exposed.filter(pl.col("waited_for").is_not_null())
    rest = rest if mostly_for is None else rest.with_columns(waited_for=pl.lit(mostly_for, pl.Int64))
    reason = _why(case, rest, "Ranks", late)
    assert (f"mostly for rank {mostly_for} (100 %)" in reason.what) == (mostly_for is not None)
    assert ("Begin with `clock_nanosleep` on rank 0" in reason.advice) == named


@pytest.mark.parametrize(
    ("waits", "ranks", "whom"),
    [
        ([83, 17, 0, 0], 4, "mostly for rank 0 (83 %)"),
        ([36, 8, 0, 56], 4, "mostly for rank 3 (56 %) and rank 0 (36 %)"),
        ([36, 25, 0, 39], 4, "each time for another rank"),
        # Each of two, or two of three, wait for each other.
        ([50, 50], 2, "each time for another rank"),
        ([45, 55, 0], 3, "each time for another rank"),
    ],
)
def test_waiting_that_is_mostly_for_one_or_two_ranks_says_so(waits: list[int], ranks: int, whom: str) -> None:
    rest = pl.DataFrame({"waited_for": range(len(waits)), "exposed_waiting_ns": waits})
    assert for_whom(rest, "Ranks", ranks) == f"Ranks wait for others, {whom},"


def test_a_run_without_iterations_has_no_recurring_cause() -> None:
    case = case_of(analysis_of(slept_and_late_in_turn()))
    assert [one.rank for one in recurring_causes(case)] == [0]
    explanation = case.analysis.explanation
    causes = explanation.causes.with_columns(pl.col("iterations", "of_iterations") * 0)
    found = case.analysis._replace(explanation=explanation._replace(causes=causes))
    assert recurring_causes(replace(case, analysis=found)) == ()


@pytest.mark.parametrize(
    ("places", "more", "title"),
    [
        (5, "", "Rank 1's host, slow at many places, delays rank 0 by"),
        (5, "k @501 900-901, k @502 901-902, ", "Rank 1's host, launching more than others, delays rank 0 by"),
        (2, "", "Rank 1's host work before `a` delays rank 0 by"),
    ],
)
def test_a_host_that_is_slow_at_many_places_names_none(places: int, more: str, title: str) -> None:
    """The title says why as the advice does, if that knows a reason."""
    early = "k @0 5-400, n @10 400-905, wait 20-905"
    case = case_of(analysis_of(program(f"0| {early}\n1| busy 0-500, k @500 505-900, {more}n @510 903-905")))
    explanation = case.analysis.explanation
    (cause,) = explanation.causes.filter(rank=1).head(1).iter_rows(named=True)
    rows = [{**cause, "name": f"launching {'abcde'[n]}", "ns": 10_000_000 - n} for n in range(places)]
    causes = pl.DataFrame(rows, schema=explanation.causes.schema)
    found = case.analysis._replace(explanation=explanation._replace(causes=causes))
    (late,) = late_rank(replace(case, analysis=found))
    assert late.title.startswith(title)
    assert ("iterations" in late.title) == (places == 2)
    assert late.advice.startswith("The host of rank 1 launches 3 times an iteration" if more else "See what the host")
    assert (late.severity, BY_CHANCE in late.advice) == (None, False), "the other host has time to spare"
    busy = replace(case, analysis=found, host_waits={0: 1e6, 1: 0.0})
    (late,) = late_rank(WithoutGain(**vars(busy)))
    by_chance = not more and places == 5
    assert (late.severity, BY_CHANCE in late.advice) == ("medium" if by_chance else None, by_chance)


def test_the_copies_of_a_late_rank_are_its_cause() -> None:
    """Rank 0 saves its model: a copy to the host of 4 ms in every iteration."""
    copies = "c:Device-to-Host:Device_to_Pageable @0 5-405, cuda:cudaMemcpyAsync 0-406, k @410 415-500, n @420 500-505"
    found = findings_of(program(f"0| {copies}\n1| k @0 5-90, n @10 90-505, wait 20-506"))["late-rank"]
    assert found.title.startswith("Rank 0's copies (`Device-to-Host`) delay rank 1 by")
    assert "a checkpoint" in found.advice


def test_copies_within_the_device_of_a_late_rank_are_of_its_work() -> None:
    """They are no checkpoint, and pinned memory does not make them shorter."""
    copies = "c:Device-to-Device @0 5-405, k @10 415-500, n @20 500-505, wait 30-506"
    found = findings_of(program(f"0| {copies}\n1| k @0 5-90, n @10 90-505, wait 20-506"))["late-rank"]
    assert found.title.startswith("Rank 0's copies (`Device-to-Device`) delay rank 1 by")
    assert found.advice.startswith("See why rank 0 copies more on its device than others")
    assert "pinned" not in found.advice
