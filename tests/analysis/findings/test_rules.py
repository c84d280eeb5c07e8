"""Each rule on a small program that has it, and on one that has not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from programs import UNIT, analysis_of, findings_of, program

from nsys2prv.analysis.communication.exposed_waits import EXPOSED
from nsys2prv.analysis.communication.wait_causes import CAUSE
from nsys2prv.analysis.findings import rules
from nsys2prv.analysis.findings.case import Case, case_of
from nsys2prv.analysis.findings.contended_kernels import contended_kernels
from nsys2prv.analysis.findings.double_precision import DOUBLE_NAMES
from nsys2prv.analysis.findings.exposed_waiting import exposed_waiting
from nsys2prv.analysis.findings.imbalance import imbalance
from nsys2prv.analysis.findings.late_rank import late_rank
from nsys2prv.analysis.findings.low_bandwidth import low_bandwidth
from nsys2prv.analysis.findings.matrix_products import SCALAR_NAMES
from nsys2prv.analysis.findings.recurring_cause import recurring_causes
from nsys2prv.analysis.findings.rules import RULES
from nsys2prv.analysis.findings.slow_gpu import slow_gpu
from nsys2prv.analysis.findings.thresholds import CONTENDED, HIGH
from nsys2prv.analysis.frames import CALLS, TEXT, Hardware, Run, Sampled
from nsys2prv.analysis.matching.parts_by_order import parts_by_order
from nsys2prv.cli.sections import SECTIONS
from nsys2prv.cli.verdict_text import verdict_of
from nsys2prv.intervals.spans import Times
from nsys2prv.page.head import defects
from nsys2prv.paraver.cfg import CFGS
from nsys2prv.report.identity import Capacity
from nsys2prv.run.defects import Defect

# Units are 10 us: an iteration takes 10 ms, and the devices compute nearly all of it.
GOOD = """
0| k:a:GEMM @0 2-500, k:a:GEMM @10 500-990, n @20 990-995
1| k:a:GEMM @0 2-500, k:a:GEMM @10 500-990, n @20 990-995
"""
# (id, program, cost in ms an iteration, words of the title)
WITH = [
    (
        "exposed-transfer",
        "0| k @0 5-400, n @10 400-980, wait 20-985\n1| k @0 5-400, n @10 400-980, wait 20-985",
        2.9,  # half of what an ideal network would save
        "AllReduce",
    ),
    (
        "imbalance",
        "0| k @0 5-400, n @10 400-905, wait 20-905\n1| k @0 5-900, n @10 900-905, wait 20-905",
        2.5,
        "Rank 1 computes 2.50 ms longer than the mean (the longest in 6 of 6 iterations)",
    ),
    (
        "late-rank",
        "0| k @0 5-400, n @10 400-905, wait 20-905\n1| busy 0-500, k @500 505-900, n @510 900-905",
        25 / 6,  # predicted: before the first iteration nothing is known
        "Rank 1's `busy` delays rank 0 by 5.00 ms an iteration",
    ),
    (
        "pipeline-bubble",
        "0| k @0 5-300, s @1 300-305, s @2 305-605, k @3 605-990, wait 20-990\n"
        "1| s @0 5-305, k @1 305-600, s @2 600-605, k @3 605-990, wait 20-990",
        2.95,
        "Stages wait for each other's messages",
    ),
    ("launch-bound", "0| " + ", ".join(f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110)), 8.9, "110 kernels"),
    ("host-bound", "0| k @0 5-100, k @800 805-990", 7.2, "the host is busy between launches"),
    (
        "host-synchronization",
        "0| k @0 5-400, wait 10-402, k @450 455-990",
        0.70,
        "Device synchronize empties the device",
    ),
    (
        "host-functions",
        "0| k @0 5-400, cuda:cudaLaunchHostFunc 2-3, k @4 700-990",
        3.0,
        "Launched work waits 3.00 ms an iteration for no other work: streams run host functions (cudaLaunchHostFunc)",
    ),
    ("data-loading", "0| load 0-400, k @405 410-990", 4.0, "`load`"),
    ("system-waiting", "0| k @0 5-100, os:poll 100-800, k @800 805-990", 7.0, "the host is in `poll`"),
    (
        "pageable-copies",
        "0| c:HtoD:Pageable_to_Device @0 5-405, k @400 405-990",
        2.68,
        "Copies of pageable memory run alone 4.00 ms",
    ),
    (
        "exposed-copies",
        "0| c:Host-to-Device:Pinned_to_Device @0 5-405, k @400 405-990",
        2.0,
        "Copies between host and device run alone 4.00 ms",
    ),
    (
        "allocations",
        "0| k @0 5-100, cuda:cudaMalloc 100-395, k @395 400-990",
        3.0,
        "cudaMalloc",
    ),
    ("migrations", "0| c:Unified_Host-to-Device @0 5-105, k @0 50-300, k @1 300-990", 2.95, "Managed memory"),
    ("matrix-products", "0| k:sgemm:GEMM_nn_128x128x8 @0 5-600, k @1 600-990", 4.4625, "tensor cores"),
    (
        "matrix-products",
        "0| k:scudnn:convolution @0 5-600, k @1 600-990",
        4.4625,
        "Convolutions do not use tensor cores",
    ),
    ("double-precision", "0| k:dgemm:GEMM @0 5-600, k @1 600-990", 0.0, "(`dgemm`) take 60 % of compute, 5.95 ms"),
    ("unaligned-products", "0| k:Kernel2:GEMM_nn_128x128x32_align2 @0 5-605, k @1 605-990", 4.0, "no multiples of 8"),
    ("conversions", "0| k:cast:copy/cast @0 5-405, k @1 405-990", 2.0, "take 41 % of compute"),
    (
        "unfused-attention",
        "0| k:a:softmax @0 5-105, k @1 105-500, k:a:softmax @2 500-600, k @3 600-990",
        2.0,
        "take 20 % of compute, 2.00 ms an iteration: attention is not fused",
    ),
    (
        "unfused-elementwise",
        "0| k:a:elementwise @0 5-205, k:b:copy/cast @1 205-250, k:a:elementwise @2 250-400, k @3 400-990",
        1.5,
        "not fused: 15 % of compute, 1.50 ms an iteration, could be saved",
    ),
    ("dominant-kernel", "0| k:sort:sort @0 5-605, k @1 605-990", 0.0, "`sort` takes 61 % of compute, 6.00 ms"),
]


@pytest.mark.parametrize(("name", "picture", "cost", "words"), WITH, ids=[case[0] for case in WITH])
def test_a_program_has_its_finding_first(name: str, picture: str, cost: float, words: str) -> None:
    found = findings_of(program(picture))
    assert next(reversed(found)) == name
    assert words in found[name].title
    assert found[name].cost_ns / 1e6 == pytest.approx(cost, rel=0.06)
    assert found[name].share == pytest.approx(found[name].cost_ns / (1000 * UNIT), rel=0.1)
    assert found[name].severity in ("high", "medium")


@pytest.mark.parametrize("name", [case[0] for case in WITH])
def test_a_good_program_has_none(name: str) -> None:
    assert name not in findings_of(program(GOOD))


def test_longer_compute_is_the_reason_if_it_explains_the_waiting_of_two_ranks() -> None:
    """Rank 1 computes 4.6 ms longer, which is 2.3 ms more than the mean, and rank 0 waits for it 5 ms."""
    late = "k @40 45-900, n @50 900-905, wait 60-905"
    found = findings_of(program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}"))
    assert next(reversed(found)) == "imbalance"
    assert "late-rank" not in found


def test_a_good_program_has_no_finding_that_costs() -> None:
    found = findings_of(program(GOOD))
    assert [one.id for one in found.values() if one.cost_ns] == []


def test_findings_are_ranked_by_cost_and_name_cfgs_sections_and_times() -> None:
    """Of all programs of this page."""
    cfgs, sections = {f"{cfg.folder}/{cfg.name}" for cfg in CFGS}, set(SECTIONS)
    for _, picture, _, _ in WITH:
        run = program(picture)
        found = analysis_of(run).findings
        assert [one.severity for one in found] == sorted(
            (str(one.severity) for one in found), key=["high", "medium", "low"].index
        )
        for severity in ("high", "medium", "low"):
            costs = [one.cost_ns for one in found if one.severity == severity]
            assert costs == sorted(costs, reverse=True)
        assert {one.cfg for one in found if one.cfg} <= cfgs
        shown = {name for one in found if "--show " in one.command for name in _shown(one.command)}
        assert shown <= sections
        assert all(0 <= one.at_ns <= run.duration for one in found if one.at_ns is not None)


@pytest.mark.parametrize(
    ("waits", "says"),
    [
        ((), ""),
        ((500,), ""),
        ((300, 600, 900), "First remove the 3 waits of the host for the device in an iteration (values that it reads"),
    ],
)
def test_many_short_kernels_with_waits_between_make_no_graph(waits: tuple[int, ...], says: str) -> None:
    """Timers of events do not wait, and a wait for the loss may stay outside of the graph."""
    kernels = [f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110)]
    calls = [f"synchronization:Stream_synchronize {at + 0.5}-{at + 0.7}" for at in waits]
    timers = [f"synchronization:Event_synchronize {at}.2-{at}.4" for at in range(3, 33, 3)]
    alone = ", ".join([*kernels, *calls, *timers])
    advice = findings_of(program(f"0| {alone}"))["launch-bound"].advice
    assert says in advice
    assert ("waits of the host" in advice) == bool(says)
    of_two = findings_of(program(f"0| {alone}\n1| {', '.join(kernels)}"))["launch-bound"].advice
    assert "waits of the host" not in of_two, "1.5 times on average"


def test_every_cfg_that_a_rule_names_is_there() -> None:
    folder = Path(rules.__file__).parent
    named = {
        name
        for file in folder.glob("*.py")
        for name in re.findall(r'"((?:analysis|basics|views)/\w+)"', file.read_text())
    }
    assert len(named) > 5
    assert named <= {f"{cfg.folder}/{cfg.name}" for cfg in CFGS}


def _shown(command: str) -> list[str]:
    return command.split("--show ")[1].split()[0].split(",")


@pytest.mark.parametrize(
    ("late", "says", "cost"),
    [
        # The device has nothing to do meanwhile.
        ("busy 0-300, k @300 305-700, k @301 700-990, n @302 990-995, wait 310-996", "2.99 ms late in `busy`", 0.5),
        # The kernels of the step before run until then.
        (
            "busy 0-300, k @300 305-500, k @301 500-690, n @302 690-995, wait 310-996",
            "without it the run is no faster",
            0,
        ),
    ],
)
def test_a_delay_of_one_iteration_is_named_and_costs_what_slack_leaves(late: str, says: str, cost: float) -> None:
    usual = "busy 0-1, k @1 2-402, k @2 402-690, n @2 690-695, wait 10-696"
    steps = f"0| {usual}\n1| {usual}"
    hidden = {} if cost else {"step5_rank0": usual.replace("690-695, wait 10-696", "690-995, wait 10-996")}
    found = findings_of(program(steps, step5_rank1=late, **hidden))
    own = found["late-rank"]
    assert (own.ranks, own.iterations) == ((1,), (5,))
    assert "late in `busy` of iteration 5" in own.title
    assert says in own.title
    assert own.cost_ns / 1e6 == pytest.approx(cost, abs=0.01)


@pytest.mark.parametrize(("kind", "name"), [("s", "pipeline-bubble"), ("x", "exposed-waiting")])
def test_ranks_that_send_and_receive_at_once_are_no_pipeline(kind: str, name: str) -> None:
    stages = (
        f"0| k @0 5-300, {kind} @1 300-305, {kind} @2 305-605, k @3 605-990, wait 20-990\n"
        f"1| {kind} @0 5-305, k @1 305-600, {kind} @2 600-605, k @3 605-990, wait 20-990"
    )
    found = findings_of(program(stages))
    assert next(reversed(found)) == name
    if kind == "x":
        assert "send smaller pieces" in found[name].advice


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


@pytest.mark.parametrize(("until", "told"), [(400, True), (150, False)])
def test_a_wavefront_is_told_where_its_end_is_awaited_in_a_collective(until: int, told: bool) -> None:
    """Rank 1 waits for a message for 3.9 or 1.4 ms, and rank 0 then for rank 1 for 4.1 ms."""
    ranks = (
        f"0| k @0 5-{until - 5}, x @1 {until - 5}-{until}, n @2 400-815, wait 20-990\n"
        f"1| x @0 5-{until}, k @1 {until}-810, n @2 810-815, wait 20-990"
    )
    assert any("send smaller pieces" in one.advice for one in analysis_of(program(ranks)).findings) == told


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


class Generous(Case):
    """A case in which each change gains 9 ms."""

    def gain(self, change: str) -> float:
        return 9e6


def test_a_rank_that_computes_longer_is_named_though_it_waits_for_more_once() -> None:
    """Rank 0 writes a file in one of four iterations, for which rank 1 waits longer than rank 0 does in all others."""
    usual = "0| k @0 5-600, n @10 600-695, wait 20-695\n1| k @0 5-690, n @10 690-695, wait 20-695"
    writes = {
        "step2_rank0": "write 0-390, k @390 392-990, n @391 990-995, wait 392-995",
        "step2_rank1": "k @0 5-690, n @10 690-995, wait 20-995",
    }
    case = case_of(analysis_of(program(usual, steps=4, **writes)))
    (found,) = imbalance(Gaining(*case))
    excess = pytest.approx(found.evidence["longer_than_mean_ns"], abs=1)
    assert 300_000 < found.evidence["longer_than_mean_ns"] < 600_000
    assert (found.ranks, found.cost_ns, found.evidence["exposed_waiting_ns"]) == ((1,), excess, 0)
    assert not [*imbalance(Generous(*case))], "where equal shares gain far more, others compute longer in turn"
    assert not [*imbalance(case)], "what gains less than 3 % is none"


def test_a_late_rank_costs_no_more_than_others_wait_for_it() -> None:
    """Without delays other ranks gain, too."""
    late = "0| k @0 5-400, n @10 400-905, wait 20-905\n1| busy 0-500, k @500 505-900, n @510 900-905"
    (found,) = late_rank(Generous(*case_of(analysis_of(program(late)))))
    assert found.cost_ns == found.evidence["exposed_waiting_ns"] == 5_000_000


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
    found = [*late_rank(case._replace(exposed=exposed))]
    assert [one.title.removeprefix("The host of rank ").split(" by ")[0] for one in found] == titles


@pytest.mark.parametrize(("call", "told"), [("MPI_Send", True), ("MPI_Recv", False), ("MPI_Sendrecv", False)])
def test_earlier_receives_are_the_advice_where_sends_wait_for_them(call: str, told: bool) -> None:
    case = case_of(analysis_of(program("0| k @0 5-900\n1| k @0 5-900")))
    row = {
        "rank": 0,
        "waited_for": 1,
        "kind": "mpi",
        "operation": call,
        "exposed_waiting_ns": 30_000_000,
        "waits_at": 0,
    }
    exposed = pl.DataFrame([row], schema={c: t for c, t in EXPOSED.items() if c in row})
    (found,) = late_rank(case._replace(exposed=exposed))
    assert ("Receives posted before that work (MPI_Irecv) hold up no sender." in found.advice) == told


@pytest.mark.parametrize(
    ("causes", "title"),
    [
        ([("host work", "read", 9, 5)], "Rank 1's `read` delays rank 0 by 5.00 ms an iteration, in 5 of 6 iterations"),
        (
            [("host work", "read", 9, 2)],
            "Rank 1's `read` delays rank 0 by 5.00 ms an iteration, in 2 of 2 iterations in which ranks wait",
        ),
        ([("host work", "", 9, 6), ("host work", "read", 5, 5)], "Rank 1's `read` delays rank 0"),
        ([("host work", "", 9, 6), ("host work", "read", 4, 5)], "The host of rank 1 delays rank 0"),
        ([("host work", "read", 9, 0)], "Rank 1's `read` delays rank 0 by 5.00 ms an iteration"),
        ([("transfer", "", 9, 4), ("host work", "read", 8, 5)], "Collectives hold up rank 1, which delays rank 0"),
        ([("compute", "GEMM", 9, 6), ("host work", "read", 8, 5)], "Rank 1's `read` delays rank 0"),
    ],
    ids=[
        "named",
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
    (found,) = late_rank(case._replace(analysis=case.analysis._replace(explanation=told)))
    assert found.title.startswith(title)
    assert "in 0 of" not in found.title
    assert ("See the collectives of rank 1" in found.advice) == title.startswith("Collectives")
    assert "messages" not in found.advice


@pytest.mark.parametrize(("kind", "receive", "send"), [("nccl", "irecv", "isend"), ("mpi", "MPI_Irecv", "MPI_Isend")])
def test_the_advice_on_messages_names_calls_of_the_library_that_sends_them(kind: str, receive: str, send: str) -> None:
    case = case_of(analysis_of(program("0| k @0 5-400, n @10 400-905, wait 20-905\n1| k @500 505-900, n @510 900-905")))
    causes = pl.DataFrame([(1, "transfer", "", 9, 1, 6, 6)], schema=CAUSE, orient="row")
    told = case.analysis._replace(explanation=case.analysis.explanation._replace(causes=causes))
    exposed = case.exposed.with_columns(kind=pl.lit(kind), operation=pl.lit(send.replace("isend", "Send")))
    (found,) = late_rank(case._replace(analysis=told, exposed=exposed))
    assert found.title.startswith("Messages hold up rank 1, which delays rank 0")
    assert found.advice == (
        f"See the messages to and from rank 1. Where its partners receive late, receive earlier ({receive} before the "
        f"work); else send less, earlier, or without waiting ({send})."
    )


def test_a_sleep_is_part_of_the_idle_time_of_a_late_rank() -> None:
    late = "0| k @0 5-400, n @10 400-905, wait 20-905\n1| os:nanosleep 0-500, k @500 505-900, n @510 900-905"
    assert findings_of(program(late))["late-rank"].evidence["its_device_starved_ns"] >= 500 * UNIT


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("cudaMallocAsync", "ReleaseThreshold"),
        ("cudaMalloc", "caching allocator"),
        ("cudaHostAlloc", "Pin memory once"),
        ("cudaHostRegister", "Pin memory once"),
        ("cudaFreeHost", "Pin memory once"),
        ("cuMemHostAlloc", "Pin memory once"),
        ("cuMemHostUnregister", "Pin memory once"),
    ],
)
def test_advice_on_allocations_fits_the_call(call: str, says: str) -> None:
    found = findings_of(program(f"0| k @0 5-100, cuda:{call} 100-395, k @395 400-990"))
    assert says in found["allocations"].advice


@pytest.mark.parametrize(("steps", "named"), [(20, True), (5, False)])
def test_memory_allocated_all_along_is_named_without_iterations(steps: int, named: bool) -> None:
    usual, allocates = "k @0 5-100, k @395 400-990", "k @0 5-100, cuda:cudaMalloc 100-395, k @395 400-990"
    run = program(f"0| {usual}", 20, **{f"step{n}_rank0": allocates for n in range(steps)})
    found = findings_of(run._replace(ranges=run.ranges.clear()))
    assert ("allocations" in found) == named


@pytest.mark.parametrize("busy", [True, False])
def test_one_long_allocation_is_named_without_iterations_where_devices_idle(busy: bool) -> None:
    usual, frees = "k @0 5-100, k @395 400-990", "k @0 5-100, cuda:cudaFree 100-395, k @395 400-990"
    hidden = frees.replace("5-100, cuda", "5-394, cuda")
    run = program(f"0| {usual}", step2_rank0=hidden if busy else frees)
    found = findings_of(run._replace(ranges=run.ranges.clear()))
    assert ("allocations" in found) == (not busy)
    if not busy:
        assert found["allocations"].title.startswith("One call allocates or frees memory for long (cudaFree), and the")
        # After the first kernel no call makes a context.
        assert "(warm up)" not in found["allocations"].advice


def test_the_long_allocation_that_is_named_is_the_one_during_which_a_device_idles() -> None:
    """Calls of another name take longer, beside kernels."""
    frees = ", ".join(f"cuda:cudaFreeHost {20 + 40 * n}-{50 + 40 * n}" for n in range(8))
    run = program(f"0| k @0 5-400, {frees}, cuda:cudaMalloc 402-600, k @601 602-990", steps=1)
    found = findings_of(run._replace(ranges=run.ranges.clear()))["allocations"]
    assert "(cudaMalloc)" in found.title
    assert (found.evidence["calls"], found.at_ns) == (1, 402 * UNIT)


@pytest.mark.parametrize(("steps", "named"), [(6, True), (2, False)])
def test_code_that_is_loaded_in_most_iterations_is_named(steps: int, named: bool) -> None:
    usual, loads = "k @0 5-100, k @800 805-990", "k @0 5-100, cuda:cuLibraryLoadData 300-301, k @800 805-990"
    found = findings_of(program(f"0| {usual}", **{f"step{n}_rank0": loads for n in range(steps)}))["host-bound"]
    assert ("code is loaded in 6 of 6 iterations" in found.title) == named
    waits = {f"step{n}_rank0": loads.replace("k @800", "os:sem_wait 301-800, k @800") for n in range(steps)}
    (found,) = [*findings_of(program(f"0| {usual}", **waits)).values()][-1:]
    assert ("Code is loaded in 6 of 6 iterations" in found.advice) == named
    assert ("Keep shapes the same" in found.advice) == named


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        ("k:a @0 5-100, k:b @800 805-990", "after `a` and before `b` (nearly all of that time): record"),
        ("k:a @0 5-100, sample 100-800, k:b @800 805-990", "does in `sample` after `a` and before `b` (nearly all"),
        ("k:a @0 5-100, k:b @500 505-600, k:c @990 991-995", "host does after `a` and before `b` (50 % of that time)"),
        ("k:a @0 5-100, k:b @400 405-500, k:c @720 725-800", "does between launches: record"),
    ],
)
def test_advice_says_where_a_host_is_busy(picture: str, says: str) -> None:
    """Where most of the time without launched work lies between two activities, and else not."""
    assert says in findings_of(program(f"0| {picture}"))["host-bound"].advice


@pytest.mark.parametrize(
    ("calls", "named", "advice"),
    [
        ("cuda:cudaStreamCreateWithFlags 100-750", "cudaStreamCreateWithFlags", "Call it once before the loop"),
        ("cuda:cudaMemcpyAsync 100-750", "cudaMemcpyAsync", "from pinned memory"),
        ("cuda:cudaStreamCreateWithFlags 100-300", "", "record CPU samples"),
        ("cuda:cudaStreamSynchronize 100-750", "", "record CPU samples"),
        (", ".join(f"cuda:cudaEventRecord {n}-{n + 5}" for n in range(100, 790, 6)), "", "record CPU samples"),
    ],
)
def test_the_long_call_of_a_pause_is_named(calls: str, named: str, advice: str) -> None:
    """Short calls of one name say nothing, even if they fill it, nor do calls that wait for the device."""
    run = program(f"0| k:a @0 5-100, {calls}, k:b @800 805-990")
    found = findings_of(run)["host-bound"]
    assert (f"the host is in `{named}` for 6.50 ms" in found.title) == bool(named)
    assert advice in found.advice
    assert "after `a` and before `b`" in found.advice
    if "Create" in named:
        assert "(warm up)" in findings_of(run._replace(ranges=run.ranges.clear()))["host-bound"].advice


@pytest.mark.parametrize("family", ["cpu_samples", "python_samples"])
def test_samples_of_the_host_that_are_there_are_not_to_be_recorded(family: str) -> None:
    for line, name in (
        ("k @0 5-100, k @800 805-990", "host-bound"),
        ("k @0 5-100, os:poll 100-800, k @800 805-990", "system-waiting"),
    ):
        for recorded in (frozenset[str](), frozenset({family})):
            advice = findings_of(program(f"0| {line}")._replace(recorded_families=recorded))[name].advice
            assert ("nsys profile --sample" in advice) != bool(recorded)
            assert (f"--also {family})" in advice) == bool(recorded)


def test_a_host_is_in_the_call_of_cuda_that_calls_the_system() -> None:
    late = "cuda:cudaFree 5-500, os:ioctl 6-499, k @500 505-900, n @510 900-905"
    found = findings_of(program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}"))
    assert found["late-rank"].title.startswith("Rank 1's `cudaFree` delays rank 0")


@pytest.mark.parametrize("family", ["GEMM", "flash_attention", "convolution"])
def test_a_product_that_takes_most_of_compute_is_no_fault(family: str) -> None:
    assert "dominant-kernel" not in findings_of(program(f"0| k:a:{family} @0 5-605, k @1 605-990"))


def test_kernels_that_run_at_once_share_the_time_of_compute() -> None:
    """Two for 5 ms: 11 of 14.85 ms of kernels in 9.85 ms."""
    found = findings_of(program("0| k:sort:sort @0 5-605, k:sort:sort @1 105-605, k @2 605-990"))
    assert "`sort` takes 74 % of compute, 7.30 ms" in found["dominant-kernel"].title


def test_kernels_of_a_chain_follow_each_other_on_one_stream() -> None:
    """Another kernel between two elementwise ones reads and writes something else."""
    apart = "k:a:elementwise @0 5-205, k:b:GEMM @1 205-250, k:a:elementwise @2 250-400, k @3 400-990"
    assert "unfused-elementwise" not in findings_of(program(f"0| {apart}"))


@pytest.mark.parametrize(("steps", "made"), [(6, True), (2, False)])
def test_graphs_that_are_instantiated_in_the_loop_should_be_kept(steps: int, made: bool) -> None:
    """In the advice on synchronization, and on a host that is busy; of a window without iterations ten or more."""
    waits, busy = "k @0 5-400, wait 10-402, k @450 455-990", "k @0 5-100, k @800 805-990"
    for usual, name in ((waits, "host-synchronization"), (busy, "host-bound")):
        makes = {f"step{n}_rank0": f"{usual}, cuda:cudaGraphInstantiate 410-440" for n in range(steps)}
        run = program(f"0| {usual}", **makes)
        assert ("First keep CUDA graphs: 6 are" in findings_of(run)[name].advice) == made
        assert "First keep" not in findings_of(run._replace(ranges=run.ranges.clear()))[name].advice


@pytest.mark.parametrize(("call", "of_files"), [("fopen", True), ("write", True), ("fclose", True), ("poll", False)])
def test_files_that_the_launching_thread_writes_are_named(call: str, of_files: bool) -> None:
    found = findings_of(program(f"0| k @0 5-100, os:{call} 100-800, k @800 805-990"))["system-waiting"]
    assert ("asynchronous checkpoints" in found.advice) == of_files


@pytest.mark.parametrize(("thread", "by_gloo"), [("pt_gloo_runloop 12", True), ("python3 12", False)])
def test_threads_of_gloo_that_launch_after_idle_times_exchange_data_on_the_host(thread: str, by_gloo: bool) -> None:
    run = program("0| k @0 5-100, os:poll 100-800, k @800 805-990")
    found = findings_of(run._replace(row_labels=(thread, *run.row_labels[1:])))["system-waiting"]
    assert ("Ranks exchange data by Gloo" in found.advice) == by_gloo


@pytest.mark.parametrize(("kinds", "named"), [("n", True), ("kkn", False)])
def test_many_short_operations_should_be_merged(kinds: str, named: bool) -> None:
    """In advice on launches, and on a rank that launches them late. An iteration has 99 kernels and operations."""
    of_step = list(enumerate(kinds * (99 // len(kinds))))
    early = ", ".join(f"{kind} @{10 * n} {10 * n + 1}-{10 * n + 2}" for n, kind in of_step)
    found = findings_of(program(f"0| {early}\n1| {early}"))["launch-bound"]
    assert ("A rank launches 99 NCCL kernels of 10 us an iteration: merge" in found.advice) == named
    assert ("Launch less often" in found.advice) != named
    waiting = ", ".join(f"{kind} @{10 * n} {10 * n + 1}-{10 * n + 6}" for n, kind in of_step)
    late = ", ".join(f"{kind} @{10 * n + 4} {10 * n + 5}-{10 * n + 6}" for n, kind in of_step)
    (of_rank,) = late_rank(case_of(analysis_of(program(f"0| {waiting}\n1| {late}"))))
    assert of_rank.ranks == (1,)
    assert ("merge what they send" in of_rank.advice) == named


def test_the_softmax_of_a_loss_is_no_attention() -> None:
    """One softmax an iteration, and one each time that a loss is computed."""
    once = "0| k:a:softmax @0 5-205, k @1 205-990"
    each = ", ".join(f"k:a:softmax @0 {n}5-{n + 1}0, k:b:loss @1 {n + 1}0-{n + 1}5" for n in range(0, 90, 2))
    assert "unfused-attention" in findings_of(program(f"0| {each.replace('k:b:loss', 'k:b:other')}"))
    assert [*unfused_of(once), *unfused_of(f"0| {each}")] == []


def unfused_of(picture: str) -> list[str]:
    """Return the findings of a program that speak of attention."""
    return [name for name in findings_of(program(picture)) if name == "unfused-attention"]


def test_ranks_that_wait_in_turn_are_named() -> None:
    early, late = "k @0 5-400, n @10 400-905, wait 20-990", "k @0 5-900, n @10 900-905, wait 20-990"
    turns = {f"step{n}_rank{rank}": late if n % 2 == rank else early for n in range(6) for rank in (0, 1)}
    case = case_of(analysis_of(program(f"0| {early}\n1| {late}", **turns)))
    (found,) = exposed_waiting(case)
    assert found.ranks == (0, 1)
    assert found.title.startswith("Ranks compute longer in turn, and others wait 2.50 ms")
    assert found.cost_ns / 1e6 == pytest.approx(2.5)
    assert found.command == "nsys2prv whatif RUN --set imbalance=0"
    (gaining,) = exposed_waiting(Generous(*case))
    assert gaining.title == f"{found.title}; equal shares gain 9.00 ms"
    assert gaining.cost_ns == 9e6
    assert [*exposed_waiting(case_of(analysis_of(program(GOOD))))] == []
    (of_gpus,) = exposed_waiting(of_one_process(case))
    assert of_gpus.title.startswith("GPUs compute longer")
    assert of_gpus.cost_ns == found.cost_ns
    unknown = of_one_process(case, waited_for=None)
    assert next(exposed_waiting(unknown)).title.startswith("Ranks compute longer")


def of_one_process(case: Case, waited_for: int | None = 0) -> Case:
    """Return a case as if one process had the devices of all ranks, and waited for a rank."""
    rank, other = (pl.lit(n, pl.Int64) for n in (0, waited_for))
    exposed = case.exposed.with_columns(rank=rank, waited_for=pl.when(pl.col("waited_for") >= 0).then(other))
    of_devices = exposed.with_columns(pl.col("^.*_ns$") / case.exposed["rank"].n_unique())
    return case._replace(exposed=of_devices, host_waits={0: case.host_waits[0]})


def test_defects_late_capture_and_clocks_make_a_recording_doubtful() -> None:
    defect = Defect(7, "process 3 launched kernels by 7 calls, and none is recorded", "useful time is too low", ("a",))
    run = program(GOOD)._replace(defects=(defect,), clock_warnings=("a may be 3 ms off",))
    found = findings_of(run)
    assert (found["defective-reports"].severity, found["doubtful-clocks"].severity) == ("high", "medium")
    assert found["defective-reports"].evidence["reports"] == ["a"]
    assert defect.sentence in found["defective-reports"].title
    little = run._replace(defects=(defect._replace(share=0.0001),))
    few = findings_of(little)["defective-reports"]
    assert (few.severity, defect.sentence in few.title) == ("low", True)
    some = findings_of(run._replace(defects=(defect._replace(share=0.004),)))["defective-reports"]
    assert (some.severity, "synchronize before" in some.advice) == ("medium", True)
    for shown in (lambda one: verdict_of(one, [Path("run")]), defects):
        assert ["Defect" in shown(analysis_of(one)) for one in (run, little)] == [True, False]
    late = run._replace(work=run.work.filter((pl.col("task") == 0) | (pl.col("start") > 1500 * UNIT)))
    ranges = run.ranges.filter((pl.col("task") == 0) | (pl.col("start") >= 1000 * UNIT))
    assert findings_of(late._replace(ranges=ranges))["late-capture"].iterations == (0,)
    assert {"defective-reports", "doubtful-clocks", "late-capture"} & findings_of(program(GOOD)).keys() == set()


@pytest.mark.parametrize(
    "calls",
    ["cuda:cudaFree 100-800, os:ioctl 101-799", "load 100-800, os:poll 101-799"],
    ids=["within a call of CUDA", "while data is loaded"],
)
def test_calls_of_the_system_that_serve_another_purpose_are_no_waiting(calls: str) -> None:
    assert "system-waiting" not in findings_of(program(f"0| k @0 5-100, {calls}, k @800 805-990"))


@pytest.mark.parametrize(("until", "waits", "cost"), [(950, True, 0.9), (550, True, 4.9), (550, False, None)])
def test_a_thread_that_waits_for_another_one_that_works_does_not_wait_for_the_system(
    until: int, waits: bool, cost: float | None
) -> None:
    """Threads of two devices of one process launch in turns; each waits for 4.9 ms and more until 9.9 ms.

    The other one launches last at 9 ms, or at 5 ms, and then waits itself, or works. The wait of both counts.
    """
    kernels = [f"k @{at} {at + 5}-{at + 45}" for at in range(0, until - 500, 50)]
    run = program(f"0| {', '.join(kernels)}, os:pthread_cond_wait {until - 550}-990")
    later = pl.col("launched", "start", "end") + 500 * UNIT
    other = run.work.with_columns(
        later, *(pl.lit(n, pl.Int64).alias(c) for c, n in (("device", 1), ("row", 2), ("caller_row", 7)))
    )
    begin = pl.col("start") // (1000 * UNIT) * 1000 * UNIT
    own = run.calls.with_columns(row=pl.lit(7, pl.Int64), start=begin + (until - 50) * UNIT, end=begin + 1490 * UNIT)
    device = run.devices[0]
    both = run._replace(
        work=pl.concat([run.work, other]).sort("start"),
        calls=pl.concat([run.calls, own]).sort("start") if waits else run.calls,
        devices=(device, device._replace(gpu=1)),
        duration=run.duration + 1000 * UNIT,
    )
    found = findings_of(both).get("system-waiting")
    assert (found and found.cost_ns / 1e6) == (cost and pytest.approx(cost))


def test_what_comes_in_every_third_iteration_counts_and_what_comes_once_does_not() -> None:
    waits = "k @0 5-100, os:poll 100-800, k @800 805-990"
    often = {f"step{n}_rank0": waits for n in (1, 4, 7)}
    found = findings_of(program("0| k @0 5-990", steps=10, **often))
    # 7 ms in two of eight: the longest and the shortest iteration are left out.
    assert found["system-waiting"].cost_ns / 1e6 == pytest.approx(7.0 * 2 / 8, rel=0.06)
    assert "system-waiting" not in findings_of(program("0| k @0 5-990", steps=10, step4_rank0=waits))


@pytest.mark.parametrize(("name", "told"), [("python3.12", True), ("a.out", False)])
def test_a_rank_that_waits_for_the_interpreter_lock_is_told_so(name: str, told: bool) -> None:
    late = "os:pthread_cond_timedwait 0-500, k @500 505-900, n @510 900-905, wait 520-905"
    run = program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}")
    found = findings_of(run._replace(tasks=tuple(task._replace(name=name) for task in run.tasks)))
    assert ("Python waits for its interpreter lock" in found["late-rank"].advice) == told


def test_the_call_that_is_named_is_of_the_thread_that_launches_next() -> None:
    """Another thread of the process waits for longer in another call."""
    run = program("0| k @0 5-100, os:poll 100-800, k @800 805-990")
    other = run.calls.with_columns(
        row=pl.lit(7, pl.Int64),
        name=pl.lit("futex").cast(TEXT),
        start=pl.lit(0, pl.Int64),
        end=pl.lit(run.duration, pl.Int64),
    )
    found = findings_of(run._replace(calls=pl.concat([run.calls, other])))["system-waiting"]
    assert found.evidence["call"] == "poll"
    assert (found.evidence["calls"], found.evidence["idle_in_call_ns"]) == (6, 700 * UNIT)


@pytest.mark.parametrize(("apart", "named"), [(0, False), (1, True)])
def test_communication_without_its_other_ranks_is_named(apart: int, named: bool) -> None:
    """Kernels without payload are matched by order, which is not believed where they do not run at one time."""
    late = f"n @10 {500 + 200 * apart}-{600 + 200 * apart}"
    run = program(f"0| k @0 5-400, n @10 500-600\n1| k @0 5-400, {late}")
    found = findings_of(run._replace(parts=parts_by_order(run, run.parts.clear())))
    assert ("unmatched-communication" in found) == named
    if named:
        assert found["unmatched-communication"].title.startswith("100 % of the time in communication has no partner")
        assert (found["unmatched-communication"].ranks, found["unmatched-communication"].severity) == ((0, 1), "high")


def test_little_communication_without_its_other_ranks_is_of_low_severity() -> None:
    run = program("0| k @0 5-400, n @10 500-520\n1| k @0 5-400, n @10 700-720")
    found = findings_of(run._replace(parts=parts_by_order(run, run.parts.clear())))["unmatched-communication"]
    assert found.title.startswith("100 % of the time")
    assert found.severity == "low"


def test_host_work_without_a_name_is_known_by_what_it_launches() -> None:
    late = "k @500 505-900, n @510 900-905"
    found = findings_of(program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}"))
    assert found["late-rank"].title.startswith("Rank 1's host work before `kernel` delays rank 0")


@pytest.mark.parametrize(("waits", "named"), [("", True), (", wait 410-900", False)])
def test_transfers_gain_nothing_beside_a_host_that_is_busy(waits: str, named: bool) -> None:
    """The hosts launch at 0 and at 4 ms of each 10 ms, whatever the devices do; one may wait for half of the time."""
    lines = f"0| k @0 5-405, n @400 405-1000{waits}\n1| k @0 5-405, n @400 405-1000{waits}"
    # Of the last iteration, without a next one, transfers are a gain.
    found = findings_of(program(lines, steps=70))
    told = "exposed-transfer" in found and "gain nothing alone" in found["exposed-transfer"].title
    assert told == named
    if named:
        assert (found["exposed-transfer"].severity, found["exposed-transfer"].cost_ns) == ("medium", 0.0)
        assert found["exposed-transfer"].evidence["exposed_transfer_ns"] == pytest.approx(5.95e6, rel=0.01)


def test_communication_that_may_be_waiting_is_no_transfer() -> None:
    run = program(WITH[0][1])
    assert "exposed-transfer" in findings_of(run)
    alone = findings_of(run._replace(parts=run.parts.clear()))
    assert "unmatched-communication" in alone
    assert "exposed-transfer" not in alone


@pytest.mark.parametrize(("ranks", "family", "named"), [(0, "nccl", True), (0, "mpi", False), (1, "nccl", False)])
def test_the_report_of_one_rank_has_no_partners_of_its_communication(ranks: int, family: str, named: bool) -> None:
    """How many ranks (0: not known) a communicator has: one of NCCL with kernels has several, one of MPI may not."""
    run = program("0| k @0 5-400, n @10 400-905, wait 20-906")
    none, nccl = pl.lit(None, pl.Int64), pl.col("kind") == "nccl"
    calls = run.work.filter(nccl).select(
        "task", "row", "start", "end", kind=pl.lit("mpi"), name=pl.lit("MPI_Allreduce")
    )
    if family == "mpi":
        calls = pl.concat([run.calls, calls.select(pl.col(c).cast(t) for c, t in CALLS.items())]).sort("start")
        run = run._replace(work=run.work.filter(~nccl), calls=calls)
    parts = run.parts.with_columns(last=none, waited_for=none, family=pl.lit(family, TEXT))
    found = findings_of(run._replace(parts=parts, communicator_sizes={"world": ranks}))
    assert ("unmatched-communication" in found) == named
    assert not (named and "exposed-transfer" in found)


@pytest.mark.parametrize(("share", "named"), [(0.0, False), (0.15, False), (0.5, True), (1.0, True)])
def test_graphs_that_are_recorded_whole_are_named(share: float, named: bool) -> None:
    """Their kernels do not show, so that a device that only launches graphs seems useful all of the time."""
    graph = pl.col("name").cast(pl.String) == "graph"
    run = program(f"0| k @0 0-{1000 * (1 - share)}, k:graph:k @10 {1000 * (1 - share)}-1000, c @20 0-990")
    work = run.work.with_columns(kind=pl.when(graph).then(pl.lit("graph").cast(TEXT)).otherwise("kind"))
    found = findings_of(run._replace(work=work))
    instants = work.with_columns(instant=graph, end=pl.when(graph).then(pl.col("start") + 1).otherwise("end"))
    assert "whole-graphs" not in findings_of(run._replace(work=instants))
    assert ("whole-graphs" in found) == named
    if named:
        whole = found["whole-graphs"]
        assert f"{100 * share:.0f} % of the device time" in whole.title
        assert (whole.severity, whole.command) == ("medium", "nsys profile --cuda-graph-trace=node ...")
        assert whole.evidence["graphs_ns"] == pytest.approx(share * whole.evidence["device_ns"], rel=0.01)


# The host of rank 0 needs 7.1 ms for 2.8 ms of compute, and that of rank 1 2.8 ms more.
ALL_BUSY = """
0| k @0 5-200, n @190 205-905, k @700 905-990, wait 710-990
1| k @0 5-100, k @400 405-450, n @890 895-905, k @900 905-990
"""


def test_hosts_that_are_all_busy_come_before_the_one_that_is_slowest() -> None:
    found = findings_of(program(ALL_BUSY))
    assert list(found)[-2:] == ["late-rank", "host-bound"]
    assert found["host-bound"].cost_ns / 1e6 == pytest.approx(7.1 - 2.8, rel=0.06)
    assert found["late-rank"].cost_ns / 1e6 == pytest.approx(2.8, rel=0.06)


@pytest.mark.parametrize(("until", "said"), [(500, True), (960, False)])
def test_the_verdict_says_how_much_lies_between_iterations(until: int, said: bool) -> None:
    verdict = verdict_of(analysis_of(program(f"0| k @0 5-300, k @300 305-{until}")), [Path("run")])
    line = "  46 % of the time is between the device work of iterations; efficiency leaves it out\n"
    assert (line in verdict) == said
    assert ("between the device work" in verdict) == said


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


@pytest.mark.parametrize(
    ("item", "name", "late", "words"),
    [
        ("os:poll", "system-waiting", "01 12 20", "The device waits 4.96 ms an iteration while the host is in `poll`"),
        ("load", "data-loading", "01 12 20", "The device waits 4.96 ms an iteration while the host is in `load`"),
        (
            "os:poll",
            "system-waiting",
            "01 0 1",
            "Ranks wait 3.96 ms an iteration for each other's hosts, which are in `poll`",
        ),
        (
            "load",
            "data-loading",
            "01 0 1",
            "Ranks wait 3.96 ms an iteration for each other's hosts, which are in `load`",
        ),
    ],
)
def test_hosts_that_wait_together_or_in_turn_are_named(item: str, name: str, late: str, words: str) -> None:
    """`late`: the ranks that are late by 6 ms in each of three iterations in turn. The first is cut at its device work.

    Rank 2 is never late in the last two cases, so that its device hardly idles; rank 1 is the last one more often,
    which costs 1 ms.
    """
    early = "k @0 5-100, n @10 100-705, wait 20-706"
    waits = f"{item} 0-600, k @600 605-700, n @610 700-705, wait 620-706"
    lates = {f"step{n}_rank{rank}": waits for n in range(6) for rank in late.split()[n % 3]}
    found = findings_of(program("\n".join(f"{rank}| {early}" for rank in range(3)), **lates))
    assert found[name].title == words
    if name == "system-waiting":
        evidence, in_turn = found[name].evidence, "each other's" in words
        assert evidence["calls"] > 0
        assert ("path_in_call_ns" in evidence, "idle_in_call_ns" in evidence) == (in_turn, not in_turn)


def test_a_row_of_synchronizations_costs_the_idle_time_after_each() -> None:
    """The first one waits for 5 ms, two more for 10 us each; what comes then is launched at once."""
    row = "k @0 5-500, wait 1-501, k @502 503-504, wait 503-505, k @507 508-509, wait 508-510"
    rest = ", ".join(f"k @511 {513 + 39 * n}-{552 + 39 * n}" for n in range(12))
    found = findings_of(program(f"0| {row}, {rest}"))["host-synchronization"]
    assert found.cost_ns / 1e6 == pytest.approx(0.03 + 0.04 + 0.04)


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
    assert found["exposed-waiting"].cost_ns / 1e6 == pytest.approx((2 * 2.1 + 2 * 3.0) / 3 - 2.1 * 2 / 3, rel=0.05)


def test_a_run_without_iterations_has_no_recurring_cause() -> None:
    case = case_of(analysis_of(slept_and_late_in_turn()))
    assert [one.rank for one in recurring_causes(case)] == [0]
    explanation = case.analysis.explanation
    causes = explanation.causes.with_columns(pl.col("iterations", "of_iterations") * 0)
    found = case.analysis._replace(explanation=explanation._replace(causes=causes))
    assert recurring_causes(case._replace(analysis=found)) == []


def test_a_range_of_loading_in_which_the_host_polls_counts_once() -> None:
    """As in a data loader: hosts are late in turn."""
    early = "k @0 5-100, n @10 100-705, wait 20-706"
    waits = "load 0-600, os:poll 1-599, k @600 605-700, n @610 700-705, wait 620-706"
    lates = {f"step{n}_rank{rank}": waits for n in range(6) for rank in ("01", "0", "1")[n % 3]}
    found = findings_of(program("\n".join(f"{rank}| {early}" for rank in range(3)), **lates))
    assert "data-loading" in found
    assert "system-waiting" not in found


def test_the_waiting_of_two_devices_of_a_rank_counts_once() -> None:
    """A second device of rank 0 does and waits for the same as the first."""
    run = program(ALL_BUSY)
    other = pl.col("row") + 100
    work = run.work.filter(task=0).with_columns(other, device=pl.lit(2, pl.Int64))
    parts = run.parts.filter(pl.col("row").is_in(run.work.filter(task=0)["row"].implode())).with_columns(other)
    two = run._replace(
        devices=(*run.devices, run.devices[0]._replace(gpu=2)),
        work=pl.concat([run.work, work]).sort("start", "row"),
        parts=pl.concat([run.parts, parts]),
    )
    starved, waiting, lead = (0 + 0 + 7.4) / 3, (6.9 + 6.9) / 3, 2.8
    assert findings_of(two)["host-bound"].cost_ns / 1e6 == pytest.approx(starved + waiting - lead, rel=0.06)


@pytest.mark.parametrize(
    ("call", "copies"), [("cudaMemcpy", True), ("cudaMemcpyAsync", False), ("cudaMalloc3D", False)]
)
def test_blocking_copies_are_the_reason_if_the_host_is_in_them_while_the_device_idles(call: str, copies: bool) -> None:
    found = findings_of(program(f"0| k @0 5-100, cuda:{call} 100-700, k @800 805-990"))
    assert ("the host is in blocking copies" in found["host-bound"].title) == copies


def test_transfers_of_several_operations_are_named_by_their_time() -> None:
    both = "k @0 5-200, n @10 200-500, s @20 500-700, wait 30-990"
    title = findings_of(program("\n".join(f"{rank}| {both}" for rank in range(2))))["exposed-transfer"].title
    assert title.startswith("Transfers (AllReduce, Send) are not hidden")
    short = both.replace("500-700", "500-560")
    title = findings_of(program("\n".join(f"{rank}| {short}" for rank in range(2))))["exposed-transfer"].title
    assert title.startswith("Transfers (AllReduce) are not hidden")


def test_ranks_that_wait_for_longer_compute_are_not_host_bound() -> None:
    """No host waits, and all launch in time."""
    found = findings_of(program("0| k @0 2-400, n @10 400-1000\n1| k @0 2-995, n @10 995-1000"))
    assert next(reversed(found)) == "imbalance"
    assert "host-bound" not in found


def test_kernels_that_take_longer_in_some_iterations_are_named() -> None:
    slow = {f"step{n}_rank0": "k:usual:k @0 2-300, k:varies:k @1 300-990" for n in (2, 4)}
    found = findings_of(program("0| k:usual:k @0 2-300, k:varies:k @1 300-600", **slow))
    assert "`varies` takes either 3.00 ms or 6.90 ms" in found["varying-kernels"].title
    assert found["varying-kernels"].cost_ns / 1e6 == pytest.approx(2 * 3.9 / 6)
    assert "varying-kernels" not in findings_of(program("0| k:usual:k @0 2-300, k:varies:k @1 300-600"))
    any_length = {f"step{n}_rank0": f"k:usual:k @0 2-300, k:varies:k @1 300-{400 + 100 * n}" for n in range(6)}
    spread = findings_of(program("0| k:usual:k @0 2-300, k:varies:k @1 300-600", **any_length))["varying-kernels"]
    assert "takes 3.50 ms, and up to 6.00 ms" in spread.title


@pytest.mark.parametrize(
    ("pauses", "named"),
    [
        ({0: 250, 2: 250, 3: 250, 5: 255, 7: 248, 8: 250}, True),
        ({0: 100, 2: 250, 3: 180, 5: 400, 7: 320, 8: 60}, False),
        ({0: 250, 2: 250, 3: 250}, False),
    ],
    ids=["alike", "of any length", "three"],
)
def test_a_gpu_whose_kernels_pause_for_time_slices_is_named(pauses: dict[int, int], named: bool) -> None:
    """Now the one and now the other of two kernels takes longer by 2.5 ms."""
    lines = {
        f"step{n}_rank0": f"k:a:k @0 5-{15 + pause}, k:b:k @20 500-510"
        if n % 2
        else f"k:a:k @0 5-15, k:b:k @20 500-{510 + pause}"
        for n, pause in pauses.items()
    }
    found = findings_of(program("0| k:a:k @0 5-15, k:b:k @20 500-510", steps=11, **lines))
    assert ("shared-gpu" in found) == named
    if named:
        assert (
            "Another process shares GPU 0 of host in time slices: the kernels of rank 0 pause 6 times, 2.50 ms"
            in found["shared-gpu"].title
        )
        assert found["shared-gpu"].evidence["slice_ns"] == 2_500_000
        assert found["shared-gpu"].cost_ns / 1e6 == pytest.approx(sum(pauses.values()) / 100 / 11, rel=0.01)


@pytest.mark.parametrize(("steps", "named"), [(11, False), (4, True)], ids=["in each iteration", "few iterations"])
def test_kernels_that_sum_up_more_at_one_place_do_not_pause(steps: int, named: bool) -> None:
    """Products of one name and grid: one of four takes 2.5 ms longer in each iteration. Few iterations cannot tell."""
    line = ", ".join(f"k:{n}:k @0 {b + x}-{b + x + 9}" for n, b in (("a", 5), ("b", 400)) for x in (0, 10, 20))
    long = ", ".join(f"k:{n}:k @0 {b}-{b + 259}" for n, b in (("a", 40), ("b", 435)))
    assert ("shared-gpu" in findings_of(program(f"0| {line}, {long}", steps=steps))) == named


@pytest.mark.parametrize(("share", "named"), [(0, False), (400, True)])
def test_pauses_of_a_shared_gpu_are_no_unequal_share(share: int, named: bool) -> None:
    """Rank 0's kernels pause now and then, and others wait. Where it also computes longer, that is said, too."""

    def line(rank: int, pauses: tuple[int, int] = (0, 0)) -> str:
        first, second = pauses if rank == 0 else (0, 0)
        ends = [15 + first, 25 + first + second, 125 + first + second + (0 if rank else share)]
        last = 130 + sum(pauses) + share
        kernels = [f"k:{name}:k @0 {x}-{y}" for name, x, y in zip("abc", [5, *ends], ends, strict=False)]
        return ", ".join([*kernels, f"n @10 {ends[-1]}-{last}", f"wait 20-{last + 1}"])

    slow = {n: (250, 0) if n % 2 else (0, 250) for n in (1, 2, 4, 5, 7, 8)}
    lines = {f"step{n}_rank{rank}": line(rank, pauses) for n, pauses in slow.items() for rank in (0, 1)}
    found = findings_of(program(f"0| {line(0)}\n1| {line(1)}", steps=11, **lines))
    assert found["shared-gpu"].ranks == (0,)
    assert ("imbalance" in found) == named


