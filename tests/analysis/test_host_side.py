"""The host side and idle devices: by hand, and MPI time by a plain sweep."""

from __future__ import annotations

import pytest
from analysis_cases import Analysed, Find, run_of, sql, work_of

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.device_waits import device_waits
from nsys2prv.analysis.graph.polling import polls
from nsys2prv.analysis.host import HostEfficiency, host_efficiency
from nsys2prv.analysis.idle.idle_gaps import longest_gaps
from nsys2prv.analysis.iterations.phases import main_ranges
from nsys2prv.intervals.spans import one_span

CALLS = [
    (0, 0, 0, 20, "mpi", "MPI_Recv"),
    (0, 0, 50, 80, "cuda", "cudaMemcpy"),
    (0, 0, 60, 80, "synchronization", "Stream synchronize"),
    (0, 0, 80, 100, "synchronization", "Stream wait event"),
    (0, 1, 0, 100, "cuda", "cudaLaunchKernel"),
    (1, 2, 0, 100, "mpi", "MPI_Send"),
]


def host_of(run: Run) -> HostEfficiency:
    return host_efficiency(run, one_span(0, 100), device_waits(run.calls, polls(run.calls)))


def test_efficiencies_of_the_host_are_of_main_threads() -> None:
    """Rank 0: 20 ns in MPI, 30 in CUDA; rank 1: 100 in MPI. A stream that waits holds no thread up."""
    found = host_of(run_of(work_of([]), CALLS))
    assert [t[1:] for t in found.ranks] == [(20, 30, 20), (100, 0, 0)]
    assert (found.mpi, found.mpi_balance, found.mpi_communication) == (0.4, 0.5, 0.8)
    assert found.offload == 50 / 80


def test_a_wait_for_the_whole_device_counts_with_and_without_its_record() -> None:
    """And a call of another thread does not."""
    calls = [
        (0, 0, 10, 40, "cuda", "cudaDeviceSynchronize"),
        (0, 0, 50, 80, "cuda", "cudaDeviceSynchronize"),
        (0, 0, 51, 79, "synchronization", "Context synchronize"),
        (0, 1, 0, 100, "cuda", "cudaDeviceSynchronize"),
    ]
    (found,) = host_of(run_of(work_of([]), calls, ranks=1)).ranks
    assert (found.cuda_ns, found.synchronization_ns) == (60, 30 + 28)


@pytest.mark.parametrize(
    ("kind", "said"), [("cuda", (0.0, None, None, None)), ("mpi", (None, 0.0, None, 0.0)), ("os", (None,) * 4)]
)
def test_what_no_rank_calls_has_no_efficiency(kind: str, said: tuple[float | None, ...]) -> None:
    """Nor are ranks that do nothing else but call MPI balanced, or anything outside it."""
    found = host_of(run_of(work_of([]), [(0, 0, 0, 100, kind, "call")], ranks=1))
    assert found[1:] == said


def test_a_rank_without_calls_is_outside_of_mpi_all_the_time() -> None:
    """As rank 1 here, which only ran kernels in the chosen time: P counts it. Rank 0 is in MPI for half of it."""
    found = host_of(run_of(work_of([]), [(0, 0, 0, 50, "mpi", "MPI_Recv")]))
    assert [t[:3] for t in found.ranks] == [(0, 50, 0), (1, 0, 0)]
    assert (found.mpi, found.mpi_balance, found.mpi_communication) == (0.75, 0.75, 1.0)


def test_helper_processes_are_no_ranks() -> None:
    """They call no MPI, so that ranks in it all the time would seem to be so for half of it."""
    run = run_of(work_of([]), [(0, 0, 0, 100, "mpi", "MPI_Recv"), (1, 1, 0, 10, "cuda", "cudaGetDeviceCount")])
    found = host_of(run._replace(tasks=(run.tasks[0], run.tasks[1]._replace(is_rank=False))))
    assert [t.rank for t in found.ranks] == [0]
    assert found.mpi == 0.0


def test_without_calls_nothing_is_said() -> None:
    found = host_of(run_of(work_of([])))
    assert found == ((), None, None, None, None)


