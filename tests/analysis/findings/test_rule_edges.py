"""Rules on runs at their edges: several devices of a process, another window, calls outside of the iterations."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import UNIT, Generous, analysis_of, findings_of, of_processes, program

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.conclude import conclude
from nsys2prv.analysis.facts.case import Case, case_of
from nsys2prv.analysis.facts.hosts.launch_cost import waiting_of_devices
from nsys2prv.analysis.facts.ranks.host_on_path import OnPath
from nsys2prv.analysis.facts.ranks.latecomers import _awaited, latecomer_ranks
from nsys2prv.analysis.facts.thresholds import ATTAINABLE
from nsys2prv.analysis.findings.contention import contention
from nsys2prv.analysis.findings.data_loading import data_loading
from nsys2prv.analysis.findings.exposed_transfer import _asynchronous, exposed_transfer
from nsys2prv.analysis.findings.exposed_waiting import _why
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.host_copies import host_copies
from nsys2prv.analysis.findings.launch_bound import launch_bound
from nsys2prv.analysis.findings.low_bandwidth import low_bandwidth
from nsys2prv.analysis.findings.pipeline_bubble import pipeline_bubble
from nsys2prv.analysis.findings.small_grids import small_grids
from nsys2prv.analysis.findings.system_waiting import system_waiting
from nsys2prv.analysis.findings.varying_kernels import varying_kernels
from nsys2prv.analysis.frames import GRAPH, TEXT, AnalyzedTask, Hardware
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.recording.missing import has_lost_work, missing_data
from nsys2prv.model.losses import Loss
from nsys2prv.report.identity import Capacity
from nsys2prv.run.defects import EFFECTS, Defect

GOOD = "0| k @0 2-500, k @10 500-990, n @20 990-995\n1| k @0 2-500, k @10 500-990, n @20 990-995"
LATE = """
0| k @0 5-400, n @10 400-905, wait 20-905
1| k @0 5-400, n @10 400-905, wait 20-905
2| k @0 5-400, n @10 400-905, wait 20-905
3| busy 0-500, k @500 505-900, n @510 900-905
"""
IMBALANCE = "0| k @0 5-400, n @10 400-905, wait 20-905\n1| k @0 5-900, n @10 900-905, wait 20-905"

# Communicator and rank.
RANKS = ((0, 1), (0, 3), (1, 0), (1, 2))


def test_memory_is_allocated_only_between_the_iterations() -> None:
    found = findings_of(program("0|cuda:cudaMalloc 10-300, k @305 310-900, wait 880-905, cuda:cudaFree 906-990"))
    assert found["allocations"].evidence["call"] in ("cudaMalloc", "cudaFree")
    assert found["allocations"].evidence["calls"] == 5


@pytest.mark.parametrize("devices", [1, 2])
def test_the_devices_of_a_process_wait_at_the_same_time(devices: int) -> None:
    """The last rank is late by 5 ms, whether or not it and those that wait have two devices each."""
    (late,) = latecomer_ranks(case_of(analysis_of(of_processes(program(LATE), devices))))
    assert late.member == 4 - devices
    assert late.net_ns / 1e6 == pytest.approx(5.0, rel=0.06)


def test_nccl_kernels_are_no_compute_of_a_rule_whatever_efficiency_counts() -> None:
    as_useful = conclude(program(IMBALANCE), Question(nccl="useful")).findings
    assert [one.id for one in as_useful] == [one.id for one in conclude(program(IMBALANCE), Question()).findings]


def test_of_a_window_that_is_no_iteration_the_longest_rank_is_counted_in_iterations() -> None:
    (found,) = [
        one for one in conclude(program(IMBALANCE), Question(window="device")).findings if one.id == "imbalance"
    ]
    longest, of = (int(word) for word in found.title.split("longest in ")[1].split(" iterations")[0].split(" of "))
    assert 0 < longest <= of
    assert "15.0 ms longer than the mean in the window (" in found.title


def test_transfers_gain_no_more_than_they_are_exposed() -> None:
    """Each rank has 0.5 ms of them, which may add up where ranks hand on what they received."""
    line = "k @0 5-900, n @10 900-950, wait 20-951"
    alone = case_of(analysis_of(program(f"0| {line}")))
    (one,) = exposed_transfer(Generous(**vars(alone)))
    assert "would save 0.50 ms an iteration, a real one about half" in one.title
    assert one.evidence["gain_without_transfers_ns"] == one.evidence["exposed_transfer_ns"] == 500_000
    (several,) = exposed_transfer(Generous(**vars(case_of(analysis_of(program(f"0| {line}\n1| {line}"))))))
    assert (
        "would save 1.00 ms an iteration (those of several ranks come one after another), a real one" in several.title
    )
    some = program(f"0| {line}\n1| {line}")._replace(unchosen=(2,))
    (chosen,) = exposed_transfer(Generous(**vars(case_of(analysis_of(some)))))
    assert "would save 0.50 ms an iteration, a real one about half" in chosen.title


@pytest.mark.parametrize(
    ("picture", "found"),
    [
        ("0| k @0 5-400, n @10 400-980, wait 20-985\n1| k @0 5-400, n @10 400-980, wait 20-985", "exposed-transfer"),
        (IMBALANCE, "imbalance"),
    ],
)
def test_the_window_of_a_step_gains_no_more_than_one_iteration(picture: str, found: str) -> None:
    one, of_each = (
        next(own for own in conclude(program(picture), Question(window=name, metrics=())).findings if own.id == found)
        for name in ("step 2", "steady")
    )
    assert one.cost_ns == pytest.approx(of_each.cost_ns, rel=0.01)


def test_the_window_of_a_step_has_the_delays_of_this_step_only() -> None:
    usual = "busy 0-100, k @100 110-800, n @110 800-805, wait 150-806"
    late = "busy 0-400, k @400 410-900, n @410 900-905, wait 450-906"
    run = program(f"0| {usual}\n1| {usual}", steps=9, step5_rank1=late)
    for name, named in (("step 5", True), ("step 2", False), ("device", True)):
        found = conclude(run, Question(window=name, metrics=())).findings
        assert any("of iteration 5" in one.title for one in found) == named


@pytest.mark.parametrize(("window", "costs"), [("device", [3_000_000]), ("step 2", [500_000]), ("part", [500_000])])
def test_in_another_window_kernels_lose_what_they_do_in_its_iterations(window: str, costs: list[float]) -> None:
    """12 ms over 2 devices and 6 iterations, of which half could be saved. A range of iteration 2 is about that one."""
    run = program(GOOD, step2_rank0="part 0-900, k @0 2-500, k @10 500-990, n @20 990-995")
    case = case_of(analyze_run(run, Question(window=window, metrics=())))
    table = pl.DataFrame(
        {"family": ["kernel"], "waiting": [1.8], "transfer": [1.0], "waiting_ns": [12_000_000], "transfer_ns": [0]}
    )
    explanation = case.analysis.explanation._replace(contention=table)
    found = contention(replace(case, analysis=case.analysis._replace(explanation=explanation)))
    assert [one.cost_ns for one in found] == costs


def test_only_kernels_on_the_device_whose_pages_migrate_wait_for_them() -> None:
    """Pages migrate for 100 us, and on the same device a kernel of 200 us waits, where there is one."""
    pages, other = "0| c:Unified_Host-to-Device @0 5-15", "1| k @0 5-900"
    alone = findings_of(program(f"{pages}, k @10 20-100\n{other}"))["migrations"]
    assert (alone.cost_ns, alone.evidence["kernels_meanwhile_ns"]) == (pytest.approx(1e5, rel=0.1), 0)
    beside = findings_of(program(f"{pages}, k @0 5-25\n{other}"))["migrations"]
    assert beside.evidence["kernels_meanwhile_ns"] == pytest.approx(2e5, rel=0.1)


@pytest.mark.parametrize(("until", "told"), [(990, True), (140, False)])
def test_pages_that_the_host_faults_back_one_by_one_are_named(until: int, told: bool) -> None:
    """From 100 on one goes back in each 100 us, and the device idles in between."""
    pages = [f"c:Unified_Device-to-Host @0 {at}-{at + 1}" for at in range(100, until, 10)]
    line = ", ".join(["c:Unified_Host-to-Device @0 5-50", "k @0 20-100", *pages, f"k @0 {until}-998"])
    found = findings_of(program(f"0| {line}"))["migrations"]
    assert ("between pages that the host faults back" in found.advice) == told
    assert ("and kernels and a host that wait for them" in found.title) == told
    idle = 90_000 * (len(pages) - 1)
    assert found.evidence["idle_between_pages_to_host_ns"] == pytest.approx(idle, rel=0.01)
    assert found.cost_ns == pytest.approx(950_000 + 10_000 * len(pages) + idle, rel=0.01)


def test_a_host_that_works_between_two_pages_does_not_wait_all_the_time() -> None:
    """It touches a page each 2 ms, of which 0.2 ms count."""
    pages = [f"c:Unified_Device-to-Host @0 {at}-{at + 1}" for at in (100, 301, 502, 703)]
    found = findings_of(program(f"0| {', '.join(pages)}, k @0 704-998"))["migrations"]
    assert found.evidence["idle_between_pages_to_host_ns"] == pytest.approx(3 * 200_000, rel=0.01)


def test_blocks_and_multiprocessors_are_of_the_longest_kernel() -> None:
    run = program("0| k @0 5-405\n1| k @0 5-305")
    blocks = pl.when(pl.col("task") == 0).then(33).otherwise(50)
    work = run.work.with_columns(shape=blocks * 2**32 + 2**16 + 1)
    capacity = Capacity(80 * 10**9, 132, 64, 65536, 233472, 32)
    hardware = (Hardware("H100", capacity), Hardware("A100", capacity._replace(multiprocessors=108)))
    assert "33 of 132" in findings_of(run._replace(work=work, hardware=hardware))["small-grids"].title


def with_transfers(case: Case, ms: float, unmatched: float = 0.0) -> Case:
    """A case in which c1 moves a GB in `ms`, and c0 in 10 ms; `unmatched`: share of c1's time."""
    rows = [(r, f"c{c}", 10, 10**9, 10**6 * (ms if c else 10), 10**6 * ms * unmatched * c) for c, r in RANKS]
    columns = ["rank", "communicator", "activities", "bytes", "transfer_ns", "unmatched_ns"]
    table = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        operation=pl.lit("AllReduce"), hosts=pl.lit("within a host"), ns=pl.col("transfer_ns")
    )
    explanation = case.analysis.explanation._replace(communication=table)
    return replace(case, analysis=case.analysis._replace(explanation=explanation))