def test_processes_on_one_gpu_share_it_whatever_the_length_of_pauses() -> None:
    """Only rank 0 loses time: the other one's kernels always take as long."""
    pauses = {0: 100, 2: 250, 3: 180, 5: 250, 7: 320, 8: 60}
    lines = {f"step{n}_rank0": f"k:a:k @0 5-{15 + pause}, k:b:k @20 500-510" for n, pause in pauses.items() if n % 2}
    lines |= {f"step{n}_rank0": f"k:a:k @0 5-15, k:b:k @20 500-{510 + p}" for n, p in pauses.items() if not n % 2}
    run = program("0| k:a:k @0 5-15, k:b:k @20 500-510\n1| k:c:k @0 5-500", steps=11, **lines)
    assert "shared-gpu" not in findings_of(run)
    shared = findings_of(run._replace(work=run.work.with_columns(device=pl.lit(0, pl.Int64))))["shared-gpu"]
    assert "Ranks 0 and 1 share GPU 0 of host in time slices: their kernels pause 6 times" in shared.title
    assert shared.cost_ns / 1e6 == pytest.approx(sum(pauses.values()) / 100 / 11, rel=0.01)


@pytest.mark.parametrize(("slower", "named"), [(4.0, True), (1.5, False)])
def test_a_communicator_that_moves_less_than_another_is_named(slower: float, named: bool) -> None:
    case = case_of(analysis_of(program(GOOD)))
    rows = [(r, f"c{c}", "AllReduce", 10, 10**9, 10**7 * (slower if c else 1)) for c in (0, 1) for r in (c, 2 + c)]
    table = pl.DataFrame(
        rows, schema=["rank", "communicator", "operation", "activities", "bytes", "transfer_ns"], orient="row"
    ).with_columns(hosts=pl.lit("within a host"), ns=pl.col("transfer_ns"), unmatched_ns=0)
    explanation = case.analysis.explanation._replace(communication=table)
    found = [*low_bandwidth(case._replace(analysis=case.analysis._replace(explanation=explanation)))]
    assert [one.ranks for one in found] == ([(1, 3)] if named else [])


