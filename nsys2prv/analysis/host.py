"""The host side: time in CUDA calls and in MPI, and efficiencies from it (BasicAnalysis, 06_metrics.rst)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run, covered, parts_by
from nsys2prv.intervals.spans import Spans

# The synchronization in which a stream waits on the device while the host goes on.
STREAM_WAIT = "Stream wait event"


class HostTime(NamedTuple):
    """Times of a rank's main thread: in MPI, in CUDA calls but synchronization, in CUDA synchronization (ns)."""

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


def host_efficiency(run: Run, window: Spans) -> HostEfficiency:
    """Return the times of each rank's main thread inside the window."""
    total = window.total()
    times: list[HostTime] = []
    outside: list[int] = []
    useful: list[int] = []
    for task, calls in parts_by(run.calls, "task").items():
        own = calls.filter(pl.col("row") == main_row(calls))
        mpi = covered(own.filter(pl.col("kind") == "mpi"), window).total()
        both = covered(own.filter(pl.col("kind").is_in(["mpi", "cuda"])), window).total()
        blocked = (pl.col("kind") == "synchronization") & (pl.col("name") != STREAM_WAIT)
        waiting = covered(own.filter(blocked), window).total()
        times.append(HostTime(run.rank(task), mpi, both - mpi, waiting))
        outside.append(total - mpi)
        useful.append(total - both)
    with_mpi = total > 0 and any(t.mpi_ns for t in times)
    with_cuda = total > 0 and any(t.cuda_ns for t in times)
    mean, most = (float(np.mean(outside)), max(outside)) if outside else (0.0, 0)
    return HostEfficiency(
        ranks=tuple(times),
        offload=sum(useful) / sum(outside) if with_cuda and any(outside) else None,
        mpi=mean / total if with_mpi else None,
        mpi_balance=mean / most if with_mpi and most else None,
        mpi_communication=most / total if with_mpi else None,
    )


def main_row(calls: pl.DataFrame) -> int:
    """Return the row of a rank's main thread in its CALLS: the one that calls MPI, else the first with calls."""
    for kinds in (["mpi"], ["cuda", "openmp"], ["os", "synchronization"]):
        rows = calls.filter(pl.col("kind").is_in(kinds))["row"]
        if len(rows):
            return int(rows.min())  # type: ignore[arg-type]
    raise ValueError("calls of no known kind")
