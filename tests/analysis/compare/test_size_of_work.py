"""Iterations of two runs may launch as much, and work on more or less data: then their times compare inputs."""

from __future__ import annotations

import polars as pl
import pytest
from programs import analysis_of, program

from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.run_figures import RunFigures, run_figures
from nsys2prv.analysis.compare.size_of_work import OtherSize, of_other_input, other_bytes, other_grids
from nsys2prv.analysis.compare.work_of_iterations import LaunchedWork

# Launches, time, threads of all of them.
ONE = {"gemm": LaunchedWork(10, 1000, 10_000), "add": LaunchedWork(30, 300, 6_000), "adam": LaunchedWork(10, 50, 5_000)}
PICTURE = """
0| k:a:GEMM @0 2-500, k:b:GEMM @10 500-990, n @20 990-995
1| k:a:GEMM @0 2-500, k:b:GEMM @10 500-990, n @20 990-995
"""


def sized(**times: float) -> dict[str, LaunchedWork]:
    """The work with so many times the threads of some kernels."""
    return {name: one._replace(size=times.get(name, 1) * one.size) for name, one in ONE.items()}


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (sized(gemm=4, add=4), OtherSize(3, 2, "gemm", 4)),
        (sized(gemm=0.25, add=0.5, adam=0.5), OtherSize(3, 3, "gemm", 0.25)),
        (sized(add=1.1, adam=1.1, gemm=0.1), OtherSize(3, 2, "add", 1.1)),
        (sized(add=4), None),  # a kernel with another size of blocks
        (sized(gemm=4, adam=4), None),  # fewer than half of the launches
        (sized(gemm=1.04, add=1.04), None),
        (sized(), None),
        # Each launch has as many threads.
        ({name: LaunchedWork(2 * one.launches, one.ns, 2 * one.size) for name, one in ONE.items()}, None),
        ({name: one._replace(size=0) for name, one in ONE.items()}, None),  # not recorded
        ({}, None),
    ],
)
def test_larger_grids_in_as_many_launches_are_other_work(
    other: dict[str, LaunchedWork], found: OtherSize | None
) -> None:
    assert other_grids(ONE, other) == found


@pytest.mark.parametrize(("others", "told"), [(1, True), (3, True), (4, False), (50, False)])
@pytest.mark.parametrize("only", ["a", "b", "both"])
def test_kernels_that_come_equally_often_by_chance_are_no_other_work(others: int, told: bool, only: str) -> None:
    """Each of the others has as many launches as the three, but not as many in the other run."""
    more = {f"other {n}": LaunchedWork(50, 500, 5_000) for n in range(others)}
    fewer = {name: one._replace(launches=40) for name, one in more.items()} if only == "both" else {}
    runs = [ONE, sized(gemm=1.1, add=1.1, adam=1.1)]
    rest = [fewer, more] if only == "b" else [more, fewer]
    assert (other_grids(*({**run, **beside} for run, beside in zip(runs, rest, strict=True))) is not None) == told


def test_one_collective_with_other_bytes_is_told() -> None:
    assert other_bytes(ONE, sized(adam=2)) == OtherSize(3, 1, "adam", 2)
    assert other_bytes(ONE, sized(adam=0.5, add=0.5)) == OtherSize(3, 2, "add", 0.5)
    assert other_bytes(ONE, ONE) is None


def test_bytes_of_collectives_are_compared_by_operation() -> None:
    run = program(PICTURE)
    doubled = run.work.with_columns(bytes=2 * pl.col("bytes"))
    half_known = doubled.with_columns(bytes=pl.when(pl.col("task") == 0).then("bytes"))
    sides = [run_figures(analysis_of(run._replace(work=work)), "run") for work in (run.work, doubled, half_known)]
    told = "AllReduce moves more bytes in as many operations in B (2 times as many)."
    assert told in Comparison(sides[0], sides[1]).verdict.text
    assert told.replace("more", "fewer").replace("2 times", "1/2") in Comparison(sides[1], sides[0]).verdict.text
    assert "bytes" not in Comparison(sides[0], sides[2]).verdict.text


def launching(blocks: int, threads: int) -> RunFigures:
    """A run of two kernels with so many blocks of so many threads."""
    run, grid = program(PICTURE), (blocks << 32) + (1 << 16) + 1
    kernels = pl.col("kind") == "kernel"
    work = run.work.with_columns(
        shape=pl.when(kernels).then(grid), resources=pl.when(kernels).then(pl.lit(threads, pl.Int64))
    )
    return run_figures(analysis_of(run._replace(work=work)), "run")


def test_a_run_with_another_batch_is_said_to_be_of_another_size() -> None:
    small, large = launching(100, 128), launching(400, 128)
    assert (
        " The work is of another size: 2 of the 2 kernels that come equally often have larger grids in B (`a`: 4 times "
        "the threads), as with another batch or input, or a cache that only one run uses. With another input, times "
        "tell no change of speed."
    ) in Comparison(small, large).verdict.text
    assert "smaller grids in B (`a`: 1/4 of the threads)" in Comparison(large, small).verdict.text
    assert "another size" not in Comparison(small, small).verdict.text


@pytest.mark.parametrize(
    ("times", "told"),
    [(128, "128 times"), (1.06, "1.06 times"), (0.94, "0.94 times"), (999.7, "1,000 times"), (4096, "4,096 times")],
)
def test_how_much_larger_the_work_is_reads_without_exponents(times: float, told: str) -> None:
    size = OtherSize(2, 2, "gemm", times)
    assert f"(`gemm`: {told} the threads)" in of_other_input(size, None)
    assert f"(gemm: {told} as many)" in of_other_input(None, size)


def test_how_much_smaller_the_work_is_reads_as_a_part() -> None:
    """It was 0.0426 times the threads."""
    size = OtherSize(2, 2, "gemm", 1 / 23.5)
    assert "(`gemm`: 1/23.5 of the threads)" in of_other_input(size, None)
    assert "(gemm: 1/23.5 as many)" in of_other_input(None, size)


def test_larger_blocks_and_fewer_of_them_are_the_same_size() -> None:
    assert "another size" not in Comparison(launching(100, 256), launching(200, 128)).verdict.text