@pytest.mark.parametrize(("factor", "named"), [(1.8, True), (CONTENDED.value, False)])
def test_kernels_that_communication_slows_are_named(factor: float, named: bool) -> None:
    case = case_of(analysis_of(program(GOOD)))
    table = pl.DataFrame(
        {"family": ["GEMM"], "waiting": [factor], "transfer": [1.0], "waiting_ns": [24_000_000], "transfer_ns": [0]}
    )
    explanation = case.analysis.explanation._replace(contention=table)
    found = [*contended_kernels(case._replace(analysis=case.analysis._replace(explanation=explanation)))]
    # 24 ms over 2 devices and 6 iterations, of which half could be saved.
    assert [one.cost_ns for one in found] == ([1_000_000] if named else [])


H100 = Capacity(80 * 10**9, 132, 64, 65536, 233472, 32)


def with_hardware(run: Run, **changed: object) -> Run:
    """A run on GPUs of one model."""
    return run._replace(hardware=tuple(Hardware("H100", H100, **changed) for _ in run.devices))  # type: ignore[arg-type]


@pytest.mark.parametrize(("slower", "named"), [(300, True), (206, False)])
def test_a_gpu_on_which_all_kernels_take_longer_is_named(slower: int, named: bool) -> None:
    """Three kernels of one grid take 2 ms on rank 0; rank 1 is late by all of them."""
    others = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc"))
    slow = ", ".join(f"k:{name}:k @0 {5 + slower * n}-{5 + slower * (n + 1)}" for n, name in enumerate("abc"))
    end = 5 + 3 * slower
    found = findings_of(
        program(f"0| {others}, n @10 605-{end + 5}, wait 20-{end + 6}\n1| {slow}, n @10 {end}-{end + 5}")
    )
    if not named:
        assert "slow-gpu" not in found
        return
    assert next(reversed(found)) == "slow-gpu"
    assert (found["slow-gpu"].ranks, found["slow-gpu"].severity) == ((1,), "high")
    assert "takes 1.50 times as long as its peers" in found["slow-gpu"].title
    assert found["slow-gpu"].cost_ns / 1e6 == pytest.approx(3.0)