def test_mpi_time_of_the_halo_is_that_of_sql(analysed: Analysed, report: Find) -> None:
    analysis = analysed("mpi-halo", window="trace")
    for path, time in zip(sorted(report("mpi-halo").glob("*.sqlite")), analysis.host.ranks, strict=True):
        tables = [name for (name,) in sql(path, "SELECT name FROM sqlite_master WHERE name LIKE 'MPI_%_EVENTS'")]
        rows = sorted(row for table in tables for row in sql(path, f'SELECT start, "end" FROM {table}'))
        total, reach = 0, rows[0][0]
        for start, end in rows:
            total += max(end - max(start, reach), 0)
            reach = max(reach, end)
        # A call of no length lasts 1 ns in a trace.
        assert time.mpi_ns == pytest.approx(total, abs=len(rows))


def test_waiting_of_the_halo_is_that_of_sql(analysed: Analysed, report: Find) -> None:
    """nsys records cudaStreamSynchronize as a stream that waits (2) for no event, cudaDeviceSynchronize not at all."""
    waits = """
        SELECT sum("end" - start) FROM (
            SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE syncType = 2 AND eventId = 4294967295
            UNION ALL
            SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId
            WHERE value LIKE 'cudaDeviceSynchronize%'
        )"""
    analysis = analysed("mpi-halo", window="trace")
    for path, time in zip(sorted(report("mpi-halo").glob("*.sqlite")), analysis.host.ranks, strict=True):
        assert [(time.synchronization_ns,)] == sql(path, waits)


def test_the_longest_gaps_come_first_with_what_the_host_did() -> None:
    work = work_of([(0, 0, 10, "kernel"), (0, 40, 50, "copy"), (0, 95, 100, "kernel"), (1, 0, 100, "kernel")])
    calls = [(0, 0, 5, 30, "mpi", "MPI_Recv"), (0, 0, 60, 61, "cuda", "cudaLaunchKernel"), *CALLS[4:5]]
    ranges = [(0, 0, 0, 90, "outer"), (0, 0, 50, 70, "inner")]
    run = run_of(work, calls[:2], ranges)
    found = longest_gaps(run, main_ranges(run), work, one_span(0, 100), 5)
    assert found.drop("host", "gpu").rows() == [
        (0, 50, 45, "copy", "kernel", "cuda", "cudaLaunchKernel", 1, "inner"),
        (0, 10, 30, "kernel", "copy", "mpi", "MPI_Recv", 20, "outer"),
    ]


def test_a_gap_comes_after_the_activity_that_ended_last() -> None:
    """Whichever began last."""
    work = work_of([(0, 0, 60, "nccl"), (0, 20, 30, "kernel"), (0, 90, 100, "copy")])
    run = run_of(work, ranks=1)
    found = longest_gaps(run, main_ranges(run), work, one_span(0, 95), 5)
    assert found.select("idle_ns", "after", "before").rows() == [(30, "nccl", "copy")]


def test_what_several_threads_call_at_once_fills_a_gap_once() -> None:
    """And a helper thread that sleeps keeps no device waiting."""
    work = work_of([(0, 0, 10, "kernel"), (0, 90, 100, "kernel")])
    calls = [
        (0, 0, 10, 60, "cuda", "cudaMalloc"),
        *((0, row, 20, 50, "cuda", "cudaLaunchKernel") for row in (0, 1)),
        (0, 1, 0, 100, "os", "poll"),
    ]
    run = run_of(work, calls, ranks=1)
    found = longest_gaps(run, main_ranges(run), work, one_span(0, 100), 5)
    assert found.select("kind", "call", "call_ns").rows() == [("cuda", "cudaMalloc", 50)]


def test_a_device_that_did_nothing_is_one_gap() -> None:
    work = work_of([(0, 0, 100, "kernel")])
    run = run_of(work)
    found = longest_gaps(run, main_ranges(run), work, one_span(0, 100), 5)
    assert found.select("rank", "idle_ns", "after", "before").rows() == [(1, 100, None, None)]
