"""Waiting and transfers of communication: which finding names them, and what it advises."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from programs import ALL_BUSY, GOOD, Generous, analysis_of, findings_of, program

from nsys2prv.analysis.communication.exposed_waits import EXPOSED
from nsys2prv.analysis.communication.wait_causes import CAUSE
from nsys2prv.analysis.facts.case import Case, case_of
from nsys2prv.analysis.facts.communication.many_operations import advice_on_operations, common_operations
from nsys2prv.analysis.facts.framework import Framework
from nsys2prv.analysis.facts.thresholds import CONTENDED
from nsys2prv.analysis.findings.contention import contention
from nsys2prv.analysis.findings.exposed_waiting import exposed_waiting
from nsys2prv.analysis.findings.late_rank import late_rank
from nsys2prv.analysis.findings.low_bandwidth import low_bandwidth
from nsys2prv.analysis.frames import WORK, Run


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


@pytest.mark.parametrize(("until", "told"), [(400, True), (150, False)])
def test_a_wavefront_is_told_where_its_end_is_awaited_in_a_collective(until: int, told: bool) -> None:
    """Rank 1 waits for a message for 3.9 or 1.4 ms, and rank 0 then for rank 1 for 4.1 ms."""
    ranks = (
        f"0| k @0 5-{until - 5}, x @1 {until - 5}-{until}, n @2 400-815, wait 20-990\n"
        f"1| x @0 5-{until}, k @1 {until}-810, n @2 810-815, wait 20-990"
    )
    assert any("send smaller pieces" in one.advice for one in analysis_of(program(ranks)).findings) == told


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
    (found,) = late_rank(replace(case, exposed=exposed))
    assert ("Receives posted before that work (MPI_Irecv) hold up no sender." in found.advice) == told


@pytest.mark.parametrize(("kind", "receive", "send"), [("nccl", "irecv", "isend"), ("mpi", "MPI_Irecv", "MPI_Isend")])
def test_the_advice_on_messages_names_calls_of_the_library_that_sends_them(kind: str, receive: str, send: str) -> None:
    case = case_of(analysis_of(program("0| k @0 5-400, n @10 400-905, wait 20-905\n1| k @500 505-900, n @510 900-905")))
    causes = pl.DataFrame([(1, "transfer", "", 9, 1, 6, 6)], schema=CAUSE, orient="row")
    told = case.analysis._replace(explanation=case.analysis.explanation._replace(causes=causes))
    exposed = case.exposed.with_columns(kind=pl.lit(kind), operation=pl.lit(send.replace("isend", "Send")))
    (found,) = late_rank(replace(case, analysis=told, exposed=exposed))
    assert found.title.startswith("Messages hold up rank 1, which delays rank 0")
    assert found.advice == (
        f"See the messages to and from rank 1. Where its partners receive late, receive earlier ({receive} before the "
        f"work); else send less, earlier, or without waiting ({send})."
    )


@pytest.mark.parametrize(("kinds", "named"), [("n", True), ("kkn", False)])
def test_many_short_operations_should_be_merged(kinds: str, named: bool) -> None:
    """In advice on launches, and on a rank that launches them late. An iteration has 99 kernels and operations."""
    of_step = list(enumerate(kinds * (99 // len(kinds))))
    early = ", ".join(f"{kind} @{10 * n} {10 * n + 1}-{10 * n + 2}" for n, kind in of_step)
    found = findings_of(program(f"0| {early}\n1| {early}"))["launch-bound"]
    said = "A rank launches 99 NCCL kernels an iteration, all of them one after another (10 us each): merge what they"
    assert (said in found.advice) == named
    assert "Launch less often" in found.advice
    waiting = ", ".join(f"{kind} @{10 * n} {10 * n + 1}-{10 * n + 6}" for n, kind in of_step)
    late = ", ".join(f"{kind} @{10 * n + 4} {10 * n + 5}-{10 * n + 6}" for n, kind in of_step)
    (of_rank,) = late_rank(case_of(analysis_of(program(f"0| {waiting}\n1| {late}"))))
    assert of_rank.ranks == (1,)
    assert ("merge what they send" in of_rank.advice) == named


@pytest.mark.parametrize(("between", "named"), [("k:pack:copy/cast", True), ("k", False)])
def test_copies_between_operations_pack_what_they_send(between: str, named: bool) -> None:
    """A kernel as long as an operation is between each two, as where the part of each head is made contiguous."""
    each = (f"{between} @{at} {at + 1}-{at + 2}, n @{at + 2} {at + 3}-{at + 4}" for at in range(0, 990, 10))
    line = ", ".join(each)
    advice = findings_of(program(f"0| {line}\n1| {line}"))["launch-bound"].advice
    assert ("merge what they send" in advice) == named
    assert ("and pack all of it at once, as each has a copy of its own now" in advice) == named


@pytest.mark.parametrize(
    ("kind", "merge"),
    [("x", "(one all_to_all_single for all, batch_isend_irecv)."), ("n", "(one buffer, larger bucket_cap_mb, ")],
)
def test_exchanges_are_merged_in_words_of_their_own(kind: str, merge: str) -> None:
    line = ", ".join(f"{kind} @{at} {at + 1}-{at + 2}" for at in range(0, 990, 10))
    case = replace(case_of(analysis_of(program(f"0| {line}\n1| {line}"))), framework=Framework.PYTORCH)
    assert merge in advice_on_operations(case)


@pytest.mark.parametrize(
    ("other", "length", "named"), [("ReduceScatter", 1, True), ("AllGather", 1, False), ("ReduceScatter", 4, False)]
)
def test_small_parts_that_are_sharded_by_themselves_are_named(other: str, length: int, named: bool) -> None:
    """Kernels compute between any two operations, which are 66 an iteration."""
    pairs = zip(range(0, 990, 15), ("AllGather", other) * 33, strict=True)
    each = (f"n:{name} @{at} {at + 1}-{at + 1 + length}, k @{at + 5} {at + 6}-{at + 9}" for at, name in pairs)
    line = ", ".join(each)
    advice = advice_on_operations(case_of(analysis_of(program(f"0| {line}\n1| {line}"))))
    said = "A rank launches 66 all-gathers and reduce-scatters an iteration (10 us each without waiting), as where each"
    assert (said in advice) == named


def test_advice_on_a_cause_of_two_findings_is_given_once() -> None:
    """Launches of 99 operations leave devices without work, and rank 1 launches them late, for which rank 0 waits."""
    waiting = ", ".join(f"n @{at} {at + 1}-{at + 4}, wait {at + 1}-{at + 4.1}" for at in range(0, 990, 10))
    late = ", ".join(f"n @{at + 2} {at + 3}-{at + 4}" for at in range(0, 990, 10))
    found = findings_of(program(f"0| {waiting}\n1| {late}"))
    assert "merge what they send" in found["launch-bound"].advice
    assert found["late-rank"].advice.startswith("Merge NCCL kernels, as said above.")
    assert found["launch-bound"].cost_ns > found["late-rank"].cost_ns


def test_advice_on_small_parts_is_referred_to_in_words_of_its_own() -> None:
    pairs = zip(range(0, 990, 15), ("AllGather", "ReduceScatter") * 33, strict=True)
    line = ", ".join(f"n:{name} @{at} {at + 1}-{at + 2}, k @{at + 5} {at + 6}-{at + 9}" for at, name in pairs)
    case = case_of(analysis_of(program(f"0| {line}\n1| {line}")))
    advice = [advice_on_operations(case, rank) for rank in (None, 1)]
    common = [one for text, rank in zip(advice, (None, 1), strict=True) for one in common_operations(case, text, rank)]
    assert [(one.text, one.again) for one in common] == [
        (text, "Gather larger parts of the model at once, as said above.") for text in advice
    ]
    assert all("all-gathers and reduce-scatters" in text for text in advice)


@pytest.mark.parametrize(("count", "named"), [(64, True), (63, False)])
def test_the_first_operation_of_a_row_is_one_of_it(count: int, named: bool) -> None:
    line = ", ".join(["k @0 1-2", *(f"n @{10 * n} {10 * n + 1}-{10 * n + 2}" for n in range(1, count + 1))])
    found = findings_of(program(f"0| {line}\n1| {line}", every=650))["launch-bound"]
    said = f"A rank launches {count} NCCL kernels an iteration, all of them one after another (10 us each): merge what"
    assert (said in found.advice) == named


def test_ranks_that_wait_in_turn_are_named() -> None:
    early, late = "k @0 5-400, n @10 400-905, wait 20-990", "k @0 5-900, n @10 900-905, wait 20-990"
    turns = {f"step{n}_rank{rank}": late if n % 2 == rank else early for n in range(6) for rank in (0, 1)}
    case = case_of(analysis_of(program(f"0| {early}\n1| {late}", **turns)))
    (found,) = exposed_waiting(case)
    assert found.ranks == (0, 1)
    assert found.title.startswith("Ranks compute longer in turn, and others wait 2.50 ms")
    assert found.cost_ns / 1e6 == pytest.approx(2.5)
    assert found.command == "nsys2prv whatif RUN --set imbalance=0"
    (gaining,) = exposed_waiting(Generous(**vars(case)))
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
    return replace(case, exposed=of_devices, host_waits={0: case.host_waits[0]})


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
        # Kernels take 4 ms of the 10 ms that are left, and transfers the other 6 ms.
        assert found["exposed-transfer"].advice.endswith(
            "hidden transfers gain. Without host work and transfers an iteration would take 60 % less, without host "
            "work alone 40 %."
        )


def test_changes_are_tried_together_only_where_one_hides_the_other() -> None:
    """Short transfers are not worth a replay."""
    for line, together in (("k @0 5-405, n @400 405-1000", True), ("k @0 5-405, n @400 405-420", False)):
        tried = [p.changes for p in analysis_of(program(f"0| {line}\n1| {line}", steps=70)).explanation.predictions]
        assert (("transfer=0", "host=0") in tried) == together


@pytest.mark.parametrize(
    ("end", "named"), [(900, True), (770, True), (740, False), (600, False)], ids=["twice", "longer", "as long", "less"]
)
def test_transfers_beside_a_busy_host_are_named_if_they_take_longer_than_its_late_launches(
    end: int, named: bool
) -> None:
    """Devices idle from the end of the transfers to 1.05 ms of the next 10 ms, and transfers begin at 4.05 ms."""
    line = f"k @100 105-405, n @400 405-{end}"
    found = findings_of(program(f"0| {line}\n1| {line}", steps=70))
    told = "exposed-transfer" in found and "gain nothing alone" in found["exposed-transfer"].title
    assert told == named
    assert not {"launch-bound", "host-bound"}.isdisjoint(found)


def test_communication_that_may_be_waiting_is_no_transfer() -> None:
    line = "k @0 5-400, n @10 400-980, wait 20-985"
    run = program(f"0| {line}\n1| {line}")
    assert "exposed-transfer" in findings_of(run)
    alone = findings_of(run._replace(parts=run.parts.clear()))
    assert "unmatched-communication" in alone
    assert "exposed-transfer" not in alone


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


def test_transfers_of_several_operations_are_named_by_their_time() -> None:
    both = "k @0 5-200, n @10 200-500, s @20 500-700, wait 30-990"
    title = findings_of(program("\n".join(f"{rank}| {both}" for rank in range(2))))["exposed-transfer"].title
    assert title.startswith("Transfers (AllReduce, Send) are not hidden")
    short = both.replace("500-700", "500-560")
    title = findings_of(program("\n".join(f"{rank}| {short}" for rank in range(2))))["exposed-transfer"].title
    assert title.startswith("Transfers (AllReduce) are not hidden")


@pytest.mark.parametrize(("slower", "named"), [(4.0, True), (1.5, False)])
def test_a_communicator_that_moves_less_than_another_is_named(slower: float, named: bool) -> None:
    case = case_of(analysis_of(program(GOOD)))
    rows = [(r, f"c{c}", "AllReduce", 10, 10**9, 10**7 * (slower if c else 1)) for c in (0, 1) for r in (c, 2 + c)]
    table = pl.DataFrame(
        rows, schema=["rank", "communicator", "operation", "activities", "bytes", "transfer_ns"], orient="row"
    ).with_columns(hosts=pl.lit("within a host"), ns=pl.col("transfer_ns"), unmatched_ns=0)
    explanation = case.analysis.explanation._replace(communication=table)
    found = [*low_bandwidth(replace(case, analysis=case.analysis._replace(explanation=explanation)))]
    assert [one.ranks for one in found] == ([(1, 3)] if named else [])


@pytest.mark.parametrize(("factor", "named"), [(1.8, True), (CONTENDED.value, False)])
def test_kernels_that_communication_slows_are_named(factor: float, named: bool) -> None:
    case = case_of(analysis_of(program(GOOD)))
    table = pl.DataFrame(
        {"family": ["GEMM"], "waiting": [factor], "transfer": [1.0], "waiting_ns": [24_000_000], "transfer_ns": [0]}
    )
    explanation = case.analysis.explanation._replace(contention=table)
    found = [*contention(replace(case, analysis=case.analysis._replace(explanation=explanation)))]
    # 24 ms over 2 devices and 6 iterations, of which half could be saved.
    assert [one.cost_ns for one in found] == ([1_000_000] if named else [])


def test_the_rate_of_transfers_is_of_those_with_known_bytes() -> None:
    run = program("0| k @0 5-500, n @10 500-905, wait 20-906\n1| k @0 5-500, n @10 500-905, wait 20-906")
    lacking = run.parts.with_columns(bytes=pl.when(pl.col("task") == 0).then("bytes"))
    unknown = run.work.with_columns(bytes=pl.when(pl.col("task") == 0).then("bytes"))
    rates = [
        findings_of(one)["exposed-transfer"].evidence["gb_s"]
        for one in (run, run._replace(parts=lacking, work=unknown))
    ]
    assert rates[0] == rates[1] > 0


@pytest.mark.parametrize(
    ("kernel", "named"),
    [("batch_norm_reduce_statistics_kernel", True), ("batch_norm_collect_statistics_kernel", False)],
)
def test_layers_that_normalize_over_all_ranks_are_named(kernel: str, named: bool) -> None:
    """Where hosts are busy, and where transfers take the time."""
    layer = "k @{0} {1}-{2}, n @{0} {2}-{3}, k:{kernel} @{0} {3}-{4}"
    begins = [9 * n for n in range(110)]
    of_hosts = ", ".join(layer.format(t, t + 1, t + 2, t + 3, t + 4, kernel=kernel) for t in begins)
    of_network = ", ".join(layer.format(0, t + 1, t + 2, t + 8, t + 9, kernel=kernel) for t in begins) + ", wait 10-990"
    says = "Each rank normalizes 110 times an iteration over the batches of all ranks (SyncBatchNorm)"
    busy, sends = (program(f"0| {line}\n1| {line}") for line in (of_hosts, of_network))
    assert (says in findings_of(_with_underscores(busy))["launch-bound"].advice) == named
    assert (says in findings_of(_with_underscores(sends))["exposed-transfer"].advice) == named
    alone = program(f"0| {of_hosts.replace('n @', 'k @')}")
    assert says not in findings_of(_with_underscores(alone))["launch-bound"].advice


def _with_underscores(run: Run) -> Run:
    """Return a run with underscores in the names of kernels, which a program draws as blanks."""
    name = pl.col("name").cast(pl.String).str.replace_all(" ", "_").cast(WORK["name"])
    return run._replace(work=run.work.with_columns(name))


@pytest.mark.parametrize(
    ("blocks", "size", "end", "told"),
    [
        (1, 1_000_000, 980, True),
        (2, 1_000_000, 980, False),
        (1, 4, 980, False),
        (1, None, 980, True),
        (1, None, 440, False),
    ],
)
def test_large_messages_over_one_channel_are_told(blocks: int, size: int | None, end: int, told: bool) -> None:
    """A transfer of unknown bytes is large if it takes long: 5.8 ms is, and 0.4 ms is not."""
    run = program(f"0| k @0 5-400, n @10 400-{end}, wait 20-985\n1| k @0 5-400, n @10 400-{end}, wait 20-985")
    of_nccl = pl.col("kind") == "nccl"
    shape = pl.when(of_nccl).then(blocks * 2**32 + 2**16 + 1).otherwise("shape")
    parts = run.parts.with_columns(bytes=pl.lit(size, pl.Int64))
    advice = findings_of(run._replace(work=run.work.with_columns(shape=shape), parts=parts))["exposed-transfer"].advice
    assert advice.startswith("NCCL moves large messages over one channel") == told