def test_products_gain_no_more_than_they_take_of_the_critical_path() -> None:
    """The host of rank 0 is late by 5 ms, while rank 1 computes 4 ms of products and waits."""
    late = "busy 0-500, k:other:k @500 505-900, n @510 900-905, wait 520-906"
    products = "k:sgemm:GEMM_nn_128x128x8 @0 5-405, n @10 405-905, wait 20-906"
    found = findings_of(program(f"0| {late}\n1| {products}"))
    assert "matrix-products" not in found
    both = findings_of(program(f"0| {late.replace('other:k', 'sgemm:GEMM_nn_128x128x8')}\n1| {products}"))
    assert both["matrix-products"].cost_ns / 1e6 == pytest.approx(0.75 * 3.95, rel=0.02)


@pytest.mark.parametrize(("places", "title"), [(5, "Rank 1's host, slow at many places, delays rank 0 by"),
                                                (2, "Rank 1's host work before `a` delays rank 0 by")])  # fmt: skip
def test_a_host_that_is_slow_at_many_places_names_none(places: int, title: str) -> None:
    early = "k @0 5-400, n @10 400-905, wait 20-905"
    case = case_of(analysis_of(program(f"0| {early}\n1| busy 0-500, k @500 505-900, n @510 900-905")))
    explanation = case.analysis.explanation
    (cause,) = explanation.causes.filter(rank=1).head(1).iter_rows(named=True)
    rows = [{**cause, "name": f"launching {'abcde'[n]}", "ns": 10_000_000 - n} for n in range(places)]
    causes = pl.DataFrame(rows, schema=explanation.causes.schema)
    found = case.analysis._replace(explanation=explanation._replace(causes=causes))
    (late,) = late_rank(case._replace(analysis=found))
    assert late.title.startswith(title)
    assert ("iterations" in late.title) == (places == 2)


