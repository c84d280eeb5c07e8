"""Frames that analysis works on: the activities of a whole run on its merged clock. Times are int64 ns of the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.interval_frames import cut_to
from nsys2prv.analysis.recording.circumstances import Recording
from nsys2prv.intervals.spans import Span, Spans
from nsys2prv.report.identity import Capacity
from nsys2prv.run.defects import Defect
from nsys2prv.run.matching.arrivals import ARRIVAL, ROLES

# Kinds of device activity, and of calls of MPI.
KERNEL, NCCL, GRAPH, COPY = "kernel", "nccl", "graph", "copy"
MPI = "mpi"
# Names of copies between a host and its device, within a device, and between two.
TO_HOST, TO_DEVICE, OF_DEVICE, BETWEEN_DEVICES = "Device-to-Host", "Host-to-Device", "Device-to-Device", "Peer-to-Peer"
# Type of columns with few distinct texts: a number a row.
TEXT = pl.Categorical()

# Device activity. `task` and `device` are indices of Run.tasks and Run.devices; `launched` is when the host called for
# it, and `caller_row` the thread of that call (null: the report does not say); `family` is the coarse class; `bytes`,
# `communicator` and `operation` are those of copies and collectives where the report says them; `memory`: kinds of
# memory of a copy; `shape`: a number that kernels of one grid share (null: no kernel), `resources`: threads of a block,
# registers of a thread and shared memory of a block (see work_attributes); `instant`: recorded without a length, so
# that it lasts 1 ns and counts for none; `whole_ns`: its length before it was cut at the ends of a chosen time.
WORK = {
    "task": pl.Int64(),
    "device": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "kind": TEXT,
    "name": TEXT,
    "class": TEXT,
    "family": TEXT,
    "bytes": pl.Int64(),
    "communicator": TEXT,
    "operation": TEXT,
    "launched": pl.Int64(),
    "memory": TEXT,
    "caller_row": pl.Int64(),
    "shape": pl.Int64(),
    "instant": pl.Boolean(),
    "resources": pl.Int64(),
    "whole_ns": pl.Int64(),
}
# Calls of host threads. `kind`: cuda, synchronization, mpi, os, openmp.
CALLS = {
    "task": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "kind": TEXT,
    "name": TEXT,
}
# NVTX push/pop ranges; `row` is the thread.
RANGES = {
    "task": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "domain": TEXT,
    "text": pl.String(),
}
CUT_RANGE = {name: RANGES[name] for name in ("task", "start", "end", "text")}
LAUNCHED = {name: WORK[name] for name in ("task", "launched")}
# Samples of threads that launch next, while a device has no launched work, over all ranks. `family`: of the samples;
# `share`: of all those of the family in such times; `function`, `file`: see gather.host_samples; `after`, `before`: the
# activities around the idle time (null: none).
SAMPLED = {
    "family": pl.String(),
    "samples": pl.Int64(),
    "share": pl.Float64(),
    "function": pl.String(),
    "file": pl.String(),
    "after": pl.String(),
    "before": pl.String(),
}


class SampledFunctions(NamedTuple):
    """Samples of hosts by idle time: SAMPLED; and of samples that could not be read the report and the cause."""

    table: pl.DataFrame = pl.DataFrame(schema=SAMPLED)
    unread: tuple[str, ...] = ()


# Parts that ranks take in operations across ranks. `operation`: a number that the parts of one operation share; `kind`:
# see model.frames.OPERATION_END; `began`, `ended`: of the activity on `row` that carries the part (null: the reports
# lack it); ROLES and ARRIVAL: see run.matching.arrivals.
PART = {
    "operation": pl.Int64(),
    "family": TEXT,
    "kind": pl.UInt8(),
    "task": pl.Int64(),
    "row": pl.Int64(),
    "communicator": TEXT,
    "bytes": pl.Int64(),
    "began": pl.Int64(),
    "ended": pl.Int64(),
    **ROLES,
    **ARRIVAL,
}
# Calls that make a stream or a host thread wait for device work; see model.frames.WaitCalls. `stream` and
# `record_stream` are rows; of a context that a thread waits for, the row of any stream with work.
WAIT = {
    "kind": pl.UInt8(),
    "task": pl.Int64(),
    "row": pl.Int64(),
    "time": pl.Int64(),
    "stream": pl.Int64(),
    "record_time": pl.Int64(),
    "record_stream": pl.Int64(),
}

# Streams of known kind by row; `kind`: see model.stream_kinds; `context`: a number that streams of one context share.
STREAM_KIND = {"row": pl.Int64(), "context": pl.Int64(), "kind": pl.UInt8()}


class AnalyzedTask(NamedTuple):
    """A process of the run. `rank` is unique: without a rank, or with another's, a task gets one above the highest.

    `is_rank`: False for a helper process, which has no rank and no device work, such as one that compiles.
    """

    rank: int
    name: str
    host: str
    is_rank: bool = True


# In place of the index of a device, for what is on none.
NO_DEVICE = -1


class Device(NamedTuple):
    """A GPU: its host, its number there, and the lowest rank that uses it."""

    host: str
    gpu: int
    rank: int


class Hardware(NamedTuple):
    """Facts on a GPU by the reports: its model, what it has, and how full its memory was.

    `memory_peaks`: the most bytes that each process held, from the largest (none: not recorded), each at its own time;
    `peak_at`: when the largest was.
    """

    model: str = ""
    capacity: Capacity = Capacity()
    memory_peaks: tuple[int, ...] = ()
    peak_at: int | None = None


class RunClocks(NamedTuple):
    """The clocks of a run: the time by which two may differ (ns; None: not known), and what is doubtful about them.

    `of_task`: the clock of each task by number; `component_of_task`: tasks of one number have clocks that were compared
    with each other (see Alignment.components).
    """

    error: int | None = 0
    of_task: tuple[int, ...] = ()
    component_of_task: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def tolerance(self) -> int:
        """Return by how much a match allows two clocks to differ (ns): not at all if their error is not known."""
        return self.error or 0


Pieces = Callable[[], Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]]


class Sampled(NamedTuple):
    """One metric of one GPU. `pieces()` gives (times, values) in order of time, piece by piece.

    `clock` gives the same for the clock, if the metric is a share of its cycles and the report has it.
    """

    device: int
    metric: str
    rows: int
    pieces: Pieces
    clock: Pieces | None = None


class Run(NamedTuple):
    """All data of a run for analysis.

    `active`: the time of all device activity; without any, of MPI calls; else of all events. `duration` (ns): of the
    trace.
    """

    tasks: tuple[AnalyzedTask, ...]
    devices: tuple[Device, ...]
    # WORK, CALLS, RANGES.
    work: pl.DataFrame
    calls: pl.DataFrame
    ranges: pl.DataFrame
    samples: tuple[Sampled, ...]
    active: Span
    duration: int
    # Names of the metrics in the reports, and warnings on the run: losses, clocks, reports left out.
    metrics: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    # Those of the remarks to read before any figure: reports of several runs, and what is left out of the run.
    foremost: tuple[str, ...] = ()
    # Begin and end of the chosen part of the run.
    chosen: tuple[int, int] | None = None
    # The ranges that it cuts, as they are left; and the launches in it of work that begins behind it.
    cut_ranges: pl.DataFrame = pl.DataFrame(schema=CUT_RANGE)
    launched_beyond: pl.DataFrame = pl.DataFrame(schema=LAUNCHED)
    # CALLS of threads without a row of the trace, to count by name.
    other_calls: pl.DataFrame = pl.DataFrame(schema=CALLS)
    # Label of each row, and the first of the rows that are lanes of one stream or thread: see stream_of.
    row_labels: tuple[str, ...] = ()
    first_lanes: tuple[int, ...] = ()
    # Ranks that the reports hold, and that were not chosen.
    unchosen: tuple[int, ...] = ()
    # Number of ranks of each communicator by name; 0: not known.
    communicator_sizes: Mapping[str, int] = {}
    # Families with rows in the reports.
    recorded_families: frozenset[str] = frozenset()
    # Defects of the reports, the worst first.
    defects: tuple[Defect, ...] = ()
    # A profiler of counters ran kernels one after the other: only their lengths tell something.
    serial: bool = False
    # Remarks that hardly matter.
    details: tuple[str, ...] = ()
    # PART and WAIT.
    parts: pl.DataFrame = pl.DataFrame(schema=PART)
    waits: pl.DataFrame = pl.DataFrame(schema=WAIT)
    # STREAM_KIND.
    stream_kinds: pl.DataFrame = pl.DataFrame(schema=STREAM_KIND)
    clocks: RunClocks = RunClocks()
    recording: Recording = Recording()
    # Recorded spans of each task that was recorded with pauses; and when each task recorded its first and last event,
    # also where a part of the run is chosen (empty: not known).
    captures: tuple[Spans, ...] = ()
    recorded: Mapping[int, Span] = {}
    # By device; empty: the reports do not say.
    hardware: tuple[Hardware, ...] = ()
    # Files of Nsight Compute (PROFILED), and the figures that kernels have of them (FIGURES): see analysis.ncu.join.
    # None without such files.
    profiled: pl.DataFrame | None = None
    figures: pl.DataFrame | None = None
    # Reads the samples of host threads (HOST_SAMPLE, see gather.host_samples), once; None: there are no reports.
    host_samples: Callable[[], pl.DataFrame] | None = None

    @property
    def ranks(self) -> dict[int, int]:
        """Return rank by task."""
        return dict(enumerate(t.rank for t in self.tasks))

    @property
    def task_by_rank(self) -> dict[int, int]:
        """Return task (its number) by rank."""
        return {t.rank: n for n, t in enumerate(self.tasks)}

    @property
    def rank_tasks(self) -> tuple[int, ...]:
        """Return the tasks (their numbers) that are ranks, without helper processes."""
        return tuple(n for n, task in enumerate(self.tasks) if task.is_rank)

    @property
    def rank_count(self) -> int:
        """Return the number of ranks, without helper processes."""
        return len(self.rank_tasks)

    def rank(self, task: int) -> int:
        """Return the rank of a task."""
        return self.tasks[task].rank

    def rank_of(self, column: str) -> pl.Expr:
        """Return the ranks of the tasks in a column; null for a task that the run does not have."""
        return pl.col(column).replace_strict(self.ranks, default=None, return_dtype=pl.Int64)


def kernels_of(work: pl.DataFrame, least: int = 0) -> pl.DataFrame:
    """Return the kernels of WORK that last `least` ns or more, those that communicate, too."""
    long_enough = pl.col("end") - pl.col("start") >= least
    return work.filter(pl.col("kind").is_in([KERNEL, NCCL]) & long_enough)


def devices_of(run: Run) -> pl.DataFrame:
    """Return the devices of a run: device (its index in Run.devices), rank, host and gpu."""
    return pl.DataFrame(
        [(n, d.rank, d.host, d.gpu) for n, d in enumerate(run.devices)],
        schema={"device": pl.Int64(), "rank": pl.Int64(), "host": pl.String(), "gpu": pl.Int64()},
        orient="row",
    )


def tasks_of_devices(run: Run) -> pl.Series:
    """Return `task` of each device of a run: that of the lowest rank that uses it."""
    task_by_rank = run.task_by_rank
    return pl.Series("task", [task_by_rank[device.rank] for device in run.devices], pl.Int64)


def stream_of(run: Run) -> pl.Expr:
    """Return a number for each `row` that the lanes of a stream share: the first of them, else the row itself."""
    further = {row: first for row, first in enumerate(run.first_lanes) if row != first}
    return pl.col("row").replace(further)


def restricted(run: Run, low: int, high: int) -> Run:
    """Return the run with work, calls and ranges of [low, high) alone, cut at its borders, and with `chosen` set.

    All else stays that of the whole run: samples, parts of operations, waits, and the times that tasks recorded.
    The active time is that of the device activity left; without any, of MPI calls; else all of [low, high).
    """
    work, calls, others = (cut_to(frame, low, high) for frame in (run.work, run.calls, run.other_calls))
    left = work if work.height else calls.filter(pl.col("kind") == MPI)
    active = Span(int(left["start"].min()), int(left["end"].max())) if left.height else Span(low, high)  # type: ignore[arg-type]
    beyond = (pl.col("start") < low) | (pl.col("end") > high)
    ranges, cut = (cut_to(frame, low, high) for frame in (run.ranges, run.ranges.filter(beyond)))
    queued = run.work.filter(pl.col("start") >= high, pl.col("launched") < high).select(*LAUNCHED)
    known = run._replace(work=work, calls=calls, other_calls=others, ranges=ranges, active=active, chosen=(low, high))
    return known._replace(cut_ranges=cut.select(*CUT_RANGE), launched_beyond=pl.concat([run.launched_beyond, queued]))
