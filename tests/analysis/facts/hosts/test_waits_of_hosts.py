"""Hosts that wait for their devices: with and without a record of it, by polling, and one rank more often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest
from programs import analysis_of, findings_of, of_processes, program

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.framework import Framework
from nsys2prv.analysis.facts.hosts.waits_of_hosts import code_that_waits, waits_by_rank, waits_more
from nsys2prv.analysis.frames import CALLS, COPY
from nsys2prv.analysis.graph.device_waits import device_waits
from nsys2prv.analysis.graph.polling import FEWEST_QUERIES, LONGEST_GAP, polls

SYNCHRONIZED = "0| k @0 5-400, wait 10-402, k @450 455-990"
SHORT = ", ".join(f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110))
# Rank 1 waits after each of ten kernels, and the other ranks, which wait once, wait for it.
OFTEN = ", ".join(f"k @{90 * n} {90 * n + 1}-{90 * n + 41}, wait {90 * n + 2}-{90 * n + 42}" for n in range(10))
ONCE = "k @0 5-400, n @10 400-905, wait 20-905"
LATE = f"0| {ONCE}\n1| {OFTEN}, n @899 900-905\n2| {ONCE}"


def unrecorded(picture: str) -> str:
    """The same program by a version of nsys that records no synchronization for calls that wait for the device."""
    return picture.replace("wait ", "cuda:cudaDeviceSynchronize ")


def polled(picture: str) -> str:
    """The same program, whose host asks again and again whether the device is done."""
    return picture.replace("wait ", "poll ")


def asked(
    start: int, row: int = 0, queries: int = FEWEST_QUERIES, name: str = "cudaEventQuery"
) -> list[tuple[object, ...]]:
    """Calls of a thread that asks every 2 us from `start` on, each for 1 us (ns)."""
    return [(0, row, t, t + 1_000, "cuda", name) for t in range(start, start + 2_000 * queries, 2_000)]


def test_a_synchronization_counts_once_with_and_without_its_record() -> None:
    rows = [
        (0, 0, 0, 10, "cuda", "cudaDeviceSynchronize"),
        (0, 0, 1, 9, "synchronization", "Context synchronize"),
        (0, 0, 20, 30, "cuda", "cudaDeviceSynchronize"),
        (0, 0, 40, 50, "cuda", "cudaLaunchKernel"),
        (0, 0, 60, 70, "synchronization", "Stream wait event"),
        # Another thread's record says nothing of this call.
        (0, 1, 80, 90, "cuda", "cuCtxSynchronize"),
        (0, 0, 82, 83, "synchronization", "Stream synchronize"),
    ]
    calls = pl.DataFrame(rows, schema=CALLS, orient="row")
    found = device_waits(calls, polls(calls))
    assert sorted(found.select("row", "start", "end").rows()) == [(0, 1, 9), (0, 20, 30), (0, 82, 83), (1, 80, 90)]


LAUNCH = (0, 0, 2_000 * FEWEST_QUERIES, 2_000 * FEWEST_QUERIES + 500, "cuda", "cudaLaunchKernel")
LAST = 2_000 * FEWEST_QUERIES - 1_000
NEXT, LATER = 2_000 * FEWEST_QUERIES + 1_000, LAST + LONGEST_GAP + 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (asked(0), [(0, 0, LAST)]),
        (asked(0, name="cuStreamQuery"), [(0, 0, LAST)]),
        (asked(0, queries=FEWEST_QUERIES - 1), []),
        (asked(0, name="cudaEventRecord"), []),
        # Another call between ends a series, one of another thread or another kind does not.
        ([*asked(0), LAUNCH, *asked(NEXT)], [(0, 0, LAST), (0, NEXT, NEXT + LAST)]),
        ([*asked(0, queries=FEWEST_QUERIES // 2), LAUNCH, *asked(NEXT, queries=FEWEST_QUERIES // 2)], []),
        ([*asked(0), (0, 1, 3_000, 3_500, "cuda", "cudaLaunchKernel")], [(0, 0, LAST)]),
        ([*asked(0), (0, 0, 3_000, 3_500, "os", "sched_yield")], [(0, 0, LAST)]),
        ([*asked(0), *((0, 0, t, t, "cuda", "cudaGetLastError") for t in range(1_200, LAST, 2_000))], [(0, 0, LAST)]),
        (asked(0) + asked(LAST + LONGEST_GAP), [(0, 0, 2 * LAST + LONGEST_GAP)]),
        (asked(0) + asked(LATER), [(0, 0, LAST), (0, LATER, LATER + LAST)]),
        (asked(500) + asked(0, row=1), [(0, 500, 500 + LAST), (1, 0, LAST)]),
        (asked(0, queries=FEWEST_QUERIES // 2) + asked(FEWEST_QUERIES * 1_000, row=1, queries=FEWEST_QUERIES // 2), []),
    ],
)  # fmt: skip
def test_a_series_of_polling_is_many_queries_of_a_thread_in_a_row(
    rows: list[tuple[object, ...]], expected: list[tuple[int, int, int]]
) -> None:
    calls = pl.DataFrame(rows, schema=CALLS, orient="row").sort("start")
    found = polls(calls)
    assert found.schema == calls.schema
    assert found.select("row", "start", "end").rows() == expected


def test_a_series_of_polling_counts_once_with_the_records_of_its_queries() -> None:
    records = [(*row[:4], "synchronization", "Event synchronize") for row in [*asked(0), *asked(NEXT, queries=1)]]
    calls = pl.DataFrame([*asked(0), *records], schema=CALLS, orient="row")
    found = device_waits(calls, polls(calls)).select("start", "end", pl.col("name").cast(pl.String))
    assert sorted(found.rows()) == [(0, LAST, "cudaEventQuery"), (NEXT, NEXT + 1_000, "Event synchronize")]


def test_a_device_that_runs_dry_after_polling_is_named_and_not_the_work_of_the_host() -> None:
    waited, found = (findings_of(program(text)) for text in (SYNCHRONIZED, polled(SYNCHRONIZED)))
    named = found["host-synchronization"]
    assert named.title.startswith("cudaEventQuery (polling) empties the device")
    assert "cudaStreamWaitEvent" in named.advice
    assert named.cost_ns == waited["host-synchronization"].cost_ns > 0
    assert "host-bound" not in found


def test_a_device_that_runs_dry_after_a_synchronization_without_a_record_is_named() -> None:
    with_record, without = (findings_of(program(text)) for text in (SYNCHRONIZED, unrecorded(SYNCHRONIZED)))
    named = without["host-synchronization"]
    assert named.title.startswith("cudaDeviceSynchronize empties the device")
    assert named.cost_ns == with_record["host-synchronization"].cost_ns > 0


@pytest.mark.parametrize("otherwise", [unrecorded, polled])
def test_idle_time_within_a_wait_without_a_record_is_of_the_host_that_waits(otherwise: Callable[[str], str]) -> None:
    """The host waits until 4.5 ms, and launches at once then; the device has nothing to do from 4 ms on."""
    picture = "0| k @0 5-400, wait 10-450, k @450 455-990"
    with_record, without = (analysis_of(program(text)).explanation.idle for text in (picture, otherwise(picture)))
    assert without.equals(with_record)
    assert without["host_synchronization_ns"].sum() > 0


@pytest.mark.parametrize("picture", [LATE, polled(LATE)], ids=["waits", "polls"])
def test_a_rank_whose_host_waits_more_often_than_others_is_advised_so(picture: str) -> None:
    analysis = analysis_of(program(picture))
    case = case_of(analysis)
    assert waits_by_rank(case) == {0: 1, 1: 10, 2: 1}
    assert [waits_more(waits_by_rank(case), rank) for rank in range(3)] == [None, (10, 1), None]
    (late,) = [one for one in analysis.findings if one.id == "late-rank"]
    assert late.advice.startswith("The host of rank 1 waits 10 times an iteration for its device, those of others once")


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ([4], "for its device, those of"),
        ([1 << 20], "on average for copies of data"),
        ([1 << 20, 4096, 4096], "on average for copies of data"),
        ([1 << 20, *[4] * 9], "for its device, those of"),
    ],
    ids=["values", "data", "matrices with their biases", "values beside one copy of data"],
)
def test_copies_of_a_value_and_of_a_checkpoint_are_told_apart(sizes: list[int], says: str) -> None:
    copying = ", ".join(
        f"k @{90 * n} {90 * n + 1}-{90 * n + 41}, c:Device-to-Host @{90 * n + 1} {90 * n + 41}-{90 * n + 42}, "
        f"wait {90 * n + 2}-{90 * n + 42}"
        for n in range(10)
    )
    run = program(LATE.replace(OFTEN, copying))
    nth = pl.int_range(pl.len()).over("kind") % len(sizes)
    sized = pl.when(pl.col("kind") == COPY).then(nth.replace_strict(dict(enumerate(sizes)))).otherwise("bytes")
    found = findings_of(run._replace(work=run.work.with_columns(bytes=sized)))
    assert found["late-rank"].advice.startswith(f"The host of rank 1 waits 10 times an iteration {says}")


@pytest.mark.parametrize(("seldom", "says"), [(False, "as of outputs or metrics,"), (True, "as of a checkpoint,")])
def test_copies_of_data_in_each_iteration_are_of_no_checkpoint(seldom: bool, says: str) -> None:
    """Rank 1 waits for ten copies in each iteration, or in each second one."""
    copying = ", ".join(
        f"k @{90 * n} {90 * n + 1}-{90 * n + 41}, c:Device-to-Host @{90 * n + 1} {90 * n + 41}-{90 * n + 42}, "
        f"wait {90 * n + 2}-{90 * n + 42}"
        for n in range(10)
    )
    late = LATE.replace(OFTEN, copying)
    others = {f"step{step}_rank1": f"{OFTEN}, n @899 900-905" for step in range(0, 12, 2) if seldom}
    advice = findings_of(program(late, steps=12, **others))["late-rank"].advice
    assert says in advice
    assert "others once. " in advice
    assert ("write from another" in advice) == seldom


def test_waits_of_long_iterations_are_no_usual_ones() -> None:
    """Each sixth iteration takes three times as long, and waits ten times."""
    long = unrecorded(
        ", ".join(f"k @{290 * n} {290 * n + 1}-{290 * n + 41}, wait {290 * n + 2}-{290 * n + 42}" for n in range(10))
    )
    changed = {f"step{step}_rank0": long for step in (5, 11, 17)}
    case = case_of(analysis_of(program("0| k @0 5-990", steps=24, longer=dict.fromkeys((5, 11, 17), 2000), **changed)))
    assert case.long_steps.found.height == 3
    assert waits_by_rank(case) == {0: pytest.approx(30 / 24)}
    assert waits_by_rank(case, usually=True) == {0: 0}
    names = [code_that_waits(case, [0], usually=usually) for usually in (False, True)]
    assert ["`cudaDeviceSynchronize`" in name for name in names] == [True, False]


COPIED = "c:Device-to-Host:Device_to_{memory} @{at} {copied}-{done}, cuda:{call} {at}-{returns}"
READ = {"memory": "Pageable", "call": "cudaMemcpy"}


@pytest.mark.parametrize(
    ("memory", "call", "returns", "after", "expected"),
    [
        ("Pageable", "cudaMemcpy", 45, "", (10, "`cudaMemcpy`")),
        ("Pinned", "cudaMemcpy", 45, "", (10, "`cudaMemcpy`")),
        ("Pageable", "cudaMemcpyAsync", 45, "", (10, "`cudaMemcpyAsync`")),
        ("Pinned", "cudaMemcpyAsync", 45, "", (0, "values that it reads")),
        ("Pageable", "cudaMemcpyAsync", 8, "", (0, "values that it reads")),
        # The host waits twice for one value.
        ("Pageable", "cudaMemcpyAsync", 45, ", wait {waits}-{waited}", (10, "`cudaDeviceSynchronize`")),
    ],
)
def test_copies_to_the_host_that_block_are_waits_by_the_name_of_their_call(
    memory: str, call: str, returns: int, after: str, expected: tuple[int, str]
) -> None:
    """Each of ten kernels is followed by a copy, from whose call the host returns after the copy or before it."""
    rounds = [
        f"k @{t} {t + 1}-{t + 41}, "
        + COPIED.format(memory=memory, call=call, at=t + 5, copied=t + 42, done=t + 44, returns=t + returns)
        + after.format(waits=t + 46, waited=t + 47)
        for t in range(0, 900, 90)
    ]
    case = case_of(analysis_of(program(f"0| {', '.join(rounds)}, k @950 955-990")))
    assert waits_by_rank(case) == {0: expected[0]}
    assert code_that_waits(case, [0]).startswith(expected[1])


@pytest.mark.parametrize(("between", "waits"), [("", 1), ("k:more @200 201-300, ", 2), ("k:other @200 201-300, ", 2)])
def test_a_copy_of_what_the_host_has_waited_for_is_no_second_wait(between: str, waits: int) -> None:
    """A kernel `other` is launched by another thread of the process."""
    read = COPIED.format(**READ, at=210, copied=301, done=302, returns=303)
    run = program(f"0| k @0 1-41, cuda:cudaDeviceSynchronize 5-42, {between}{read}, k @400 401-990")
    caller = pl.when(pl.col("name") == "other").then(pl.col("caller_row") + 1).otherwise("caller_row")
    run = run._replace(work=run.work.with_columns(caller_row=caller))
    assert waits_by_rank(case_of(analysis_of(run))) == {0: waits}


@pytest.mark.parametrize(
    ("framework", "says"),
    [
        (Framework.CUDA, "`cudaDeviceSynchronize`"),
        (Framework.PYTORCH, "`cudaDeviceSynchronize`: `torch.cuda.synchronize()`"),
        (Framework.UNKNOWN, "`cudaDeviceSynchronize`: `synchronize()`"),
    ],
)
def test_only_code_is_named_that_makes_the_calls_of_the_run(framework: Framework, says: str) -> None:
    """Rank 0 waits once in an iteration by another call, and in the first one by a third one."""
    often = unrecorded(OFTEN)
    other = "synchronization:Stream_synchronize 950-960, cuda:cudaStreamSynchronize 950-960"
    first = f"{often}, synchronization:Stream_synchronize 950-960, cuda:cuStreamSynchronize 950-960"
    run = program(f"0| k @0 5-400, {other}\n1| {often}", step0_rank1=first)
    case = replace(case_of(analysis_of(run)), framework=framework)
    assert code_that_waits(case, [1]) == says
    assert "`cudaStreamSynchronize`" in code_that_waits(case, [0, 1])


@pytest.mark.parametrize(
    "calls",
    [
        ("cudaStreamSynchronize 10-41", "cuStreamSynchronize 10-40"),
        ("cuStreamSynchronize 10-40", "cudaStreamSynchronize 10-41"),
    ],
)
def test_a_wait_is_of_the_longest_call_that_begins_with_it(calls: tuple[str, str]) -> None:
    picture = f"0| k @0 5-400, synchronization:Stream_synchronize 10-40, {', '.join(f'cuda:{call}' for call in calls)}"
    assert code_that_waits(case_of(analysis_of(program(picture))), [0]).startswith("`cudaStreamSynchronize`: ")


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_call_in_the_first_iteration_of_each_rank_does_not_recur(ranks: int) -> None:
    each = "k @0 5-400, synchronization:Stream_synchronize 950-960, cuda:cudaStreamSynchronize 950-960"
    changed = {f"step0_rank{rank}": f"{each}, cuda:cudaDeviceSynchronize 970-980" for rank in range(ranks)}
    case = case_of(analysis_of(program("\n".join(f"{rank}| {each}" for rank in range(ranks)), **changed)))
    assert code_that_waits(case, range(ranks)).startswith("`cudaStreamSynchronize`: ")


@pytest.mark.parametrize(("times", "named"), [(1, False), (2, True)])
def test_without_iterations_a_call_that_comes_seldom_does_not_recur(times: int, named: bool) -> None:
    """The host reads nine values, each at its own distance from the last, and waits for the device at the end."""
    rounds = [
        f"k:k{n}:GEMM @{t} {t + 1}-{t + 11}, "
        + COPIED.format(**READ, at=t + 2, copied=t + 12, done=t + 14, returns=t + 15)
        for n, t in enumerate(20 * n + n * n % 7 for n in range(9))
    ]
    end = [f"k:e{t}:GEMM @{t} {t + 1}-{t + 8}, cuda:cudaDeviceSynchronize {t + 2}-{t + 9}" for t in (250, 273)[:times]]
    run = program(f"0| {', '.join(rounds + end)}", steps=1)
    case = case_of(analysis_of(run._replace(ranges=run.ranges.clear())))
    assert not case.analysis.window.iterations
    assert waits_by_rank(case) == {0: 9 + times}
    assert code_that_waits(case, [0]).startswith(
        "`cudaMemcpy`, `cudaDeviceSynchronize`: " if named else "`cudaMemcpy`: "
    )


def test_ranks_that_wait_alike_are_not_told_apart() -> None:
    case = case_of(
        analysis_of(program(LATE.replace("k @0 5-400, n @10", OFTEN + ", n @899").replace("wait 20-905", "busy 1-2")))
    )
    assert waits_by_rank(case) == {0: 10, 1: 10, 2: 10}
    assert {waits_more(waits_by_rank(case), rank) for rank in range(3)} == {None}


@pytest.mark.parametrize("devices", [1, 2])
def test_a_process_that_launches_for_several_gpus_is_advised_to_be_several(devices: int) -> None:
    found = findings_of(of_processes(program(f"0| {SHORT}\n1| {SHORT}"), devices))
    says = "One process launches for 2 GPUs: start one for each GPU"
    assert found["launch-bound"].advice.startswith(says) == (devices == 2)