def test_the_copies_of_a_late_rank_are_its_cause() -> None:
    """Rank 0 saves its model: a copy to the host of 4 ms in every iteration."""
    copies = "c:Device-to-Host:Device_to_Pageable @0 5-405, cuda:cudaMemcpyAsync 0-406, k @410 415-500, n @420 500-505"
    found = findings_of(program(f"0| {copies}\n1| k @0 5-90, n @10 90-505, wait 20-506"))["late-rank"]
    assert found.title.startswith("Rank 0's copies (`Device-to-Host`) delay rank 1 by")
    assert "a checkpoint" in found.advice


def test_a_rank_with_other_input_is_no_slow_gpu() -> None:
    """A larger batch launches one kernel under another name; the others take longer under the same one."""
    first = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abcd"))
    second = ", ".join(f"k:{name}:k @0 {5 + 300 * n}-{5 + 300 * (n + 1)}" for n, name in enumerate("abce"))
    found = findings_of(
        program(f"0| {first}, n @10 805-1210, wait 20-1211\n1| {second}, n @10 1205-1210, wait 20-1211")
    )
    assert next(reversed(found)) == "imbalance"
    assert "slow-gpu" not in found


@pytest.mark.parametrize("often", [1, 3])
def test_a_rank_that_launches_kernels_more_often_is_no_slow_gpu(often: int) -> None:
    """Three kernels take 1 ms each once, and 2 ms wherever a rank repeats them: attention without a mask, say."""
    once = [f"k:{name}:k @0 {5 + 100 * n}-{105 + 100 * n}" for n, name in enumerate("abc")]
    more = [f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc" * often)]
    found = findings_of(
        program(
            "\n".join(f"{rank}| {', '.join(rows)}, n @10 1850-1900" for rank, rows in enumerate([once, once, more]))
        )
    )
    assert ("slow-gpu" in found) == (often == 1)


def test_a_gpu_whose_kernels_run_beside_communication_is_no_slow_gpu() -> None:
    """Kernels that take 2 ms alone take 3 ms on rank 1 beside a kernel of NCCL that waits, but not by themselves."""
    alone = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc"))
    longer = ", ".join(f"k:{name}:k @0 {5 + 300 * n}-{5 + 300 * (n + 1)}" for n, name in enumerate("abc"))
    for begin, named in ((2, False), (906, True)):
        found = findings_of(program(f"0| {alone}, n @900 907-910\n1| {longer}, n @1 {begin}-910"))
        assert ("slow-gpu" in found) == named


def test_a_slow_gpu_is_named_though_its_peers_wait_beside_some_of_their_kernels() -> None:
    """Rank 1 takes 1.5 times as long; rank 0 waits for it, now and then beside kernels."""
    usual = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc"))
    slow = ", ".join(f"k:{name}:k @0 {5 + 300 * n}-{5 + 300 * (n + 1)}" for n, name in enumerate("abc"))
    waits = {f"step{n}_rank0": f"{usual}, n @10 400-910, wait 20-911" for n in (0, 2, 4, 6)}
    picture = f"0| {usual}, n @10 605-910, wait 20-911\n1| {slow}, n @10 905-910"
    assert findings_of(program(picture, steps=12, **waits))["slow-gpu"].ranks == (1,)


@pytest.mark.parametrize(("clock", "named"), [(1000, True), (1950, False)])
def test_a_gpu_with_a_low_clock_is_named(clock: int, named: bool) -> None:
    """By its samples while it computes, though kernels of one name are too few to tell."""
    run = program("0| k:a:k @0 5-405, n @10 605-610, wait 20-612\n1| k:a:k @0 5-605, n @10 605-610, wait 20-612")
    times = np.arange(0, run.duration, UNIT)
    clocks = {0: np.full(len(times), 2000), 1: np.full(len(times), clock)}
    samples = [Sampled(n, "Tensor Active", 0, lambda: iter(()), partial(pieces, times, clocks[n])) for n in clocks]
    found = [*slow_gpu(case_of(analysis_of(run)._replace(run=run._replace(samples=tuple(samples)))))]
    assert [(one.ranks, one.confidence) for one in found] == ([((1,), "high")] if named else [])


def pieces(times: Times, values: Times) -> Iterator[tuple[Times, Times]]:
    """All samples in one piece."""
    yield times, values


@pytest.mark.parametrize(("blocks", "named"), [(33, True), (132, False)])
def test_grids_below_the_number_of_multiprocessors_are_named(blocks: int, named: bool) -> None:
    run = with_hardware(program("0| k @0 5-405, k @1 410-800"))
    shape = (blocks << 32) + (1 << 16) + 1
    found = findings_of(run._replace(work=run.work.with_columns(shape=pl.lit(shape, pl.Int64))))
    assert ("small-grids" in found) == named
    if named:
        # 7.9 ms with three quarters of the device unused, of which half counts.
        assert found["small-grids"].cost_ns / 1e6 == pytest.approx(7.9 * 0.75 / 2, rel=0.01)
        assert "33 of 132" in found["small-grids"].title


# Names of kernels on H200 GPUs: without tensor cores, in double precision.
@pytest.mark.parametrize(
    ("name", "scalar", "double"),
    [
        ("sm80_xmma_wgrad_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize32x32x8_ffma", True, False),
        ("dgrad_engine", True, False),
        ("wgrad_alg0_engine", True, False),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32_warpgroupsize2x1x1", False, False),
        ("sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64", False, False),
        ("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_stage3_warpsize2x2x1_tensor16x8x8", False, True),
        ("volta_dgemm_128x64_nn", False, True),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", False, True),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", False, False),
    ],
)
def test_names_say_how_a_product_computes(name: str, scalar: bool, double: bool) -> None:
    assert pl.Series([name]).str.contains(SCALAR_NAMES).to_list() == [scalar]
    assert pl.Series([name]).str.contains(DOUBLE_NAMES).to_list() == [double]


