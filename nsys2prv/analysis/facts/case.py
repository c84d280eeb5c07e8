"""The facts that rules share: an analysis, the iteration that costs refer to, and tables made of it once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.find_rounds import Rounds, rounds_of_streams
from nsys2prv.analysis.facts.framework import Framework, framework_of
from nsys2prv.analysis.facts.gaps import DeviceWork, Gaps, device_work, idle_gaps, kept_time, starved_time
from nsys2prv.analysis.facts.held_iterations import held_iterations, predicted_gain
from nsys2prv.analysis.facts.kernels_in_order import kernels_in_order
from nsys2prv.analysis.facts.launchers import Launchers, find_launchers
from nsys2prv.analysis.facts.long_steps import LongSteps, long_steps, step_begins
from nsys2prv.analysis.facts.starved import BlockedHosts, blocked_hosts, starved
from nsys2prv.analysis.facts.thresholds import BLOCKED, ON_PATH
from nsys2prv.analysis.facts.timed_kernels import TimedKernels, find_timed
from nsys2prv.analysis.frames import KERNEL, MPI, NCCL, Run
from nsys2prv.analysis.graph.critical_path import COMPUTE
from nsys2prv.analysis.graph.nodes import work_of_node
from nsys2prv.analysis.interval_frames import covered_by, cut_with_ns, whole_with_ns
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.host.cuda_api import CALL_THAT_WAITS
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, difference
from nsys2prv.model.basis import after_figure
from nsys2prv.model.units import text_ms

Fact = TypeVar("Fact")
# With fewer iterations the longest and the shortest of them are no exceptions.
FEWEST_TO_TRIM = 4


class KernelTime(NamedTuple):
    """Time of kernels that a finding is about, in ns of an iteration.

    `device_ns`: of a device, the mean; `path_ns`: on the critical path; `unit`: the words after a cost.
    """

    device_ns: float
    path_ns: float
    unit: str

    @property
    def saved_at_most(self) -> float:
        """Return the most (ns of an iteration) that faster kernels save: what is not on the path saves nothing."""
        return min(self.device_ns, self.path_ns)

    @property
    def text(self) -> str:
        """Return the time of a device as text, with its part on the critical path if that is clearly less."""
        path = f", {text_ms(self.path_ns)} of it on the critical path"
        return f"{text_ms(self.device_ns)} {self.unit}{path if self.path_ns < ON_PATH.value * self.device_ns else ''}"


class IdleTime(NamedTuple):
    """A part of STARVED (ns of an iteration): of the device with the least of it, and the mean of all devices."""

    least_ns: float
    mean_ns: float


@dataclass(frozen=True, eq=False)
class Case:
    """An analysis, with the tables that most rules need. It hashes by identity, for the facts that are found `once`.

    `step_count`: number of iterations of the window, 1 without any; `iteration_ns`: their mean time, of the window
    without any; `kernels`: those of the window (WORK without what only copies and collectives have), whole, with `ns`
    in it and `work`, their row of Run.work; `ordered`: these in order of each stream (see kernels_in_order); `rounds`:
    of those, that streams repeat; `kernels_ns`: the lengths of all kernels in the window together, more than the time
    of compute where several run at once; `launchers`: the threads that launch; `device_work`: when devices work;
    `blocked`: when hosts cannot launch; `begins`: BEGIN of the iterations; `starved`: STARVED; `timed`: kernels that
    are launched to be timed, whose time is no part of `starved`; `long_steps`: iterations that take much longer than
    others; `held_iterations`: those of the window of a range (null: all); `exposed`: EXPOSED, times and bytes of NCCL
    kernels as means over the devices of a rank; `host_waits`: time (ns of an iteration) by rank in which a host thread
    waits for its device or for others; `framework`: in whose words advice is given.
    """

    analysis: Analysis
    step_count: int
    iteration_ns: float
    kernels: pl.DataFrame
    ordered: pl.DataFrame
    rounds: tuple[Rounds, ...]
    kernels_ns: int
    launchers: Launchers
    device_work: DeviceWork
    blocked: BlockedHosts
    begins: pl.DataFrame
    starved: pl.DataFrame
    timed: TimedKernels
    long_steps: LongSteps
    held_iterations: pl.DataFrame | None
    exposed: pl.DataFrame
    host_waits: Mapping[int, float]
    framework: Framework

    @property
    def run(self) -> Run:
        """Return the run of the analysis."""
        return self.analysis.run

    @property
    def device_waits(self) -> pl.DataFrame:
        """Return the calls (CALLS) in which a host thread waits for its device: see analysis.graph.device_waits."""
        return self.analysis.explanation.device_waits

    @property
    def iterations(self) -> tuple[int, ...]:
        """Return the numbers of the window's iterations."""
        return tuple(sorted({number for number, _ in self.analysis.window.iterations}))

    @property
    def unit(self) -> str:
        """Return the words after a cost."""
        return after_figure(bool(self.analysis.window.iterations))

    @property
    def in_window(self) -> str:
        """Return ` in the window` for a title whose time is of the window, nothing where it is of an iteration."""
        return "" if self.analysis.window.iterations else f" {self.unit}"

    @property
    def useful(self) -> list[float]:
        """Return how long each device computes (ns of an iteration), without NCCL kernels."""
        return [time.useful_ns / self.step_count for time in self.analysis.explanation.efficiency.devices]

    @property
    def unmatched(self) -> float:
        """Return the share of the time in communication whose other ranks are not known.

        Communicators of one rank have no others. NCCL launches no kernel in those, but MPI has calls.
        """
        own = self.analysis.explanation.communication.filter(pl.col("operation") != ALL_OPERATIONS)
        sizes = pl.col("communicator").replace_strict(self.run.communicator_sizes, default=0, return_dtype=pl.Int64)
        single = (sizes == 0) & pl.col("operation").str.starts_with("MPI_") & (self.run.rank_count == 1)
        alone = own.filter(~(single | (sizes == 1)))["unmatched_ns"].sum()
        return int(alone) / max(int(own["ns"].sum()), 1)

    def kept_calls(self, calls: pl.DataFrame) -> pl.DataFrame:
        """Return those of some CALLS of the time that `starved` covers, cut at its ends, with `ns`.

        Those of iterations that are left out count only where there are no others: a wait may have begun in one.
        """
        kept = self.cut(calls, kept_time(self.analysis))
        return self.cut(calls, starved_time(self.analysis.window)) if kept.is_empty() else kept

    def cut(self, intervals: pl.DataFrame, covered: Spans) -> pl.DataFrame:
        """Return the intervals (task, start, end) that touch some time (ns of the trace), cut at its ends, with `ns`.

        The time in which their process only times kernels does not count.
        """
        return self.timed.left_out(cut_with_ns(intervals, covered), covered)

    def idle_gaps(self, covered: Spans) -> Gaps:
        """Return the idle times of devices within some time (ns of the trace), but not between timed kernels."""
        return idle_gaps(self.device_work, covered, self.timed.devices)

    def slack(self, ranks: Iterable[int]) -> float:
        """Return how long the hosts of ranks wait (ns of an iteration, the median)."""
        return float(np.median([self.host_waits[rank] for rank in ranks] or [0.0]))

    def gain(self, *changes: str) -> float:
        """Return the time (ns of an iteration) that predicted changes gain together, 0 if they gain nothing."""
        return predicted_gain(self.analysis, changes, self.held_iterations)

    def held(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a table (iteration, repeat) of the iterations that the window holds."""
        if self.held_iterations is None:
            return table
        return table.join(self.held_iterations, on=["iteration", "repeat"], how="semi", maintain_order="left")

    def on_path(self, chosen: pl.Expr) -> float:
        """Return how long `chosen` kernels are on the critical path (ns of an iteration).

        `chosen`: by columns of PIECE, by `class`, or by `work`, the row of Run.work. If these kernels took no time, the
        rest of the path would still remain: they can save no more than this.
        """
        compute = self.analysis.explanation.path.filter(pl.col("kind") == COMPUTE)
        compute = compute.with_columns(work=work_of_node(pl.col("node")))
        compute = compute.with_columns(self.run.work["class"].gather(compute["work"]).cast(pl.String))
        return float(compute.filter(chosen).select((pl.col("end") - pl.col("start")).sum()).item()) / self.step_count

    def share_of_compute(self, total_ns: float) -> float:
        """Return the part (of 1) that kernels of `total_ns` together have in the time of all kernels."""
        return total_ns / self.kernels_ns if self.kernels_ns else 0.0

    def kernel_time(self, total_ns: float, chosen: pl.Expr) -> KernelTime:
        """Return the time of `chosen` kernels (see `on_path`), which take `total_ns` on all devices together.

        Kernels that run at once on a device share the time.
        """
        useful = sum(self.useful) * self.step_count
        own = self.of_device(useful * self.share_of_compute(total_ns))
        return KernelTime(own, self.on_path(chosen), self.unit)

    def of_device(self, total_ns: float) -> float:
        """Return a time of all devices together in the window as the mean of a device (ns of an iteration)."""
        return total_ns / max(len(self.run.devices), 1) / self.step_count

    def first_start(self, chosen: pl.Expr) -> int | None:
        """Return when the first of `chosen` device activities (by columns of WORK) begins in the window (ns)."""
        start = self.run.work.filter(chosen, pl.col("start") >= self.analysis.window.start)["start"].min()
        return start if isinstance(start, int) else None

    def idle(self, part: str) -> IdleTime:
        """Return a part of STARVED, 0 without devices."""
        times = self.idle_of_devices(part)
        return IdleTime(min(times), sum(times) / len(times)) if times else IdleTime(0.0, 0.0)

    def idle_of_devices(self, part: str) -> list[float]:
        """Return a part of STARVED of each device (ns of an iteration).

        It is the mean over iterations without the longest and the shortest, so that a single one does not count, but
        what comes every few iterations does, as waiting for data. What makes a host launch late in long iterations is
        a finding of its own, and does not count here.
        """
        each = self.usual_starved() if part == "launching" else self.starved
        by_device = each.group_by("device", maintain_order=True).agg(usual(pl.col(part)).alias(part))
        return [float(ns or 0) for ns in by_device[part]]

    def usual_starved(self) -> pl.DataFrame:
        """Return STARVED without the long iterations."""
        return self.starved.join(self.long_steps.found, on=["repeat", "number"], how="anti", maintain_order="left")

    def usual_time(self) -> Spans:
        """Return the time that `starved` covers, without the long iterations (ns of the trace).

        What processes and devices do to time kernels is in it: `cut` and `idle_gaps` leave it out.
        """
        return difference(kept_time(self.analysis), self.long_steps.spans)


def once(find: Callable[[Case], Fact]) -> Callable[[Case], Fact]:
    """Wrap the function that finds a fact of a case: it finds it once, however many rules ask for it."""
    known: WeakKeyDictionary[Case, Fact] = WeakKeyDictionary()

    @wraps(find)
    def found(case: Case) -> Fact:
        if case not in known:
            known[case] = find(case)
        return known[case]

    return found


def usual(time: pl.Expr) -> pl.Expr:
    """Return the mean of times (ns) without the longest and the shortest, to aggregate by; of few times the median."""
    return (
        pl.when(pl.len() < FEWEST_TO_TRIM)
        .then(time.median())
        .otherwise((time.sum() - time.min() - time.max()) / (pl.len() - 2))
    )


def case_of(analysis: Analysis) -> Case:
    """Gather the facts of an analysis."""
    window = analysis.window
    predicted = analysis.explanation.predictions if window.iterations else ()
    measured = predicted[0].measured_ns if predicted else window.spans.total()
    count, begins, launchers = max(len(window.iterations), 1), step_begins(analysis), find_launchers(analysis)
    kernels = _kernels(analysis)
    ordered = kernels_in_order(analysis, kernels)
    rounds = rounds_of_streams(ordered)
    timed, work = find_timed(analysis, ordered, rounds), device_work(analysis)
    blocked, idle = blocked_hosts(analysis, launchers, work), idle_gaps(work, starved_time(window), timed.devices)
    return Case(
        analysis=analysis,
        step_count=count,
        iteration_ns=float(measured),
        kernels=kernels,
        ordered=ordered,
        rounds=rounds,
        kernels_ns=_kernels_ns(analysis),
        launchers=launchers,
        device_work=work,
        blocked=blocked,
        begins=begins,
        starved=starved(blocked, launchers, begins, idle),
        timed=timed,
        long_steps=long_steps(analysis, begins),
        held_iterations=held_iterations(analysis),
        exposed=_exposed(analysis),
        host_waits=_host_waits(analysis, launchers, count),
        framework=framework_of(analysis.run),
    )


def _kernels(analysis: Analysis) -> pl.DataFrame:
    work = analysis.run.work.drop("bytes", "communicator", "operation", "memory")
    rows = work.with_row_index("work").cast({"work": pl.Int64})
    return whole_with_ns(rows.filter(pl.col("kind") == KERNEL), analysis.window.spans)


def _kernels_ns(analysis: Analysis) -> int:
    work = analysis.run.work.select("kind", "start", "end").filter(pl.col("kind").is_in(USEFUL_KINDS))
    return int(whole_with_ns(work, analysis.window.spans)["ns"].sum())


def _exposed(analysis: Analysis) -> pl.DataFrame:
    """Return `exposed` of a case: the devices of a rank wait at the same time."""
    kernels = analysis.run.work.filter(pl.col("kind") == NCCL).group_by("task").agg(pl.col("device").n_unique())
    devices = {analysis.run.rank(task): count for task, count in kernels.rows()}
    sharing = pl.col("rank").replace_strict(devices, default=1, return_dtype=pl.Int64)
    each = pl.when(pl.col("kind") == NCCL).then(sharing).otherwise(1)
    return analysis.explanation.exposed.with_columns(pl.col("bytes", "^.*_ns$") / each)


def _host_waits(analysis: Analysis, launchers: Launchers, count: int) -> dict[int, float]:
    """Return `host_waits` of a case: more than `device_waits`, as a host has all this time to spare."""
    is_long = pl.col("end") - pl.col("start") > BLOCKED.value
    blocked = (pl.col("kind") == "cuda") & (text_contains("name", CALL_THAT_WAITS) | is_long)
    others = analysis.run.calls.filter(blocked | (pl.col("kind") == MPI))
    calls = pl.concat([analysis.explanation.device_waits, launchers.value_waits, others])
    axis, spans = axis_over(analysis.window.spans, len(analysis.run.tasks)), analysis.window.spans
    times = axis.sums(covered_by(axis, calls, "task", spans))
    return {rank: float(times[task]) / count for task, rank in analysis.run.ranks.items()}
