"""Waiting and transfer of real runs, against SQL and plain Python, operation by operation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import construct
import polars as pl
import pytest
from analysis_cases import SAMPLES, run_of, work_of
from construct.report import open_copy
from runs import Command, parameters, reports_of
from truth_waiting import Activity, Split, mpi, nccl, split

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.communication.exposed_waits import exposed_waits
from nsys2prv.analysis.communication.waiting import (
    CARRIED,
    EXCHANGE,
    carried,
    communication,
    find_exchanges,
    waiting_matrix,
)
from nsys2prv.analysis.frames import CALLS, RunClocks
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.commands.whatif import what_if
from nsys2prv.intervals.spans import one_span
from nsys2prv.run.clocks.alignment import Align
from nsys2prv.run.run_options import RunOptions

TRUTH: dict[str, Callable[[list[Path]], list[Activity]]] = {
    "gpt-ddp": nccl,
    "mpi-halo": mpi,
    "mesh-tp-pp": nccl,
    "fsdp": nccl,
}
RUNS = parameters(*TRUTH)


def analysed(run: str, window: str = "device") -> Analysis:
    return analyze(reports_of(run), question=Question(window=window), options=RunOptions(align="utc"))


@pytest.mark.parametrize("run", RUNS)
def test_each_operation_is_split_as_sql_says(run: str) -> None:
    kind = TRUTH[run].__name__
    found = analysed(run)
    every = find_exchanges(found.run, carried(found.run)).filter(pl.col("kind") == kind)
    truth = sorted(split(TRUTH[run](reports_of(run))))
    shift = min(s.start for s in truth) - int(every["start"].min())  # type: ignore[call-overload]
    said = [
        Split(task, start + shift, ready + shift, end + shift, waited_for)
        for task, start, ready, end, waited_for in every.select("task", *("start", "ready", "end", "waited_for")).rows()
    ]
    assert sorted(said) == truth
    assert any(s.waited_for is not None for s in truth)
    _check_sums(found, truth, shift)


def _check_sums(found: Analysis, truth: list[Split], shift: int) -> None:
    """Compare sums by rank, and by pair of ranks, inside the window."""
    low, high = found.window.start + shift, found.window.end + shift

    def inside(start: int, end: int) -> int:
        return max(min(end, high) - max(start, low), 0)

    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    pairs: Counter[tuple[int, int | None]] = Counter()
    for s in truth:
        sums[s.rank][0] += inside(s.start, s.ready)
        sums[s.rank][1] += inside(s.ready, s.end)
        pairs[s.rank, s.waited_for] += inside(s.start, s.ready)
    every = found.explanation.communication.filter(pl.col("operation") == "all")
    assert {rank: [w, t] for rank, w, t in every.select("rank", "waiting_ns", "transfer_ns").rows()} == sums
    matrix = {
        (rank, other): ns
        for rank, other, ns in found.explanation.waiting.select("rank", "waited_for", "waiting_ns").rows()
    }
    assert matrix == {pair: ns for pair, ns in pairs.items() if ns}


@pytest.mark.parametrize("window", ["steady", "device", "trace"])
@pytest.mark.parametrize("run", parameters("gpt-ddp", "mpi-halo", "mpi-cpu"))
def test_the_parts_are_the_whole_to_the_nanosecond(run: str, window: str) -> None:
    found = analysed(run, window)
    table = found.explanation.communication
    assert (table["waiting_ns"] + table["transfer_ns"]).equals(table["ns"], check_names=False)
    assert (table["overlapped_ns"] + table["exposed_ns"]).equals(table["ns"], check_names=False)
    assert (table["unmatched_ns"] <= table["transfer_ns"]).all()
    assert (table["waiting_ns"] >= 0).all()
    every = table.filter(pl.col("operation") == "all").select("rank", *SUMMED)
    by_operation = table.filter(pl.col("operation") != "all").group_by("rank").agg(pl.col(SUMMED).sum()).sort("rank")
    assert by_operation.equals(every)
    waited = found.explanation.waiting.group_by("rank").agg(pl.col("waiting_ns").sum()).sort("rank")
    assert waited.equals(every.filter(pl.col("waiting_ns") > 0).select("rank", "waiting_ns"))


SUMMED = ["activities", "bytes", "ns", "waiting_ns", "transfer_ns", "overlapped_ns", "exposed_ns", "unmatched_ns"]


def test_one_report_of_several_knows_of_no_wait() -> None:
    found = analyze(reports_of("gpt-ddp")[0], question=Question(window="device"))
    assert found.explanation.waiting.is_empty()
    assert (found.explanation.communication["unmatched_ns"] == found.explanation.communication["ns"]).all()


def test_ranks_that_are_not_chosen_are_still_waited_for() -> None:
    """Rank 1 waits as long as in the whole run, and nobody of the analyzed ranks is named."""
    whole = analyze(reports_of("mpi-halo"), question=Question(window="trace"))
    part = analyze(reports_of("mpi-halo"), question=Question(window="trace"), options=RunOptions(ranks=frozenset({1})))
    (own,) = (f.explanation.waiting.filter(pl.col("rank") == 1) for f in (part,))
    assert own["waited_for"].to_list() == [None]
    assert (part.run.unchosen, whole.run.unchosen) == ((0, 2, 3), ())
    assert own["waiting_ns"].sum() == whole.explanation.waiting.filter(pl.col("rank") == 1)["waiting_ns"].sum()


def exchanges_of(*waits: tuple[int, int, int, int, int | None]) -> pl.DataFrame:
    """EXCHANGE of one communicator: task, start, ready, end, task waited for."""
    shared = {"kind": "nccl", "device": None, "communicator": "c", "operation": "AllReduce", "bytes": 8}
    rows = [
        {**shared, "index": n, "task": task, "row": task, "start": start, "ready": ready, "end": end, "last": ready,
         "waited_for": waited_for}
        for n, (task, start, ready, end, waited_for) in enumerate(waits)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=EXCHANGE)


def test_unknown_bytes_are_no_bytes() -> None:
    """Kernels without a payload, and calls that say nothing of a size, carried something all the same."""
    run = run_of(work_of([]), ranks=2)
    waits = exchanges_of((0, 0, 10, 15, 1), (0, 20, 30, 40, 1), (1, 10, 10, 15, None))
    known = waits.with_columns(bytes=pl.Series([None, 8, None], dtype=pl.Int64))
    for found in (communication(run, known, one_span(0, 100)), exposed_waits(run, known, one_span(0, 100))):
        assert found.select("rank", "bytes").unique().sort("rank").rows() == [(0, 8), (1, None)]
    rows = [(0, "mpi", 0, 0, 0, None), (0, "mpi", 1, 0, 0, 4), (0, "mpi", 1, 0, 0, None)]
    parts = pl.DataFrame(rows, schema=["operation", "kind", "index", "task", "row", "bytes"], orient="row")
    lacking = [pl.lit(None, dtype).alias(name) for name, dtype in CARRIED.items() if name not in parts.columns]
    operations = parts.with_columns(*lacking).select(pl.col(c).cast(t) for c, t in CARRIED.items())
    call = {"kind": "mpi", "task": 0, "row": 0, "start": 5, "end": 9, "name": "MPI_Send"}
    none = [pl.lit(None, dtype).alias(name) for name, dtype in CALLS.items() if name not in call]
    calls = pl.DataFrame([call, call]).with_columns(*none).select(pl.col(c).cast(t) for c, t in CALLS.items())
    assert find_exchanges(run._replace(calls=calls), operations)["bytes"].to_list() == [None, 4]


def test_a_wait_for_another_clock_below_the_error_of_the_clocks_is_uncertain() -> None:
    """Ranks 0 and 1 share a clock, rank 2 has another, and the clocks may differ by 20 ns."""
    run = run_of(work_of([]), ranks=3)._replace(clocks=RunClocks(20, (0, 0, 1)))
    waits = exchanges_of((0, 0, 10, 15, 2), (0, 20, 50, 60, 2), (0, 70, 80, 90, 1), (1, 10, 10, 15, None))
    table = communication(run, waits, one_span(0, 100)).select("rank", "operation", "waiting_ns", "uncertain_ns")
    assert table.rows() == [(0, "all", 50, 10), (1, "all", 0, 0), (0, "AllReduce", 50, 10), (1, "AllReduce", 0, 0)]
    assert waiting_matrix(run, waits, one_span(0, 100)).rows() == [(0, 1, 1, 10, 0), (0, 2, 2, 40, 10)]


@pytest.mark.parametrize(
    ("error", "parts", "uncertain"),
    [
        pytest.param(None, (0, 0, 2), 40, id="nothing tells the error"),
        pytest.param(5, (0, 0, 2), 40, id="only clocks of others were compared"),
        pytest.param(5, (0, 0, 0), 0, id="known"),
    ],
)
def test_a_wait_between_clocks_that_were_not_compared_is_uncertain(
    error: int | None, parts: tuple[int, ...], uncertain: int
) -> None:
    run = run_of(work_of([]), ranks=3)._replace(clocks=RunClocks(error, (0, 0, 2), parts))
    waits = exchanges_of((0, 0, 10, 15, 2), (0, 20, 50, 60, 2), (0, 70, 80, 90, 1))
    assert waiting_matrix(run, waits, one_span(0, 100)).rows() == [(0, 1, 1, 10, 0), (0, 2, 2, 40, uncertain)]


@pytest.mark.parametrize("how", ["utc", "none"])
def test_clocks_that_nothing_compares_make_every_wait_between_hosts_uncertain(how: Align) -> None:
    """In gpt-ddp all ranks of one host wait for those of the other, and for each other."""
    found = analyze(reports_of("gpt-ddp"), options=RunOptions(align=how))
    assert found.run.clocks.error is None
    assert any("nothing tells how far the clocks of 2 hosts differ" in w for w in found.run.clocks.warnings)
    matrix = found.explanation.waiting.filter(pl.col("waiting_ns") > 0)
    between = pl.col("rank") // 2 != pl.col("waited_for") // 2
    assert matrix.filter(between).height > 0
    assert matrix.select((pl.col("uncertain_ns") == pl.when(between).then("waiting_ns").otherwise(0)).all()).item()
    assert "doubtful-clocks" in {finding.id for finding in found.findings}


def test_waits_between_reports_that_only_seem_to_be_of_one_host_are_uncertain(tmp_path: Path) -> None:
    """Containers on two machines may have one host name, and their clocks contradict each other."""
    reports = reports_of("mpi-halo")
    (late,) = construct.with_clock(reports[2:3], tmp_path / "late", utc_shift_ns=3_700_000)
    found = analyze([*reports[:2], late, reports[3]], question=Question(window="trace"))
    assert {task.host for task in found.run.tasks} == {found.run.tasks[0].host}
    assert len(set(found.run.clocks.of_task)) == 4
    assert found.run.clocks.error > 0
    assert found.explanation.communication["uncertain_ns"].sum() > 0


def test_a_wait_counts_inside_the_window_only() -> None:
    run, waits = run_of(work_of([])), exchanges_of((0, 0, 30, 50, 1))
    sums = ["ns", "waiting_ns", "transfer_ns"]
    for window, wanted in (((10, 40), (30, 20, 10)), ((30, 100), (20, 0, 20)), ((0, 5), (5, 5, 0))):
        assert communication(run, waits, one_span(*window)).select(sums).row(0) == wanted


def test_the_text_shows_who_waits_for_whom(cli: Command) -> None:
    """Rank 3 of mpi-halo is late: the others wait for it, and it hardly waits."""
    text = cli("analyze", SAMPLES / "mpi-halo", "--window", "trace", "--show", "all").out
    table = text.partition("\nWho waits for whom\n")[2].partition("\n\n")[0].splitlines()
    assert table[0].split("  ")[-1] == "ms for rank 3"
    assert [line.split()[0] for line in table[1:]] == ["0", "1", "2", "3"]
    assert "\nWaiting and transfer of NCCL kernels and MPI calls (those at one time count twice)\n" in text
    assert "below the error of the clocks" not in text
    between = cli("analyze", SAMPLES / "gpt-ddp", "--show", "all").out
    assert "below the error of the clocks" in between


def test_exchanges_without_payloads_wait_as_those_with_them(tmp_path: Path) -> None:
    """Kernels of two ranks are matched by order then; each exchange is of all with all."""
    reports, bare = reports_of("experts"), []
    for report in reports:
        with open_copy(report, tmp_path) as copy:
            copy.run("UPDATE NVTX_EVENTS SET jsonText = NULL, binaryData = NULL")
            bare.append(copy.path)
    whole = Question(window="trace")
    known, found = (analyze(own, question=whole).explanation for own in (reports, bare))
    assert known.waiting.height == 2
    assert found.waiting.equals(known.waiting)
    assert known.communication["unmatched_ns"].sum() == found.communication["unmatched_ns"].sum() == 0


def test_a_sleep_less_gives_the_iterations_of_the_program_without_it() -> None:
    """It decodes with CUDA graphs. Without the sleep of 1 ms on one rank it took 0.618 ms (median of 40 steps)."""
    found = what_if(reports_of("late-graphs"), ["delay=0"])
    assert found.measured_ns == pytest.approx(1.72e6, rel=0.01)
    assert found.iteration_ns == pytest.approx(0.618e6, rel=0.05)


@pytest.mark.parametrize("run", ["batches-72-56", "batches-96-32"])
def test_balance_gives_the_iterations_of_the_program_with_equal_batches(run: str) -> None:
    """With batches of 64 on both ranks it took 46.9 and 47.0 ms (two captures between those of other batches).

    While a rank waits its kernels are slower: balanced lengths are those without that.
    """
    found = what_if(reports_of(run), ["imbalance=0"])
    assert found.iteration_ns == pytest.approx(46.97e6, rel=0.02)
    assert found.measured_ns > 1.1 * 46.97e6


def test_a_nonblocking_collective_that_is_waited_for_at_once_waits_as_the_blocking_one(tmp_path: Path) -> None:
    # The collectives that were anchors are none now.
    options = RunOptions(align="utc")
    blocking, waited = (
        analyze(reports, question=Question(window="trace"), options=options).explanation
        for reports in (reports_of("mpi-halo"), construct.nonblocking(reports_of("mpi-halo"), tmp_path))
    )
    both = blocking.waiting.join(waited.waiting, on=["rank", "waited_for"], validate="1:1")
    assert both.height == blocking.waiting.height == waited.waiting.height > 0
    # The call before the wait takes 2 ns of it.
    lost = both["waiting_ns"] - both["waiting_ns_right"]
    assert lost.is_between(0, 2 * both["activities"]).all()
    completed = waited.communication.filter(operation="MPI_Wait", communicator="MPI_COMM_WORLD")
    assert completed["rank"].to_list() == [0, 1, 2, 3]
    assert completed["unmatched_ns"].sum() == 0


def test_whether_operations_are_within_a_host_is_said_only_where_it_is_known() -> None:
    """Ranks 0 and 1 share a host, and ranks 0 and 2 do not."""
    run = run_of(work_of([(0, 0, 100, "kernel")]), ranks=3)
    run = run._replace(tasks=tuple(task._replace(host=host) for task, host in zip(run.tasks, "aab", strict=True)))
    rows = [(0, "near"), (1, "near"), (0, "far"), (2, "far"), (1, None)]
    found = pl.DataFrame(
        [("nccl", n, task, task, 0, 10 * n, 10 * n, 10 * n + 5, name, "AllReduce", 8, None, None)
         for n, (task, name) in enumerate(rows)],
        schema=EXCHANGE, orient="row",
    )  # fmt: skip
    said = communication(run, found, one_span(0, 100)).select("rank", "communicator", "operation", "hosts").rows()
    assert said == [
        (0, None, "all", None),
        (1, None, "all", None),
        (2, None, "all", "between hosts"),
        (0, "far", "AllReduce", "between hosts"),
        (0, "near", "AllReduce", "within a host"),
        (1, "near", "AllReduce", "within a host"),
        (1, None, "AllReduce", None),
        (2, "far", "AllReduce", "between hosts"),
    ]
    alone = run._replace(tasks=tuple(task._replace(host="a") for task in run.tasks))
    assert set(communication(alone, found, one_span(0, 100))["hosts"]) == {"within a host"}