@pytest.mark.parametrize(
    ("family", "threads", "registers", "shared", "occupancy"),
    [
        ("k", 1024, 32, 0, None),  # 64 of 64 warps
        ("GEMM", 128, 255, 0, None),  # 2 blocks of 4 warps, each with 32,768 registers: 8 of 64, of a product
        ("flash_attention", 128, 255, 0, None),
        ("k", 64, 32, 200_000, 2 / 64),  # one block
        ("k", 32, 255, 0, 8 / 64),
    ],
)
def test_kernels_with_few_warps_are_named(
    family: str, threads: int, registers: int, shared: int, occupancy: float | None
) -> None:
    run = with_hardware(program(f"0| k:usual:{family} @0 5-805"))
    resources = (shared << 20) + (registers << 11) + threads
    grid = (1000 << 32) + (1 << 16) + 1
    work = run.work.with_columns(shape=pl.lit(grid, pl.Int64), resources=pl.lit(resources, pl.Int64))
    found = findings_of(run._replace(work=work))
    evidence = found["low-occupancy"].evidence["occupancy"] if "low-occupancy" in found else None
    assert evidence == (occupancy and pytest.approx(occupancy, abs=1e-3))


@pytest.mark.parametrize(("filled", "named"), [(0.95, True), (0.5, False)])
def test_memory_near_full_is_named(filled: float, named: bool) -> None:
    found = findings_of(with_hardware(program(GOOD), memory_peaks=(round(filled * H100.memory),), peak_at=7))
    assert ("memory-near-full" in found) == named
    if named:
        assert "76.0 GB of 80.0 GB, 95 %" in found["memory-near-full"].title
        assert (found["memory-near-full"].severity, found["memory-near-full"].at_ns) == ("medium", 7)


def test_every_rule_is_in_the_tuple_once() -> None:
    assert len({rule.__name__ for rule in RULES}) == len(RULES)
    assert HIGH.value == 0.1


def test_kernels_of_cutlass_are_known_by_their_class() -> None:
    found = findings_of(program("0| k:Kernel2:GEMM_nn_128x128x8 @0 5-600, k @1 600-990"))
    assert "(`GEMM nn 128x128x8`)" in found["matrix-products"].title
