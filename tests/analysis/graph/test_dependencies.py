"""The dependency graph: critical path, replay and predictions on small drawn runs, and random ones by a slow way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from analysis_cases import run_of, work_of
from construct.report import close, open_copy
from pictures import US, drawn
from runs import SAMPLES, reports_of

import nsys2prv
from nsys2prv.analysis.communication.contention import slowdown
from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.frames import CALLS, TEXT, WAIT, WORK, Run
from nsys2prv.analysis.graph.blocking_calls import blocking_calls
from nsys2prv.analysis.graph.critical_path import critical_path
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.host_delays import HOST_DELAY, host_delays, without_delays
from nsys2prv.analysis.graph.nodes import NO_NODE
from nsys2prv.analysis.graph.polling import polls
from nsys2prv.analysis.graph.streams import streams_of
from nsys2prv.analysis.idle.idle_causes import CAUSES, idle_causes
from nsys2prv.analysis.iterations.phases import OCCURRENCE
from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.predict.changed_lengths import changed_lengths
from nsys2prv.analysis.predict.joins import find_joins
from nsys2prv.analysis.predict.model import Model, find_after_calls
from nsys2prv.analysis.predict.replay import Lengths, measured_lengths, replay
from nsys2prv.analysis.predict.whatif import predict
from nsys2prv.analysis.question import Question
from nsys2prv.errors import UsageError
from nsys2prv.intervals.spans import Times, one_span
from nsys2prv.model.frames import COLLECTIVE, HOST_WAIT_CONTEXT, HOST_WAIT_EVENT, RECEIVE, SEND

LATE = """
0| k @0 10-30, n @1 32-60
1| k @0 10-45, n @1 47-60
"""


def model_of(run: Run, graph: Graph) -> Model:
    """A run without iterations, delays, phases and contention."""
    launched, marks, tails = (
        pl.DataFrame(schema=dict.fromkeys(("number", "repeat", *columns), pl.Int64()))
        for columns in (("work",), ("first", "last"), ("node", "tail_ns"))
    )
    phases = pl.Series("phase", [None] * run.work.height, dtype=pl.String)
    slow = slowdown(run, run.work["end"].to_numpy(), launched)
    delays = pl.DataFrame(schema=HOST_DELAY)
    return Model(run, graph, delays, marks, tails, (), phases, slow, find_after_calls(run, graph), by_ends=False)


def blocking_of(run: Run) -> pl.DataFrame:
    """BLOCKING_CALL of a run."""
    return blocking_calls(run, streams_of(run), polls(run.calls))


def test_the_critical_path_runs_through_the_rank_that_came_last() -> None:
    run = drawn(LATE)
    graph = dependencies(run, carried(run))
    path = critical_path(run, graph, one_span(0, 60 * US))
    found = path.with_columns(pl.col("start", "end") // US).select("task", "kind", "start", "end").rows()
    assert found == [
        (1, "launch latency", 0, 10),
        (1, "compute", 10, 45),
        (1, "launch latency", 45, 47),
        (1, "transfer", 47, 60),
    ]


@pytest.mark.parametrize(
    ("change", "end"),
    [
        ("transfer=0", 47),  # both are done when rank 1 has come
        ("kernel*0", 25),  # rank 1: 10, its stream's 2 us, 13 us of transfer
        ("rank 1=median", 52.5),  # rank 1 computes for 27.5 us, the mean of both: it comes at 39.5
        ("rank 1*2", 95),  # rank 1 computes for 70 us: it comes at 82
        ("rank 0*2", 65),  # rank 0 computes for 40 us: it comes at 52
        ("imbalance=0", 52.5),  # 27.5 us each: they come at 39.5
        ("launch=0", 50),  # rank 1 begins at 0
    ],
)
def test_predictions_are_those_reasoned_by_hand(change: str, end: float) -> None:
    run = drawn(LATE)
    graph = dependencies(run, carried(run))
    lengths = changed_lengths(model_of(run, graph), measured_lengths(graph), parse_change(change))
    (times,) = replay(find_joins(graph), [lambda: lengths])
    assert graph.of_work_or_all(times).max() == end * US


@pytest.mark.parametrize("threads", [1, 2], ids=["one thread", "a thread that goes on for another"])
def test_a_host_that_is_done_at_once_waits_only_for_the_device(threads: int) -> None:
    """The second kernel is launched 500 us later; without host work it follows the first one, which ends at 20."""
    run = drawn("0| k @0 10-20, k @500 502-510")
    callers = pl.Series("caller_row", [1, 2 * threads - 1], dtype=run.work["caller_row"].dtype)
    run = run._replace(work=run.work.with_columns(callers))
    graph = dependencies(run, carried(run))
    for change, end in (("host=0", 20 + 1.5 + 8), ("host*0.5", 260), ("host*1", 510)):
        lengths = changed_lengths(model_of(run, graph), measured_lengths(graph), parse_change(change))
        (times,) = replay(find_joins(graph), [lambda lengths=lengths: lengths])  # type: ignore[misc]
        assert graph.of_work_or_all(times).max() == end * US


@pytest.mark.parametrize("change", ["transfer*1.2.3", "transfer*.", "transfer*-1", "transfer", "rank=median", "rank 1"])
def test_a_change_that_cannot_be_read_says_what_changes_are(change: str) -> None:
    with pytest.raises(
        UsageError, match=r"not TARGET\*F with a factor F of 0 or more, nor TARGET=0.*; changes are transfer\*F"
    ):
        parse_change(change)


def test_an_unchanged_replay_gives_the_measured_times() -> None:
    run = drawn(LATE)
    graph = dependencies(run, carried(run))
    (found,) = predict(model_of(run, graph), [[]])
    assert found.replay_error == 0
    assert found.iterations.rows() == [(None, None, 50 * US, 50 * US)]


def test_ranks_of_a_rooted_collective_wait_as_the_shared_rule_says() -> None:
    """Ranks 0 and 1 bring to rank 2, which has come before them: it alone waits, and for rank 1."""
    begins = ((0, 10), (1, 30), (2, 5))
    calls = pl.DataFrame([(n, n, begin, 50, "mpi", "MPI_Reduce") for n, begin in begins], schema=CALLS, orient="row")
    roles = {"awaited": [True, True, False], "waits": [False, False, True]}
    parts = pl.DataFrame({"index": [0, 1, 2], "operation": 0, "part": COLLECTIVE, **roles})
    operations = pl.concat([calls, parts], how="horizontal")
    run = run_of(work_of([]), ranks=3)._replace(calls=calls)
    graph = dependencies(run, operations)
    (hub,) = graph.hubs
    assert (graph.time[hub], graph.task[hub]) == (30, 1)
    edges = {(int(graph.time[s]), int(graph.task[s]), int(graph.time[t]), int(graph.task[t]))
             for s, t in zip(graph.edges.source, graph.edges.target, strict=True) if hub in (s, t)}  # fmt: skip
    assert edges == {(10, 0, 30, 1), (30, 1, 30, 1), (30, 1, 50, 2)}


@pytest.mark.parametrize("waits", [True, False])
def test_the_way_of_a_send_that_waits_leads_to_its_late_receiver(waits: bool) -> None:
    """Rank 0 sends from 10 to 50 us, and rank 1 receives from 40 us on."""
    names = ("MPI_Send", "MPI_Recv")
    times = zip(names, (10, 40), (50, 52), strict=True)
    rows = [(n, n, begin * US, end * US, "mpi", name) for n, (name, begin, end) in enumerate(times)]
    calls = pl.DataFrame(rows, schema=CALLS, orient="row")
    roles = {"awaited": [True, False], "waits": [waits, True]}
    parts = pl.DataFrame({"index": [0, 1], "operation": 0, "part": [SEND, RECEIVE], **roles})
    run = run_of(work_of([]), ranks=2)._replace(calls=calls)
    graph = dependencies(run, pl.concat([calls, parts], how="horizontal"))
    (done,) = np.flatnonzero(graph.time == 50 * US)
    assert graph.time[graph.binding[done]] == (40 if waits else 10) * US


@pytest.mark.parametrize("scale", [1, 1 << 28], ids=["microseconds", "days"])
@pytest.mark.parametrize("seed", range(20))
def test_random_replays_equal_a_slow_one(seed: int, scale: int) -> None:
    random = np.random.default_rng(seed)
    lines = []
    for rank in range(4):
        time, called, line = 10 + int(random.integers(50)), 0, []
        for n in range(40):
            length = int(random.integers(1, 30))
            line.append(f"{'n' if n % 5 == 4 else 'k'} @{called} {time}-{time + length}")
            called, time = called + int(random.integers(1, 9)), time + length + int(random.integers(4))
        lines.append(f"{rank}| {', '.join(line)}")
    run = drawn("\n".join(lines))
    graph = dependencies(run, carried(run))
    graph = graph._replace(time=graph.time * scale)
    usual = measured_lengths(graph)
    scenarios = [Lengths(*(random.integers(0, np.maximum(one, 1) * 2) for one in usual)) for _ in range(2)]
    replayed = replay(find_joins(graph), [lambda one=one: one for one in scenarios])
    for lengths, found in zip(scenarios, replayed, strict=True):
        assert (found == slowly(graph, lengths)).all()


def test_a_run_of_days_is_replayed_like_one_of_microseconds() -> None:
    """Rank 1 is 47 hours later than rank 0."""
    late = 171_000_000_000
    run = drawn(f"0| k @0 10-30, n @1 32-{late + 60}\n1| k @0 10-{late}, n @1 {late + 2}-{late + 60}")
    graph = dependencies(run, carried(run))
    usual = measured_lengths(graph)
    halved = usual._replace(along=usual.along // 2)
    for lengths, found in zip((usual, halved), replay(find_joins(graph), [lambda: usual, lambda: halved]), strict=True):
        assert (found == slowly(graph, lengths)).all()


@pytest.mark.parametrize("change", ["kernel*100000000000", "launch*100000000000000000", "transfer*1000000000000000000"])
def test_times_that_are_too_long_are_refused(change: str) -> None:
    run = drawn(LATE)
    model = model_of(run, dependencies(run, carried(run)))
    with pytest.raises(UsageError, match="too long to replay"):
        predict(model, [[parse_change(change)]])


def slowly(graph: Graph, lengths: Lengths) -> Times:
    """The replay of one scenario, node by node."""
    into: dict[int, list[tuple[int, int]]] = {}
    for source, target, length in zip(graph.edges.source, graph.edges.target, lengths.crossing, strict=True):
        into.setdefault(int(target), []).append((int(source), int(length)))
    for node, before in enumerate(graph.before.tolist()):
        if before >= 0:
            into.setdefault(node, []).append((before, int(lengths.along[node])))
    times = np.full(len(graph.time), -1, dtype=np.int64)

    def time_of(node: int) -> int:
        if times[node] < 0:
            times[node] = max((time_of(s) + n for s, n in into[node])) if node in into else graph.time[node]
        return int(times[node])

    for node in np.argsort(graph.time, kind="stable").tolist():
        time_of(node)
    return times


@pytest.mark.parametrize("reports", ["gpt-ddp", "mpi-halo"])
@pytest.mark.parametrize("window", ["steady", "device", "trace"])
def test_parts_sum_to_their_whole_on_real_runs(reports: str, window: str) -> None:
    found = nsys2prv.analyze(SAMPLES / reports, question=Question(window=window))
    values = found.as_json()
    total = sum(high - low for low, high in values["window"]["spans"])
    assert values["critical_path"]["length_ns"] == total
    for by in ("by_kind", "by_rank"):
        assert sum(part["ns"] for part in values["critical_path"][by]) == total
    assert values["critical_path"]["replay_error"] < 0.01
    for row in values["idle_causes"]:
        assert sum(row[cause] for cause in CAUSES) == row["idle_ns"]
    idle = {row["rank"]: row["idle_ns"] for row in values["idle_causes"] if row["span"] is None}
    assert idle == {device["rank"]: total - device["busy_ns"] for device in values["devices"]}
    for row in values["communication"]:
        assert row["waiting_ns"] + row["transfer_ns"] == row["ns"] == row["overlapped_ns"] + row["exposed_ns"]


def test_idle_time_before_a_launch_is_starved_and_after_it_latency() -> None:
    run = drawn("0| k @0 10-20, k @40 48-60")
    graph = dependencies(run, carried(run))
    found = idle_causes(run, graph, one_span(10 * US, 60 * US)).filter(pl.col("span").is_null(), pl.col("rank") == 0)
    assert found.select("idle_ns", "launch_starved_ns", "unexplained_ns").row(0) == (28 * US, 28 * US, 0)


def test_a_call_that_waits_for_the_device_needs_no_record_of_it() -> None:
    call = (0, 1, 5 * US, 35 * US, "cuda", "cudaDeviceSynchronize")
    run = drawn("0| k @0 10-30, k @50 55-60")._replace(calls=pl.DataFrame([call], schema=CALLS, orient="row"))
    path = critical_path(run, dependencies(run, carried(run)), one_span(0, 60 * US))
    assert path.with_columns(pl.col("start", "end") // US).select("kind", "start", "end").rows() == [
        ("launch latency", 0, 10),
        ("compute", 10, 30),
        ("synchronization", 30, 35),
        ("host work", 35, 50),
        ("launch latency", 50, 55),
        ("compute", 55, 60),
    ]


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (45, [("launch latency", 0, 10), ("compute", 10, 30), ("host work", 30, 50), ("launch latency", 50, 55)]),
        (20, [("host work", 0, 50), ("launch latency", 50, 55)]),
    ],
)
def test_a_call_that_frees_memory_waits_for_the_device_unless_it_returns_before(
    until: int, expected: list[tuple[str, int, int]]
) -> None:
    """After the device is done it unmaps the memory, which is host work."""
    call = (0, 1, 5 * US, until * US, "cuda", "cudaFree")
    run = drawn("0| k @0 10-30, k @50 55-60")._replace(calls=pl.DataFrame([call], schema=CALLS, orient="row"))
    path = critical_path(run, dependencies(run, carried(run)), one_span(0, 55 * US))
    found = path.with_columns(pl.col("start", "end") // US).select("kind", "start", "end").rows()
    assert found == expected


POLLED = [(0, 1, t * US, t * US + 600, "cuda", "cudaEventQuery") for t in range(5, 33)]


def test_a_host_that_polls_waits_for_the_work_that_it_launched_last() -> None:
    """Its last query, the first one after 30 us, ends at 32.6 us; with a kernel of no length it ends 20 us earlier."""
    run = drawn("0| k @0 10-30, k @50 55-60")._replace(calls=pl.DataFrame(POLLED, schema=CALLS, orient="row"))
    graph = dependencies(run, carried(run))
    path = critical_path(run, graph, one_span(0, 60 * US))
    assert path.select("kind", pl.col("start") / US, pl.col("end") / US).rows() == [
        ("launch latency", 0, 10),
        ("compute", 10, 30),
        ("synchronization", 30, 32.6),
        ("host work", 32.6, 50),
        ("launch latency", 50, 55),
        ("compute", 55, 60),
    ]
    lengths = changed_lengths(model_of(run, graph), measured_lengths(graph), parse_change("kernel*0"))
    (times,) = replay(find_joins(graph), [lambda: lengths])
    assert graph.of_work_or_all(times).max() == (60 - 20 - 5) * US


@pytest.mark.parametrize(
    ("picture", "awaited"),
    [
        ("k @0 10-30", [0]),
        ("k @0 10-30, N @1 12-32", [1]),
        ("k @0 10-30, N @1 12-90", [0]),
        ("k @0 10-30, k @40 45-50", [0]),
        # Done before the first query, and not done by the last one.
        ("k @0 2-4", []),
        ("k @0 10-90", []),
    ],
)
def test_polling_ends_soon_after_the_work_that_it_waits_for(picture: str, awaited: list[int]) -> None:
    run = drawn(f"0| {picture}")._replace(calls=pl.DataFrame(POLLED, schema=CALLS, orient="row"))
    found = blocking_of(run)
    expected = [(work, 5 * US, 32_600) for work in awaited]
    assert found.select("work", "start", "end").rows() == expected


def test_polling_waits_for_the_event_of_its_last_query_if_its_record_is_known() -> None:
    """The event is recorded between the two kernels: the host goes on while the second one runs."""
    run = drawn("0| k @0 10-30, k @3 30-90")
    waits = [(HOST_WAIT_EVENT, 0, 1, call[2], None, 2 * US, 0) for call in POLLED]
    run = run._replace(
        calls=pl.DataFrame(POLLED, schema=CALLS, orient="row"), waits=pl.DataFrame(waits, schema=WAIT, orient="row")
    )
    found = blocking_of(run)
    assert found.select("work", "start", "end", "record_time").rows() == [(None, 5 * US, 32_600, 2 * US)]
    graph = dependencies(run, carried(run))
    (end,) = np.flatnonzero((graph.chain == 1) & (graph.time == 32_600))
    assert graph.time[graph.binding[end]] == 30 * US


@pytest.mark.parametrize(
    ("launched", "until", "awaited"),
    [
        (700, 1005, 99),
        (700, 1200, None),
        (300, 1005, None),
    ],
    ids=["the queue is full", "no activity ended at last", "it has room"],
)
def test_a_launch_waits_for_room_in_a_full_queue(launched: int, until: int, awaited: int | None) -> None:
    """A launch each us, activities of 10 us, and the last launch takes until soon after one of these has ended."""
    kernels = ", ".join(f"k @{n} {10 * n}-{10 * n + 10}" for n in range(launched))
    call = (0, 1, 750 * US, until * US, "cuda", "cudaLaunchKernel")
    run = drawn(f"0| {kernels}, k @750 90000-90001")._replace(calls=pl.DataFrame([call], CALLS, orient="row"))
    if until == 1200:
        run = run._replace(work=run.work.filter(~pl.col("start").is_between(1000 * US, 1200 * US)))
    assert blocking_of(run).select("work", "end").rows() == [(awaited, until * US)] * (awaited is not None)


def test_a_graph_has_one_place_in_the_queue() -> None:
    """A second graph is launched while the first one runs its many kernels."""
    kernels = ", ".join(f"k @0 {10 * n}-{10 * n + 10}" for n in range(700))
    call = (0, 1, 750 * US, 1005 * US, "cuda", "cudaGraphLaunch")
    run = drawn(f"0| {kernels}, k @750 90000-90001")._replace(calls=pl.DataFrame([call], CALLS, orient="row"))
    assert blocking_of(run).is_empty()


@pytest.mark.parametrize(("memory", "blocks"), [("Device to Pageable", True), ("Device to Pinned", False)])
def test_an_asynchronous_copy_to_pageable_memory_blocks_its_caller(memory: str, blocks: bool) -> None:
    call = (0, 1, 5 * US, 32 * US, "cuda", "cudaMemcpyAsync")
    run = drawn("0| k @0 10-25, k @5 25-30, k @50 55-60")
    copy = pl.col("start") == 25 * US
    copied = run.work.with_columns(
        kind=pl.when(copy).then(pl.lit("copy")).otherwise(pl.col("kind").cast(pl.String)).cast(TEXT),
        memory=pl.when(copy).then(pl.lit(memory)).cast(TEXT),
    )
    run = run._replace(work=copied, calls=pl.DataFrame([call], schema=CALLS, orient="row"))
    assert blocking_of(run).select("work", pl.col("end") // US).rows() == [(1, 32)] * blocks
    path = critical_path(run, dependencies(run, carried(run)), one_span(0, 60 * US))
    assert ("copy" in path["kind"]) == blocks


@pytest.mark.parametrize(
    ("until", "path_of_copy"),
    [
        # The last piece is staged 2 us before it is on the device.
        (28, [("copy", 10, 28), ("synchronization", 28, 28), ("host work", 28, 50)]),
        # A small copy is staged at once, before it begins.
        (8, [("host work", 0, 50)]),
    ],
)
def test_a_copy_of_pageable_memory_holds_its_caller_until_it_is_staged(
    until: int, path_of_copy: list[tuple[str, int, int]]
) -> None:
    call = (0, 1, 0, until * US, "cuda", "cudaMemcpyAsync")
    run = drawn("0| k @0 10-30, k @50 55-60")
    copy = pl.col("start") == 10 * US
    copied = run.work.with_columns(
        kind=pl.when(copy).then(pl.lit("copy")).otherwise(pl.col("kind").cast(pl.String)).cast(TEXT),
        memory=pl.when(copy).then(pl.lit("Pageable to Device")).cast(TEXT),
    )
    run = run._replace(work=copied, calls=pl.DataFrame([call], schema=CALLS, orient="row"))
    path = critical_path(run, dependencies(run, carried(run)), one_span(0, 60 * US))
    pieces = path.with_columns(pl.col("start", "end") // US).select("kind", "start", "end").rows()
    assert [piece for piece in path_of_copy if piece[1] < piece[2]] == [
        piece for piece in pieces if piece[0] != "launch latency" and piece[1] < 50
    ]


def test_idle_time_that_nothing_explains_is_of_no_kernel() -> None:
    """Whose launch the report does not have."""
    run = drawn("0| k @0 10-30")
    run = run._replace(work=run.work.with_columns(pl.lit(None, pl.Int64).alias(c) for c in ("launched", "caller_row")))
    path = critical_path(run, dependencies(run, carried(run)), one_span(0, 30 * US))
    assert path.with_columns(pl.col("start", "end") // US).select("kind", "family", "start", "end").rows() == [
        ("unexplained", None, 0, 10),
        ("compute", "kernel", 10, 30),
    ]


def test_a_node_without_a_binding_has_no_kind_and_no_lag() -> None:
    run = drawn(LATE)
    graph = dependencies(run, carried(run))
    free, nodes = graph.binding == NO_NODE, np.arange(len(graph.time))
    assert free.any()
    assert (graph.binds[free] == NO_NODE).all()
    bound = nodes[~free]
    assert (graph.lag()[free] == 0).all()
    assert (graph.lag()[bound] == graph.time[bound] - graph.time[graph.binding[bound]]).all()
    assert (graph.lag(nodes[::-1]) == graph.lag()[::-1]).all()


@pytest.mark.parametrize(("stream", "awaited"), [(0, [0, 2]), (4, [1]), (99, [0, 1, 2]), (None, [0, 1, 2])])
def test_a_context_is_awaited_on_the_streams_of_its_device(stream: int | None, awaited: list[int]) -> None:
    """Streams 0 and 2 are on device 0, stream 4 is on device 1; 99 has no work."""
    run = drawn("0| k @0 10-30, k @1 12-30, k @2 14-30")
    placed = run.work.with_columns(row=pl.Series([0, 4, 2]), device=pl.Series([0, 1, 0]))
    wait = (HOST_WAIT_CONTEXT, 0, 1, 5 * US, stream, None, None)
    run = run._replace(
        work=placed,
        calls=pl.DataFrame([(0, 1, 5 * US, 35 * US, "cuda", "cudaDeviceSynchronize")], schema=CALLS, orient="row"),
        waits=pl.DataFrame([wait], schema=WAIT, orient="row"),
    )
    assert sorted(blocking_of(run)["work"]) == awaited


def test_equal_shares_gain_what_the_slowest_rank_computes_longer() -> None:
    """Launches of mpi-halo are 5, 9, 13 and 17 an iteration: 0.119 ms more than the mean, of some 0.54 ms."""
    found = nsys2prv.what_if(SAMPLES / "mpi-halo", ["imbalance=0"])
    assert found.measured_ns - found.iteration_ns == pytest.approx(119_000, abs=0.05 * found.measured_ns)
    gains = found.iterations["measured_ns"] - found.iterations["predicted_ns"]
    assert gains.median() == pytest.approx(119_000, rel=0.1)


def test_without_device_work_iterations_last_as_long_by_the_instants_of_their_hosts(tmp_path: Path) -> None:
    """The rank that computes longest, which the host of rank 3 waits for, is late then for reasons of its host."""
    copies = [open_copy(report, tmp_path) for report in reports_of("mpi-halo")]
    for copy in copies:
        copy.drop(*(name for name in copy.tables() if name.startswith("CUPTI_")))
    by_host_reports = list(map(str, close(copies)))
    by_device, by_host = (
        nsys2prv.what_if(reports, ["delay=0"]) for reports in (reports_of("mpi-halo"), by_host_reports)
    )
    assert by_host.iterations["iteration"].to_list() == by_device.iterations["iteration"].to_list()
    assert by_host.measured_ns == pytest.approx(by_device.measured_ns, rel=0.01)
    assert by_host.replay_error < 0.001
    # As much as equal shares of compute gain: see above.
    assert by_host.measured_ns - by_host.iteration_ns == pytest.approx(119_000, rel=0.05)
    advice = [one.advice for one in nsys2prv.analyze(by_host_reports).findings if one.cost_ns]
    assert advice[0].startswith("Share the work evenly")
    assert "the host of rank 3" in advice[0]
    assert not [one for one in advice if "NCCL" in one or "GPU" in one]


def test_a_thread_that_takes_longer_than_on_the_other_rank_is_delayed() -> None:
    # Rank 0 launches its second kernel 100 us after the first, rank 1 500 us after it; the next iteration 900 us later.
    lines, steps = [], []
    for rank, gap in ((0, 100), (1, 500)):
        begins = [n * (gap + 900) for n in range(4)]
        work = [f"k @{t} {t + 10}-{t + 20}" for begin in begins for t in (begin, begin + gap)]
        lines.append(f"{rank}| {', '.join(work)}")
        steps += [(rank, n, 0, begin * US, (begin + gap + 100) * US, "step") for n, begin in enumerate(begins)]
    run = drawn("\n".join(lines))
    graph = dependencies(run, carried(run))
    found = host_delays(run, graph, pl.DataFrame(steps, schema=OCCURRENCE, orient="row"))
    assert found.select("task", "number", "delay").rows() == [(1, n, 400 * US) for n in range(4)]
    along, _ = measured_lengths(graph)
    shorter = along - without_delays(found, along)
    assert shorter[found["node"].to_numpy()].tolist() == [400 * US] * 4
    assert shorter.sum() == 1600 * US


def test_contention_is_found_from_kernels_of_other_shares() -> None:
    # Beside communication a kernel takes 1.5 times as long: every second one runs beside an operation.
    work: list[tuple[object, ...]] = []
    for n in range(40):
        begin, length = 1000 * n, 150 if n % 2 else 100
        work.append(
            (0, 0, 0, begin, begin + length, *["kernel"] * 4, *[None] * 3, begin, None, 1, 7, False, None, None)
        )
        if n % 2:
            work.append(
                (0, 0, 2, begin, begin + 200, *["nccl"] * 4, *[None] * 3, begin, None, 1, None, False, None, None)
            )
    run = run_of(pl.DataFrame(work, schema=WORK, orient="row"))
    none = pl.DataFrame(schema={"work": pl.Int64(), "number": pl.Int64(), "repeat": pl.Int64()})
    found = slowdown(run, run.work["start"].to_numpy(), none)
    assert found.table.select("family", pl.col("transfer").round(6), "transfer_ns").row(0) == ("kernel", 1.5, 1000)
    computing = (run.work["kind"] == "kernel").to_numpy()
    assert found.alone_ns[computing] == pytest.approx(100)


def test_kernels_of_one_rank_alone_do_not_show_that_ranks_are_alike() -> None:
    """Rank 1 has twice the work, half of it under another name, and all beside an operation: that costs nothing."""
    work: list[tuple[object, ...]] = []
    for n in range(40):
        begin = 1000 * n
        for rank, (name, length) in enumerate((("small", 100), ("large", 200))):
            what = ["kernel", name, "kernel", "kernel"]
            work.append(
                (rank, rank, 3 * rank, begin, begin + length, *what, *[None] * 3, begin, None, 1, 7, False, None, None)
            )
            # A kernel of one name and grid whose length is that of the input, too.
            what, at = ["kernel", "both", "kernel", "kernel"], begin + 300
            work.append((rank, rank, 3 * rank, at, at + length, *what, *[None] * 3, at, None, 1, 7, False, None, None))
        work.append((1, 1, 2, begin, begin + 500, *["nccl"] * 4, *[None] * 3, begin, None, 1, None, False, None, None))
    run = run_of(pl.DataFrame(work, schema=WORK, orient="row"), ranks=2)
    placed = pl.DataFrame({"work": range(run.work.height), "number": 0, "repeat": 0})
    found = slowdown(run, run.work["start"].to_numpy(), placed)
    assert (found.alone_ns == (run.work["end"] - run.work["start"]).to_numpy()).all()


def test_balance_changes_nothing_where_no_rank_computes() -> None:
    run = drawn(LATE)
    graph = dependencies(run, carried(run))
    without, balanced = map(parse_change, ("kernel*0", "imbalance=0"))
    both, alone = predict(model_of(run, graph), [[without, balanced], [without]])
    assert both.iterations.equals(alone.iterations)
