"""Fewer and larger collectives, as with larger buckets: their numbers and mean sizes are told."""

from __future__ import annotations

import polars as pl
import pytest
from programs import analysis_of, of_processes, program

from nsys2prv.analysis.compare.collective_counts import of_other_counts
from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.run_figures import RunFigures, run_figures
from nsys2prv.analysis.compare.stated_finding import StatedFinding
from nsys2prv.analysis.compare.work_of_iterations import LaunchedWork, work_of_iterations

BEGIN = " NCCL operations of a device in an iteration: "
KERNELS = {"gemm": LaunchedWork(10, 1000)}
GRAPHS = StatedFinding("whole-graphs", "medium", "CUDA graphs are recorded as a whole", 0)


def running(**operations: tuple[float, float]) -> RunFigures:
    """A run with so many operations of so many bytes each in an iteration of a device."""
    collectives = {name: LaunchedWork(count, 10, count * size) for name, (count, size) in operations.items()}
    iterations = pl.DataFrame()
    known = ("communication", "steady", 9, "step #", {}, iterations)
    return RunFigures("a", ("app",), 2, 2, *known, work=KERNELS, collectives=collectives)


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (
            running(AllReduce=(11, 9_000_000)),
            running(AllReduce=(288, 343_750)),
            "288 AllReduce (343.8 kB on average) instead of 11 (9.0 MB on average).",
        ),
        (running(AllReduce=(19, 0)), running(AllReduce=(1476, 5)), "1,476 AllReduce instead of 19."),
        (running(AllReduce=(8.09, 0)), running(), "no AllReduce instead of 8.09."),
        (
            running(AllReduce=(5, 0)),
            running(AllReduce=(58, 0), AllGather=(53, 0), Broadcast=(2, 0), Reduce=(1, 0), Send=(1, 0)),
            "53 AllGather instead of none, 58 AllReduce instead of 5, 2 Broadcast instead of none, and 2 more kinds in "
            "another number.",
        ),
        (running(AllReduce=(100, 0)), running(AllReduce=(105, 0)), ""),
        (running(AllReduce=(105, 0)), running(AllReduce=(100, 0)), ""),
        (running(AllReduce=(1, 0)), running(AllReduce=(1.5, 0)), "1.5 AllReduce instead of 1."),
        # Another one in one iteration of 6, and of 20.
        (running(AllReduce=(1.17, 0)), running(AllReduce=(1.05, 0)), ""),
        (running(), running(Broadcast=(0.17, 0)), ""),
    ],
)
def test_numbers_of_operations_that_changed_are_told(a: RunFigures, b: RunFigures, told: str) -> None:
    assert of_other_counts(a, b) == (BEGIN + told if told else "")


def test_operations_that_are_not_known_have_no_number() -> None:
    """Those of a stored run, and those in a graph that was recorded as a whole."""
    one, other = running(), running(AllReduce=(8, 0))
    assert of_other_counts(one, other)
    assert of_other_counts(one._replace(work={}), other) == ""
    assert of_other_counts(one._replace(findings=(GRAPHS,)), other) == ""


def test_the_verdict_tells_more_operations() -> None:
    """The run became slower by many small ones, and no line said so."""
    one = "k:a:GEMM @0 2-500, k:b:GEMM @10 500-990, n @20 990-995"
    many = "k:a:GEMM @0 2-500, k:b:GEMM @10 500-980, n @20 980-985, n @21 985-995"
    sides = [run_figures(analysis_of(program(f"0| {each}\n1| {each}")), "run") for each in (one, many)]
    assert f"{BEGIN}2 AllReduce" in Comparison(*sides).verdict.text
    assert f"{BEGIN}1 AllReduce" in Comparison(*reversed(sides)).verdict.text
    assert BEGIN not in Comparison(sides[0], sides[0]).verdict.text


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_operations_are_counted_for_each_device_of_a_process(devices: int) -> None:
    """A process with two GPUs had twice as many of them as two processes."""
    picture = "\n".join(f"{rank}| k:a:GEMM @0 2-500, k:b:GEMM @10 500-990, n @20 990-995" for rank in range(4))
    found = work_of_iterations(analysis_of(of_processes(program(picture), devices))).collectives["AllReduce"]
    assert (found.launches, found.ns) == (1, 50_000)


def test_a_rank_without_operations_counts_as_one_device() -> None:
    picture = "0| k:a:GEMM @0 2-990, n @20 990-995\n1| k:a:GEMM @0 2-990"
    assert work_of_iterations(analysis_of(program(picture))).collectives["AllReduce"].launches == 0.5