def test_what_has_no_partner_says_nothing_of_bandwidth() -> None:
    case = case_of(analysis_of(program(GOOD)))
    assert [*low_bandwidth(with_transfers(case, 40, unmatched=0.25))] == []


@pytest.mark.parametrize("devices", [1, 2])
def test_a_slow_communicator_costs_what_a_device_loses(devices: int) -> None:
    """Both devices of a process lose the same 30 ms at the same time."""
    run = of_processes(program(GOOD + "\n2| k @0 2-500\n3| k @0 2-500"), devices)
    (slow,) = low_bandwidth(Generous(**vars(with_transfers(case_of(analysis_of(run)), 10 + 30 * devices))))
    assert slow.cost_ns == pytest.approx(ATTAINABLE.value * 30e6 / 6)


def test_hidden_transfers_cost_nothing() -> None:
    case = case_of(analysis_of(program("0| k @0 2-990, n @1 100-900\n1| k @0 2-990, n @1 100-900")))
    assert [one.cost_ns for one in low_bandwidth(with_transfers(case, 40))] == [0]


@pytest.mark.parametrize(("pause", "name"), [(0, "launch-bound"), (700, "host-bound")])
def test_one_long_pause_of_an_iteration_is_no_matter_of_launches(pause: int, name: str) -> None:
    """Kernels of 10 us leave gaps of 80 us all along, or of 20 us beside a single one of 7 ms."""
    begins = [9 * n if pause == 0 else 3 * n + pause * (n > 50) for n in range(110 if pause == 0 else 100)]
    found = findings_of(program("0| " + ", ".join(f"k @{b} {b + 1}-{b + 2}" for b in begins)))
    assert next(reversed(found)) == name


