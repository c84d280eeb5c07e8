"""The host side: time in CUDA calls and in MPI, and efficiencies from it (BasicAnalysis, 06_metrics.rst)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import MPI, Run
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans


class HostTime(NamedTuple):
    """Times of a rank's main thread (ns): in MPI, in CUDA calls outside of MPI, and in waits for its device.

    CUDA calls that wait are CUDA calls like others.
    """

    rank: int
    mpi_ns: int
    cuda_ns: int
    synchronization_ns: int


class HostEfficiency(NamedTuple):
    """Host side over a window. `mpi` parts are None where no rank calls MPI, `offload` where none calls CUDA.

    With O_p = window less MPI time of process p: mpi = sum O / (P T) = balance x communication; offload = (sum O less
    CUDA calls) / sum O. All time outside of both counts as useful: an upper bound.
    """

    ranks: tuple[HostTime, ...]
    offload: float | None
    mpi: float | None
    mpi_balance: float | None
    mpi_communication: float | None


def host_efficiency(run: Run, window: Spans, waits: pl.DataFrame) -> HostEfficiency:
    """Return the times of each rank's main thread inside the window: of a rank without calls there, 0.

    Without a call of any rank there are none. `waits`: see device_waits.
    """
    times, total = _times_of_ranks(run, window, waits), window.total()
    outside_mpi = [total - t.mpi_ns for t in times]
    useful = [total - t.mpi_ns - t.cuda_ns for t in times]
    with_mpi = total > 0 and any(t.mpi_ns for t in times)
    with_cuda = total > 0 and any(t.cuda_ns for t in times)
    mean, most = (float(np.mean(outside_mpi)), max(outside_mpi)) if outside_mpi else (0.0, 0)
    return HostEfficiency(
        ranks=tuple(times),
        offload=sum(useful) / sum(outside_mpi) if with_cuda and any(outside_mpi) else None,
        mpi=mean / total if with_mpi else None,
        mpi_balance=mean / most if with_mpi and most else None,
        mpi_communication=most / total if with_mpi else None,
    )


def _times_of_ranks(run: Run, window: Spans, waits: pl.DataFrame) -> list[HostTime]:
    """Return the times of each rank's main thread, in order of task; see host_efficiency."""
    main = main_rows(run.calls).filter(pl.col("task").is_in(run.rank_tasks))
    own, waits = (
        calls.join(main, on=["task", "row"], how="semi", maintain_order="left") for calls in (run.calls, waits)
    )
    axis = axis_over(window, len(run.tasks))
    tasks = np.array(run.rank_tasks if main.height else (), dtype=np.int64)
    mpi, both, waiting = (
        axis.sums(covered_by(axis, calls, "task", window))[tasks].tolist()
        for calls in (own.filter(kind=MPI), own.filter(pl.col("kind").is_in([MPI, "cuda"])), waits)
    )
    return [
        HostTime(run.rank(task), in_mpi, in_both - in_mpi, waited)
        for task, in_mpi, in_both, waited in zip(tasks.tolist(), mpi, both, waiting, strict=True)
    ]


def main_rows(calls: pl.DataFrame) -> pl.DataFrame:
    """Return task and row of each rank's main thread, in order: the one that calls MPI, else the first with calls."""
    kinds = ([MPI], ["cuda", "openmp"], ["os", "synchronization"])
    first = [pl.col("row").filter(pl.col("kind").is_in(one)).min() for one in kinds]
    return calls.group_by("task").agg(row=pl.coalesce(first)).sort("task")
