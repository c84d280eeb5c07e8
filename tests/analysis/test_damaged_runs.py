"""Runs of which one rank began to record late, was slow, or lacks a table: each is named, and nothing else is.

The runs are made of real reports (see construct.damage). Sampled metrics and stacks are left out of them first, which
nothing here looks at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import construct
import polars as pl
import pytest
import truth
from runs import SAMPLED, parameters, reports_of
from truth_rows import length, union

import nsys2prv
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.communication.delays import KERNELS

CUPTI = "CUPTI_ACTIVITY_KIND_"
MPI = ("MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_OTHER_EVENTS")


class Source(NamedTuple):
    """A run: its ranks, the name and the numbers of its iterations, and what is true of it as it was recorded.

    `left_out`: iteration and ranks; `delays`: rank, iteration and phase. `sleep` (ns) is well above the usual spread;
    `slow` makes any rank the slowest.
    """

    ranks: int
    name: str
    iterations: range
    left_out: list[tuple[int, tuple[int, ...]]]
    slow: int
    sleep: int
    delays: tuple[tuple[int, int, str], ...] = ()


MS = 1_000_000
SOURCES = {
    "mpi-halo": Source(4, "iteration", range(12), [(0, ())], 600_000, 300_000),
    "gpt-ddp": Source(4, "step", range(3, 7), [(3, (0,))], 20 * MS, 5 * MS),
    "pipe": Source(2, "iteration", range(3, 7), [(3, (0,))], 30 * MS, 5 * MS),
    "straggler": Source(2, "iteration", range(4), [(0, (0,))], 80 * MS, 5 * MS, ((1, 2, "load"),)),
    "fsdp": Source(2, "iteration", range(4), [(0, (0,))], 120 * MS, 5 * MS),
    "mesh-tp-pp": Source(4, "step", range(2, 6), [(2, (0,))], 10 * MS, 5 * MS),
}


def cases(*runs: str) -> list[object]:
    """Every rank of some runs; the shared runs are marked so."""
    marks = {run: [] if run in SAMPLED else [pytest.mark.shared] for run in runs}
    return [pytest.param(run, rank, marks=marks[run]) for run in runs for rank in range(SOURCES[run].ranks)]


@pytest.fixture(scope="session")
def light(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Path]]:
    """The reports of a run without sampled metrics and stacks."""
    made: dict[str, list[Path]] = {}

    def find(run: str) -> list[Path]:
        if run not in made:
            folder = tmp_path_factory.mktemp(run)
            made[run] = [less(report, folder / report.name) for report in reports_of(run)]
        return made[run]

    return find


def less(report: Path, copy: Path) -> Path:
    copy.write_bytes(report.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        for table in ("GPU_METRICS", "OSRT_CALLCHAINS"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.commit()
        connection.execute("VACUUM")
    return copy


def left_out(found: Analysis) -> list[tuple[int, tuple[int, ...]]]:
    return [(one.iteration, one.ranks) for one in found.window.left_out]


def delays(found: Analysis) -> list[tuple[object, ...]]:
    """Rank, iteration and phase of each delay, the longest first."""
    return found.delays.select("rank", "iteration", "phase").rows()


def defects(found: Analysis) -> list[tuple[str, tuple[str, ...]]]:
    return [(defect.text, defect.reports) for defect in found.run.defects]


def clocks(found: Analysis) -> list[str]:
    return [text for text in found.run.remarks if "clock" in text or "alignment" in text]


@pytest.mark.parametrize("run", parameters(*SOURCES))
def test_nothing_is_said_of_the_runs_as_they_were_recorded(run: str) -> None:
    """But for what is true of them; ranks are slow where SQL finds their own time 5 % above the median."""
    source, found = SOURCES[run], nsys2prv.analyze(reports_of(run))
    assert (left_out(found), delays(found), defects(found), clocks(found)) == (
        source.left_out,
        [*source.delays],
        [],
        [],
    )
    if run in truth.STEADY and run != "mpi-halo":
        assert found.ranks is not None
        assert found.ranks.slow == slow_by_sql(run)


def slow_by_sql(run: str) -> dict[int, int]:
    """Steady iterations by rank in which its device time without exposed NCCL is the longest, by 5 % of the median."""
    name, numbers = truth.STEADY[run]
    reports = truth.Run(reports_of(run)).reports
    slow: dict[int, int] = {}
    for number in numbers:
        own = []
        for report in reports:
            work = report.launched_in(f"{name} {number}")
            start, end = min(e.start for e in work), max(e.end for e in work)
            nccl, kernels = (union(set(work) & set(events)) for events in (report.nccl, report.kernels))
            own.append(end - start - length(truth.without(nccl, kernels), [(start, end)]))
        middle = sorted(own)
        median = (middle[(len(own) - 1) // 2] + middle[len(own) // 2]) / 2
        if max(own) > 1.05 * median:
            slow[own.index(max(own))] = slow.get(own.index(max(own)), 0) + 1
    return dict(sorted(slow.items()))


@pytest.mark.parametrize(("run", "rank"), cases(*SOURCES))
def test_a_rank_that_began_to_record_late_is_named(
    run: str, rank: int, light: Callable[[str], list[Path]], tmp_path: Path
) -> None:
    """Its recording begins in the last iteration but two: those up to it are left out, and it is the cause."""
    source = SOURCES[run]
    cut = source.iterations[-3]
    found = nsys2prv.analyze(construct.recording_late(light(run), tmp_path, rank, f"{source.name} {cut}"))
    assert [number for number, _ in found.window.iterations] == [cut + 1, cut + 2]
    last = found.window.left_out[-1]
    assert (last.iteration, last.ranks) == (cut, (rank,))
    assert last.why.startswith((f"rank {rank} began to record", f"not recorded on rank {rank}"))
    assert (defects(found), clocks(found)) == ([], [])


@pytest.mark.parametrize(("run", "rank"), cases("mpi-halo", "gpt-ddp", "pipe", "straggler"))
def test_a_rank_that_slept_is_named(run: str, rank: int, light: Callable[[str], list[Path]], tmp_path: Path) -> None:
    source = SOURCES[run]
    number = source.iterations[-2]
    made = construct.sleeping(light(run), tmp_path, rank, [f"{source.name} {number}"], source.sleep)
    found = nsys2prv.analyze(made)
    assert delays(found) == [(rank, number, "(outside its ranges)"), *source.delays]
    assert int(found.delays["own_ns"][0]) >= source.sleep
    assert (left_out(found), defects(found), clocks(found)) == (source.left_out, [], [])


@pytest.mark.parametrize(("run", "rank"), cases("mpi-halo", "gpt-ddp", "pipe", "straggler", "mesh-tp-pp"))
def test_a_rank_with_slow_kernels_in_one_iteration_is_named(
    run: str, rank: int, light: Callable[[str], list[Path]], tmp_path: Path
) -> None:
    source = SOURCES[run]
    number = source.iterations[-2]
    made = construct.slow_kernels(light(run), tmp_path, rank, [f"{source.name} {number}"], source.slow)
    found = nsys2prv.analyze(made)
    named = delays(found)
    assert (rank, number, KERNELS) in named
    assert {(r, n) for r, n, phase in named if (r, n, phase) not in source.delays} == {(rank, number)}
    assert (left_out(found), defects(found), clocks(found)) == (source.left_out, [], [])


@pytest.mark.parametrize(("run", "rank"), cases("mpi-halo", "gpt-ddp", "pipe", "straggler"))
def test_a_rank_whose_kernels_are_always_slow_is_named(
    run: str, rank: int, light: Callable[[str], list[Path]], tmp_path: Path
) -> None:
    source = SOURCES[run]
    names = [f"{source.name} {number}" for number in source.iterations]
    found = nsys2prv.analyze(construct.slow_kernels(light(run), tmp_path, rank, names, source.slow))
    assert found.ranks is not None
    assert found.ranks.slowest == rank
    assert found.ranks.slow == {rank: len(found.window.iterations)}
    assert {r for r, n, phase in delays(found) if (r, n, phase) not in source.delays} <= {rank}
    assert (left_out(found), defects(found)) == (source.left_out, [])


# Tables that rank 1 lacks, and what begins each defect that is told of it; {pid} is its process.
LACKING = {
    "kernels": ([f"{CUPTI}KERNEL"], ["process {pid} launched kernels or graphs by "]),
    "calls": ([f"{CUPTI}RUNTIME"], ["no CUDA calls in this report", "device activities: "]),
    "copies": ([f"{CUPTI}MEMCPY"], ["process {pid} launched copies by "]),
    "memsets": ([f"{CUPTI}MEMSET"], ["process {pid} launched memsets by "]),
    "ranges": (["NVTX_EVENTS"], ["no NVTX ranges in this report"]),
    "waits": ([f"{CUPTI}SYNCHRONIZATION"], ["no synchronization in this report"]),
    "OS": (["OSRT_API"], ["no OS calls in this report"]),
    "MPI": ([*MPI], ["no MPI calls in this report"]),
    "collectives": (["MPI_COLLECTIVES_EVENTS"], ["no MPI collectives in this report"]),
    "messages": (["MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS"], ["no MPI point-to-point calls in this report"]),
}
HELD = {
    "mpi-halo": [name for name in LACKING if name != "OS"],
    "gpt-ddp": ["kernels", "calls", "copies", "memsets", "ranges", "waits", "OS"],
    "straggler": ["kernels", "calls", "copies", "memsets", "ranges", "waits", "OS"],
    "pipe": ["kernels", "calls", "ranges", "waits"],
}


@pytest.mark.parametrize(
    ("run", "lacking"),
    [
        pytest.param(run, name, marks=[] if run in SAMPLED else [pytest.mark.shared])
        for run, names in HELD.items()
        for name in names
    ],
)
def test_a_rank_without_a_table_is_named(
    run: str, lacking: str, light: Callable[[str], list[Path]], tmp_path: Path
) -> None:
    tables, expected = LACKING[lacking]
    made = construct.rank_without(light(run), tmp_path, 1, tables)
    found = nsys2prv.analyze(made)
    pid = found.run.tasks[1].name.rpartition(":")[2]
    told = defects(found)
    assert [reports for _, reports in told] == [(made[1].stem,)] * len(expected)
    for (text, _), begin in zip(told, expected, strict=True):
        assert text.startswith(begin.format(pid=pid))
    of_translation = nsys2prv.translate(made, tmp_path / "trace", dry_run=True).defects
    assert of_translation == found.run.defects
    assert not found.delays.filter(pl.col("rank") != 1).height or run == "straggler"


def test_a_rank_that_is_on_no_communicator_of_the_others_lacks_no_collectives(
    light: Callable[[str], list[Path]], tmp_path: Path
) -> None:
    """A rank may only write files: the three others are all ranks of their communicator."""
    made = construct.rank_without(light("mpi-halo"), tmp_path, 3, ["MPI_COLLECTIVES_EVENTS"])
    assert len(defects(nsys2prv.analyze(made))) == 1
    for report in made[:3]:
        with closing(sqlite3.connect(report)) as database, database:
            database.execute("UPDATE MPI_COMMUNICATORS SET size = 3")
    assert defects(nsys2prv.analyze(made)) == []


def test_ranges_that_only_libraries_name_are_none(light: Callable[[str], list[Path]], tmp_path: Path) -> None:
    """All ranges are of CUB, which not every rank calls."""
    made = construct.rank_without(light("mpi-halo"), tmp_path, 1, ["NVTX_EVENTS"])
    for report in (one for n, one in enumerate(made) if n != 1):
        with closing(sqlite3.connect(report)) as database, database:
            database.execute("DELETE FROM NVTX_EVENTS WHERE eventType = 75 AND domainId <> 1")
            database.execute("UPDATE NVTX_EVENTS SET domainId = 1")
            database.execute("UPDATE NVTX_EVENTS SET text = 'CCCL' WHERE eventType = 75")
    assert defects(nsys2prv.analyze(made)) == []