@pytest.mark.parametrize(
    ("pause", "says"),
    [
        (0, "Most of that time is in `optimizer`: begin there. Launch less"),
        (
            300,
            "Not all of it is launches: see what the host does after `kernel` and before `embed` (34 % of that time).",
        ),
    ],
)
def test_advice_on_launches_says_where_most_of_the_time_is(pause: int, says: str) -> None:
    """Kernels of 10 us leave gaps of 60 us, in one range for two thirds of the time, and another of 3 ms."""
    kernels = [(7 * n + pause * (n >= 50), "embed" if n == 50 else "kernel") for n in range(100 if pause else 140)]
    drawn = ", ".join(f"k:{name} @{at} {at + 1}-{at + 2}" for at, name in kernels)
    of_ranges = "" if pause else "forward 0-260, optimizer 261-980, "
    assert findings_of(program(f"0| {of_ranges}{drawn}"))["launch-bound"].advice.startswith(says)


@pytest.mark.parametrize(("call", "kernels", "cost"), [("Launch", 110, 8.9), ("GraphLaunch", 220, 6.7)])
def test_graphs_that_launch_all_kernels_already_are_to_be_larger(call: str, kernels: int, cost: float) -> None:
    """Of two kernels of 10 us with a pause of 10 us between, which no launch of the host shortens."""
    begins = [9 * n for n in range(110)]
    nodes = {at: [f"k @{at} {at + 1}-{at + 2}", f"k @{at} {at + 3}-{at + 4}"] for at in begins}
    drawn = [f"cuda:cuda{call} {at}-{at + 0.5}, {', '.join(nodes[at][: kernels // len(begins)])}" for at in begins]
    found = findings_of(program(f"0| {', '.join(drawn)}"))["launch-bound"]
    assert found.title.startswith(f"Launch-bound: {kernels} kernels of")
    assert ("CUDA graphs launch these kernels already" in found.advice) == (call == "GraphLaunch")
    assert ("110 times in a row: where a round" in found.advice) == (call == "Launch")
    assert found.cost_ns / 1e6 == pytest.approx(cost, abs=0.05)


def test_graphs_that_are_recorded_whole_are_counted_as_graphs() -> None:
    each = (f"cuda:cudaGraphLaunch {at}-{at + 0.5}, k @{at} {at + 1}-{at + 2}" for at in range(0, 990, 9))
    run = program(f"0| {', '.join(each)}")
    whole = run._replace(work=run.work.with_columns(kind=pl.lit(GRAPH, run.work.schema["kind"])))
    found = findings_of(whole)["launch-bound"]
    assert found.title.startswith("Launch-bound: 110 CUDA graphs of 10.0 us leave the device")
    assert "record with --cuda-graph-trace=graph" not in found.advice


def test_host_functions_of_few_iterations_explain_nothing() -> None:
    """Work waits 3 ms in each of six iterations, and two of them call for a host function."""
    usual, called = "k @0 5-400, k @4 700-990", "k @0 5-400, cuda:cudaLaunchHostFunc 2-3, k @4 700-990"
    found = findings_of(program(f"0| {usual}", step2_rank0=called, step4_rank0=called))
    assert "host-functions" not in found


@pytest.mark.parametrize("alone", [True, False])
def test_host_functions_on_a_stream_of_copies_alone_need_no_other(alone: bool) -> None:
    run = program("0| k @0 5-100, c @1 100-400, cuda:cudaLaunchHostFunc 2-3, k @4 700-990")
    stream = pl.col("row") + (pl.col("kind") == "copy").cast(pl.Int64)
    found = findings_of(run._replace(work=run.work.with_columns(row=stream)) if alone else run)["host-functions"]
    assert ("Their stream has no kernels" in found.advice) == alone
    assert ("Put them on a stream of their own" in found.advice) != alone


def test_of_many_ranks_with_host_functions_the_last_counts_too() -> None:
    """Devices wait 3 ms behind a host function, and that of rank 9 only 1 ms: more ranks than a finding names."""
    lines = [
        f"{rank}| k @0 5-400, cuda:cudaLaunchHostFunc 2-3, k @4 {500 if rank == 9 else 700}-990" for rank in range(10)
    ]
    found = findings_of(program("\n".join(lines)))["host-functions"]
    assert (found.cost_ns / 1e6, found.ranks) == (pytest.approx(1.0, rel=0.06), tuple(range(8)))


@pytest.mark.parametrize(("length", "name"), [(6, "blocking-launches"), (3, "launch-bound")])
def test_launches_that_wait_for_their_kernels_are_named(length: int, name: str) -> None:
    """Each call of 60 or 30 us launches a kernel of 20 us that begins 30 us after it."""
    steps = [10 * n for n in range(98)]
    found = findings_of(
        program(
            "0| " + ", ".join(f"cuda:cudaLaunchKernel {at}-{at + length}, k @{at} {at + 3}-{at + 5}" for at in steps)
        )
    )
    assert next(reversed(found)) == name


def test_a_rank_whose_launches_wait_for_their_kernels_is_named() -> None:
    """Rank 1 alone runs with CUDA_LAUNCH_BLOCKING, and rank 0 waits for it."""
    kernels = [f"k @{at} {at + 3}-{at + 23}" for at in range(0, 900, 30)]
    waits = [f"cuda:cudaLaunchKernel {at}-{at + 24}, {one}" for at, one in zip(range(0, 900, 30), kernels, strict=True)]
    ahead = [f"cuda:cudaLaunchKernel {n}-{n + 1}, k @{n} {20 * n + 3}-{20 * n + 23}" for n in range(30)]
    found = findings_of(
        program(f"0| {', '.join(ahead)}, n @40 610-930, wait 50-930\n1| {', '.join(waits)}, n @900 910-930")
    )
    assert found["late-rank"].advice.startswith("Each launch of rank 1 waits until its kernel has ended. Unset CUDA_")
    assert "blocking-launches" not in found


@pytest.mark.parametrize(
    ("call", "us", "told"), [("StreamCreate", 4, True), ("StreamCreate", 1, False), ("Free", 4, False)]
)
def test_launch_bound_names_calls_that_make_the_same_again(call: str, us: int, told: bool) -> None:
    """The device idles 8 of 9 units before each kernel, and the host is in a call for 4 of them, or for 1."""
    steps = [f"cuda:cuda{call} {at + 2}-{at + 2 + us}, k @{at} {at + 1}-{at + 2}" for at in range(0, 980, 9)]
    advice = findings_of(program(f"0| {', '.join(steps)}"))["launch-bound"].advice
    assert ("% of that time the host is in `cudaStreamCreate`: make what a loop needs" in advice) == told


@pytest.mark.parametrize(("kernels", "waits"), [(100, False), (40, True)])
def test_advice_on_short_kernels_begins_with_the_rank_whose_launches_wait_for_them(kernels: int, waits: bool) -> None:
    """Rank 0 launches as many kernels as rank 1, or fewer, and waits for the rest of the iteration."""
    ahead, blocked = (
        ", ".join(
            f"cuda:cudaLaunchKernel {9 * n}-{9 * n + us}, k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(count)
        )
        for us, count in ((0.5, kernels), (3, 100))
    )
    begin = 9 * kernels + 10
    run = program(f"0| {ahead}, n @{begin} {begin + 2}-990\n1| {blocked}, n @980 985-990")
    found = findings_of(run)["launch-bound"]
    assert found.advice.startswith(
        "First let launches of rank 1 not wait for their kernels. Unset CUDA_LAUNCH_BLOCKING"
    )
    assert (" or waiting for a rank that has not launched, " in found.title) == waits


def test_the_title_on_launches_that_wait_for_kernels_is_of_these_alone() -> None:
    """Rank 0 launches fewer kernels than rank 1, and waits for it in communication."""
    few, many = (
        ", ".join(
            f"cuda:cudaLaunchKernel {9 * n}-{9 * n + 3}, k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(count)
        )
        for count in (40, 100)
    )
    found = findings_of(program(f"0| {few}, n @370 372-990\n1| {many}, n @980 985-990"))["blocking-launches"]
    assert found.cost_ns > 1.1 * found.evidence["starved_ns"]
    assert "the device has no work, " in found.title


def test_launches_of_most_ranks_that_wait_for_their_kernels_are_named() -> None:
    """Ranks 0 and 1 run with CUDA_LAUNCH_BLOCKING, and rank 2 launches hardly anything."""
    steps = [10 * n for n in range(98)]
    line = ", ".join(f"cuda:cudaLaunchKernel {at}-{at + 6}, k @{at} {at + 3}-{at + 5}" for at in steps)
    found = findings_of(program(f"0| {line}\n1| {line}\n2| cuda:cudaLaunchKernel 0-1, k @0 5-990"))
    assert "blocking-launches" in found
    assert "host-bound" not in found


def test_calls_within_others_fill_no_more_than_all_of_the_time() -> None:
    steps = [
        f"cuda:cudaStreamCreate {at + 2}-{at + 9}, cuda:cuStreamCreate {at + 2}-{at + 9}, k @{at} {at + 1}-{at + 2}"
        for at in range(0, 980, 9)
    ]
    advice = findings_of(program(f"0| {', '.join(steps)}"))["launch-bound"].advice
    assert "For 100 % of that time the host is in `cuStreamCreate`, `cudaStreamCreate`" in advice


def test_one_pause_of_the_run_makes_no_other_finding() -> None:
    """In one of six steps of short kernels the host pauses 230 ms, as for a checkpoint."""
    step = ", ".join(f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110))
    case = case_of(analysis_of(program(f"0| {step}")))
    once = pl.when(pl.col("number") == 3).then(230_000_000).otherwise(0)
    paused = case.starved.with_columns(pl.col("longest", "launching") + once)
    (found,) = launch_bound(replace(case, starved=paused))
    assert found.id == "launch-bound"


@pytest.mark.parametrize("devices", [1, 2])
def test_the_rate_of_transfers_is_that_of_a_device(devices: int) -> None:
    case = case_of(analysis_of(of_processes(program(LATE), devices)))
    rate = case.exposed["bytes"].sum() / case.exposed["transfer_ns"].sum()
    assert rate == pytest.approx(1_000_000 / (5 * 10_000), rel=0.3)


def test_ranks_without_recorded_device_work_load_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says when a device was idle."""
    usual = "load 0-400, cuda:cudaLaunchKernel 400-405, k @400 405-410"
    run = program(f"0| {usual}\n1| {usual}")
    case = case_of(analysis_of(run._replace(work=run.work.clear())))
    monkeypatch.setattr("nsys2prv.analysis.findings.data_loading.loading", lambda _: OnPath(4e6, None))
    (found,) = data_loading(case)
    assert (found.cost_ns, found.at_ns) == (4e6, None)


def test_hosts_on_the_path_wait_in_the_system_though_no_device_idles_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(analysis_of(program(GOOD)))
    monkeypatch.setattr("nsys2prv.analysis.findings.system_waiting.in_system", lambda _: OnPath(4e6, "poll", 3, 4e6))
    (found,) = system_waiting(case)
    assert found.title == "Ranks wait 4.00 ms an iteration for each other's hosts, which are in `poll`"
    assert (found.cost_ns, found.evidence["calls"], found.at_ns) == (4e6, 3, None)


def test_helper_processes_do_not_lower_what_ranks_wait() -> None:
    """They never wait, and would be most of those whose waits count."""
    exchange = (
        "0| k @0 5-300, x @1 300-305, x @2 305-605, k @3 605-990, wait 20-990\n"
        "1| x @0 5-305, k @1 305-600, x @2 600-605, k @3 605-990, wait 20-990"
    )
    run = program(exchange)
    helpers = tuple(AnalyzedTask(n, "compiler", "host", is_rank=False) for n in range(2, 6))
    cost = findings_of(run)["exposed-waiting"].cost_ns
    assert findings_of(run._replace(tasks=run.tasks + helpers))["exposed-waiting"].cost_ns == cost


def test_memory_that_is_allocated_to_load_data_is_loading_alone() -> None:
    found = analysis_of(program("0| load 0-300, cuda:cudaMalloc 1-300, k @300 305-990"))
    starved = case_of(found).starved
    assert starved["load"].max() == pytest.approx(3e6, rel=0.06)
    assert starved["allocating"].max() == 0
    assert starved["longest"].max() == pytest.approx(3e6, rel=0.06)
    assert "allocations" not in {one.id for one in found.findings}


def test_the_bubble_of_the_evidence_is_that_of_the_title_and_of_the_worst_pipeline() -> None:
    picture = (
        "0| k @0 5-300, s @1 300-305, s @2 305-605, k @3 605-990, wait 20-990\n"
        "1| s @0 5-305, k @1 305-600, s @2 600-605, k @3 605-990, wait 20-990"
    )
    case = case_of(analysis_of(program(picture)))
    rows = [(0, 0, 0.1), (0, 1, 0.1), (1, 0, 0.4), (1, 1, 0.6), (1, 2, 0.5)]
    stages = pl.DataFrame(rows, schema=["pipeline", "stage", "bubble"], orient="row").with_columns(
        ideal=0.2, microbatches=8.0
    )
    explanation = case.analysis.explanation._replace(stages=stages)
    (found,) = pipeline_bubble(replace(case, analysis=case.analysis._replace(explanation=explanation)))
    assert "they are empty 50 % of the pipeline's time; with 8 microbatches on 3 stages 20 % always are" in found.title
    assert (found.evidence["bubble"], found.evidence["stages"]) == (0.5, 3)
    assert found.evidence["waiting_share"] == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    ("ideal", "busy", "advice"),
    [
        (0.3, False, "Use more microbatches"),
        (0.1, False, "The schedule needs far less, and more microbatches gain little: give each stage the same work"),
        (
            0.1,
            True,
            "The schedule needs far less, and more microbatches gain little: stages stand still mainly because",
        ),
    ],
    ids=["the schedule", "the stages", "the hosts"],
)
def test_a_bubble_far_beyond_the_ideal_one_is_not_of_the_schedule(ideal: float, busy: bool, advice: str) -> None:
    """Of 10 ms half is a bubble: devices wait for messages, or for launches in 4 ms."""
    picture = (
        "0| k @0 5-300, s @1 300-305, s @2 305-605, k @3 605-990, wait 20-990\n"
        "1| s @0 5-305, k @1 305-600, s @2 600-605, k @3 605-990, wait 20-990"
    )
    case = case_of(analysis_of(program(picture)))
    rows = [(0, stage, 0.5, ideal, 8.0) for stage in (0, 1)]
    stages = pl.DataFrame(rows, schema=["pipeline", "stage", "bubble", "ideal", "microbatches"], orient="row")
    analysis = case.analysis._replace(explanation=case.analysis.explanation._replace(stages=stages))
    starved = case.starved.with_columns(launching=pl.lit(4e6)) if busy else case.starved
    (found,) = pipeline_bubble(replace(case, analysis=analysis, starved=starved))
    assert found.advice.startswith(advice)


VARIES = dict.fromkeys((2, 4), "k:usual:k @0 2-300, k:varies:k @1 300-990")


@pytest.mark.parametrize("devices", [1, 2])
def test_kernels_vary_on_a_device_of_a_process(devices: int) -> None:
    slow = {f"step{n}_rank{rank}": line for n, line in VARIES.items() for rank in (0, 1)}
    usual = "k:usual:k @0 2-300, k:varies:k @1 300-600"
    run = of_processes(program(f"0| {usual}\n1| {usual}", **slow), devices)
    case = case_of(analysis_of(run))
    found = [one for _ in range(8) for one in varying_kernels(case)]
    assert {one.ranks for one in found} == {(0,)}, "of equal losses always the same one"
    assert found[0].cost_ns / 1e6 == pytest.approx(2 * 3.9 / 6)


def test_kernels_that_vary_beside_the_critical_path_cost_nothing() -> None:
    slow = {f"step{n}_rank0": line for n, line in VARIES.items()}
    case = case_of(analysis_of(program("0| k:usual:k @0 2-300, k:varies:k @1 300-600", **slow)))
    path = case.analysis.explanation.path.filter(pl.col("name") != "varies")
    explanation = case.analysis.explanation._replace(path=path)
    (found,) = varying_kernels(replace(case, analysis=case.analysis._replace(explanation=explanation)))
    assert found.cost_ns == 0


def test_of_equal_waits_the_last_one_is_shown() -> None:
    pairs = pl.DataFrame(
        [(at, 5.0, waiting, 9) for waiting, at in enumerate(range(10, 90, 10))],
        schema=["waits_at", "exposed_waiting_ns", "waiting", "late"],
        orient="row",
    )
    assert {_awaited(pairs, {}, 0.0, 1)[0].at for _ in range(10)} == {80}


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        (("GEMM_nn_128x128x32_align2", "GEMM_nn_128x128x32_align8"), "unaligned-products"),
        (("GEMM_nn_128x128x8", "GEMM_nn_128x128x32"), "matrix-products"),
    ],
)
def test_other_kernels_of_one_name_do_not_count_as_on_the_critical_path(classes: tuple[str, str], name: str) -> None:
    products = ", ".join(f"k:Kernel2:{one} @{n} {5 + 300 * n}-{305 + 300 * n}" for n, one in enumerate(classes))
    evidence = findings_of(program(f"0| {products}, k @2 605-990"))[name].evidence
    assert evidence["products_ns"] == evidence["on_critical_path_ns"] == 3_000_000


def test_large_grids_of_a_kernel_save_nothing_where_small_ones_are() -> None:
    """Of 3 ms in small grids, 1.5 ms of which are unused, none is on the critical path."""
    run = program("0| k @0 5-305, k @1 305-990")
    blocks = pl.when(pl.col("start") % 10**7 < 10**6).then(66).otherwise(132)
    work = run.work.with_columns(shape=blocks * 2**32 + 2**16 + 1)
    hardware = (Hardware("H100", Capacity(80 * 10**9, 132, 64, 65536, 233472, 32)),)
    case = case_of(analysis_of(run._replace(work=work, hardware=hardware)))
    path = case.analysis.explanation.path.filter(pl.col("end") % 10**7 > 4 * 10**6)
    explanation = case.analysis.explanation._replace(path=path)
    found = [*small_grids(replace(case, analysis=case.analysis._replace(explanation=explanation)))]
    assert [(one.id, one.cost_ns) for one in found if one.id == "small-grids"] == [("small-grids", 0)]


def test_a_rank_whose_memories_are_all_full_is_named_once() -> None:
    run = of_processes(program(GOOD), 2)
    full = Hardware("H100", Capacity(80 * 10**9, 132, 64, 65536, 233472, 32), (79 * 10**9,))
    assert findings_of(run._replace(hardware=(full, full)))["memory-near-full"].ranks == (0,)


@pytest.mark.parametrize(
    ("gigabytes", "severity", "words"),
    [
        (
            (50, 50),
            "low",
            "may be nearly full: one process held 50.0 GB of 80.0 GB, 62 %, and 2 together up to 80.0 GB",
        ),
        (
            (40, 35),
            "low",
            "may be nearly full: one process held 40.0 GB of 80.0 GB, 50 %, and 2 together up to 75.0 GB",
        ),
        ((76, 50), "medium", "is nearly full: one process held 76.0 GB of 80.0 GB, 95 %, and 2 together up to 80.0 GB"),
        ((30, 30), None, ""),
    ],
)
def test_what_processes_held_at_different_times_is_not_added(
    gigabytes: tuple[int, ...], severity: str | None, words: str
) -> None:
    run = program("0| k @0 2-500, k @10 500-990")
    held = tuple(one * 10**9 for one in gigabytes)
    hardware = Hardware("H100", Capacity(80 * 10**9, 132, 64, 65536, 233472, 32), held, 7)
    found = findings_of(run._replace(hardware=(hardware,))).get("memory-near-full")
    assert (found and found.severity) == severity
    assert found is None or words in found.title


def test_no_more_ranks_are_named_than_a_finding_may() -> None:
    run = program(
        "\n".join(f"{rank}| k:a:k @0 5-15, k:b:k @20 500-510" for rank in range(9)),
        steps=11,
        **{f"step{n}_rank0": f"k:a:k @0 5-{65 + 30 * n}, k:b:k @20 500-510" for n in range(0, 10, 2)},
        **{f"step{n}_rank0": f"k:a:k @0 5-15, k:b:k @20 500-{565 + 30 * n}" for n in range(1, 10, 2)},
    )
    shared = findings_of(run._replace(work=run.work.with_columns(device=pl.lit(0, pl.Int64))))["shared-gpu"]
    assert shared.ranks == tuple(range(8))


@pytest.mark.parametrize(
    ("line", "name", "key", "each"),
    [
        ("load 0-400, k @405 410-990", "data-loading", "host_ns", 4_000_000),
        ("k @0 5-100, cuda:cudaMalloc 100-395, k @395 400-990", "allocations", "calls_ns", 2_950_000),
        ("c:HtoD:Pageable_to_Device @0 5-405, k @400 405-990", "pageable-copies", "bytes", 1_000_000),
        ("c:Unified_Host-to-Device @0 5-105, k @0 50-990", "migrations", "bytes", 1_000_000),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_evidence_is_of_an_iteration_of_a_rank(line: str, name: str, key: str, each: int, ranks: int) -> None:
    """As are the times beside it."""
    found = findings_of(program("\n".join(f"{rank}| {line}" for rank in range(ranks))))[name]
    assert found.evidence[key] == pytest.approx(each, rel=0.01)


@pytest.mark.parametrize(("between", "told"), [("", True), (", k @520 540-550", False)])
def test_data_that_goes_back_at_once_is_to_stay_on_the_device(between: str, told: bool) -> None:
    """Twice as many bytes go to the device as come back, as where one of two arguments is a result."""
    copies = "c:Host-to-Device @0 5-105, k @105 110-200, c:Device-to-Host @200 205-505"
    back = f"{between}, c:Host-to-Device @550 555-900, k @900 905-990"
    advice = findings_of(program(f"0| {copies}{back}"))["exposed-copies"].advice
    said = "Most data that comes to the host goes back to the device at once: keep on the device what is needed again ("
    assert advice.startswith(said) == told
    assert "Copy on another stream while kernels run" in advice


@pytest.mark.parametrize("mpi", [False, True])
def test_data_that_ranks_may_exchange_is_not_said_to_come_back(mpi: bool) -> None:
    line = "c:Host-to-Device @0 5-205, k @205 210-300, c:Device-to-Host @300 305-505, k @505 510-990"
    sent = ", mpi:MPI_Sendrecv 506-507" * mpi
    advice = findings_of(program(f"0| {line}{sent}\n1| {line}{sent}"))["exposed-copies"].advice
    assert advice.startswith("As many bytes come back from the device as go there") != mpi
    assert ("With a CUDA-aware MPI messages need no copy." in advice) == mpi


def test_a_checkpoint_is_nothing_to_keep_on_the_device() -> None:
    advice = findings_of(program("0| k @0 5-300, c:Device-to-Host @300 305-505, k @505 510-990"))[
        "exposed-copies"
    ].advice
    assert advice.startswith("Copy on another stream while kernels run")


def test_single_values_that_come_and_go_are_no_data_to_keep() -> None:
    line = "c:Host-to-Device @0 5-205, k @205 210-300, c:Device-to-Host @300 305-505, k @505 510-990"
    run = program(f"0| {line}")
    few_bytes = run._replace(work=run.work.with_columns(bytes=pl.lit(4, pl.Int64)))
    assert findings_of(few_bytes)["exposed-copies"].advice.startswith("Keep on the device what is needed again (")


@pytest.mark.parametrize(("back", "told"), [("Device-to-Host", True), ("Host-to-Device", False)])
def test_arrays_that_go_to_the_device_and_back_are_to_stay_there(back: str, told: bool) -> None:
    copies = f"c:Host-to-Device:Pageable_to_Device @0 5-205, k @205 210-300, c:{back}:Device_to_Pageable @300 305-505"
    advice = findings_of(program(f"0| {copies}, k @505 510-990"))["pageable-copies"].advice
    assert advice.startswith("As many bytes come back from the device as go there") == told
    assert "pinned memory" in advice


def test_of_equal_times_the_latest_is_told() -> None:
    """In whatever order they come."""
    run = program("0| c:HtoD:Pageable_to_Device @0 5-405, k @400 405-990")
    case = case_of(analysis_of(run))
    backwards = replace(case, analysis=case.analysis._replace(run=run._replace(work=run.work.reverse())))
    assert [one.at_ns for each in (case, backwards) for one in host_copies(each)] == [50_050_000] * 2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1))
def test_the_place_of_the_longest_depends_on_no_order(times: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(times, schema=["ns", "start"], orient="row")
    assert frame.select(at_longest("ns")).item() == max(times)[1]


def test_data_that_is_loaded_beyond_the_iterations_of_the_window_is_told_without_their_range() -> None:
    found = analysis_of(program("0| load 0-400, k @405 410-990"))
    (loading,) = data_loading(case_of(found._replace(ranges=found.ranges.clear())))
    assert (loading.evidence["range"], loading.evidence["host_ns"]) == ("load", 0)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", ["nccl", "mpi"])
def test_ranks_wait_as_long_in_mpi_whatever_their_devices(devices: int, kind: str) -> None:
    """NCCL waits on each device of a process, MPI once a process: 6 ms in six iterations."""
    found = analysis_of(of_processes(program(LATE), devices))
    ranks = [gpu.rank for gpu in found.run.devices] if kind == "nccl" else [task.rank for task in found.run.tasks]
    exposed = pl.DataFrame({"rank": ranks, "kind": kind, "exposed_waiting_ns": 6_000_000, "bytes": 0})
    case = case_of(found._replace(explanation=found.explanation._replace(exposed=exposed)))
    assert waiting_of_devices(case, 9e9) == 1_000_000


@pytest.mark.parametrize(
    ("cost", "said"), [(0, ""), (328, "0.328 us"), (9_999, "9.999 us"), (10_000, "0.010 ms"), (4_152_000, "4.152 ms")]
)
def test_a_short_cost_is_told_in_us(cost: int, said: str) -> None:
    assert Finding("any", "", cost, "").cost_text == said


def test_general_advice_stays_beside_a_hidden_collective() -> None:
    """No rank waits for a message, and none exposed for another one in a collective."""

    def advice_of(*ends: str) -> str:
        run = program(
            "\n".join(f"{r}| k @0 5-100, n @1 100-500, k @2 505-990{end}, wait 20-992" for r, end in enumerate(ends))
        )
        unknown = pl.col("operation") % 100 == 0
        last = pl.when(unknown).then(pl.col("began") + 300 * UNIT).otherwise("last")
        parts = run.parts.with_columns(waited_for=pl.when(unknown).then(None).otherwise("waited_for"), last=last)
        return findings_of(run._replace(parts=parts))["exposed-waiting"].advice

    assert advice_of(", n @3 600-800", ", n @3 790-800") == advice_of("", "")


@pytest.mark.parametrize(("picture", "gpus"), [("500-508", 1), ("500-508", 4)])
def test_the_severity_of_communication_without_partners_is_that_of_its_time_on_a_gpu(picture: str, gpus: int) -> None:
    late = picture.replace("50", "70")
    lines = "\n".join(f"{device}| k @0 5-400, n @10 {picture if device < gpus else late}" for device in range(2 * gpus))
    run = of_processes(program(lines), gpus)
    none = pl.lit(None, pl.Int64)
    found = findings_of(run._replace(parts=run.parts.with_columns(last=none, waited_for=none)))
    assert found["unmatched-communication"].severity == "low"


@pytest.mark.parametrize(("share", "lost"), [(1e-6, True), (0.5, False)])
def test_one_failed_call_does_not_hide_that_device_activity_was_lost(share: float, lost: bool) -> None:
    run = program("0| k @0 5-400, cuda:cudaLaunchKernel 0-1")
    failed = Defect(1, "1 call of cudaMalloc that returned 2", EFFECTS[Loss.FAILED_CALL], ("report",), share)
    empty = run._replace(work=run.work.clear(), recorded_families=frozenset({"cuda_api"}), defects=(failed,))
    assert has_lost_work(empty) == lost
    assert any("device activity" in what for what in missing_data(empty)) == lost


def test_transfers_of_one_rank_are_not_in_turn() -> None:
    """Both ranks transfer for 1 ms, and rank 1 computes meanwhile."""
    rank = "k @0 0-400, n @0 400-500, k @0 500-501"
    found = findings_of(program(f"0| {rank}, wait 5-990\n1| {rank}, k @0 380-505, wait 5-990"))["exposed-transfer"]
    assert found.evidence["gain_without_transfers_ns"] == pytest.approx(100 * UNIT, rel=0.01)
    assert "add up" not in found.title


def test_ranks_wait_in_mpi_before_the_first_kernel_for_one_that_records_later() -> None:
    run = program("0| k @400 405-800, mpi:MPI_Barrier 0-300\n1| k @400 405-800, mpi:MPI_Barrier 290-300", steps=1)
    parts = program("0| k @0 5-400, n @10 400-905\n1| k @0 5-400, n @10 400-905", steps=1).parts
    began = pl.Series([0, 290 * UNIT])
    late = {
        "last": pl.lit(290 * UNIT, pl.Int64),
        "waited_for": pl.lit(1, pl.Int64),
        "ended": pl.lit(300 * UNIT, pl.Int64),
    }
    calls = parts.with_columns(row=pl.Series([0, 3]), began=began, family=pl.lit("mpi", TEXT), **late)
    first = run._replace(ranges=run.ranges.filter(pl.col("task") == 0), parts=calls)
    found = {one.id: one for one in conclude(first, Question(window="trace", metrics=())).findings}
    assert found["late-capture"].title.startswith(
        "Ranks do not begin to record together: rank 1 began to record 3 ms after"
    )


@pytest.mark.parametrize(
    ("receive", "probe", "doubtful"),
    [("MPI_Mrecv", "MPI_Barrier", True), ("MPI_Imrecv", "MPI_Barrier", True), ("MPI_Mrecv", "MPI_Mprobe", False)],
)
def test_messages_that_no_recorded_probe_found_were_waited_for(receive: str, probe: str, doubtful: bool) -> None:
    run = program(f"0| k @100 105-300, mpi:{probe} 400-500, mpi:{receive} 700-705\n1| k @100 105-300")
    found = findings_of(run)
    assert ("unrecorded-probes" in found) == doubtful
    if doubtful:
        assert found["unrecorded-probes"].ranks == (0,)
        assert found["unrecorded-probes"].evidence["matched_receives"] > 0


@pytest.mark.parametrize(
    ("operation", "asynchronous"),
    [("MPI_Wait", True), ("MPI_Waitall", True), ("MPI_Recv", False), ("MPI_Isend", False)],
)
def test_time_in_waits_for_asynchronous_transfers_asks_for_progress_of_mpi(operation: str, asynchronous: bool) -> None:
    rank = "k @0 0-400, n @0 400-500, k @0 500-501, wait 5-990"
    case = case_of(analysis_of(program(f"0| {rank}\n1| {rank}")))
    text = case.exposed.schema["operation"], case.exposed.schema["kind"]
    of_mpi = {c: pl.lit(v).cast(t) for c, v, t in zip(("operation", "kind"), (operation, "mpi"), text, strict=True)}
    (found,) = exposed_transfer(replace(case, exposed=case.exposed.with_columns(**of_mpi)))
    assert ("MPI_Test" in found.advice, "Overlap" in found.advice) == (asynchronous, not asynchronous)
    # By the name that the title has.
    assert found.advice.startswith(f"Most of the time is in {operation}: ") == asynchronous


@pytest.mark.parametrize(
    ("times", "named"),
    [((60, 30, 10), "MPI_Waitall"), ((36, 30, 34), "MPI_Waitall and MPI_Wait"), ((20, 20, 60), "")],
)
def test_waits_of_mpi_are_named_that_have_most_of_the_time_together(times: tuple[int, ...], named: str) -> None:
    operations = ["MPI_Waitall", "MPI_Wait", "MPI_Allreduce"]
    assert _asynchronous(pl.DataFrame({"operation": operations, "exposed_transfer_ns": times})) == named


def test_waiting_in_sends_names_the_late_receivers() -> None:
    """Rank 1 receives late from rank 0, and rank 3 from rank 2: none of them is late for the others."""
    case = case_of(analysis_of(program("0| k @0 5-400, n @10 400-905\n1| k @0 5-900, n @10 900-905")))
    waits = case.exposed.filter(pl.col("exposed_waiting_ns") > 0).head(1)
    of_mpi = {"operation": pl.lit("MPI_Send").cast(waits.schema["operation"])}
    pairs = [
        waits.with_columns(rank=pl.lit(a, pl.Int64), waited_for=pl.lit(b, pl.Int64), **of_mpi)
        for a, b in ((0, 1), (2, 3))
    ]
    reason = _why(case, pl.concat(pairs), "Ranks")
    assert reason.what == "Ranks wait for others, 100 % of it in sends until ranks 1 and 3 receive,"
    assert "MPI_Irecv" in reason.advice
    alone = _why(case, pairs[0], "Ranks")
    assert alone.what == "Ranks wait for others, 100 % of it in sends until rank 1 receives,"
