"""Idle time of devices without launched work, by what their hosts did: load, allocate, wait, launch.

Unlike IDLE_CAUSES, STARVED includes the time between iterations, and gives each time by its iteration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.gaps import DeviceWork, Gaps
from nsys2prv.analysis.facts.launchers import Launchers, time_in_system
from nsys2prv.analysis.facts.thresholds import BLOCKED, IN_ROW
from nsys2prv.analysis.frames import MPI
from nsys2prv.analysis.graph.device_waits import DEVICE_WIDE
from nsys2prv.analysis.interval_frames import at_longest, covered_by
from nsys2prv.analysis.iterations.phases import with_phase
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.host.cuda_api import MANAGING_MEMORY
from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Indices, Spans, Times, difference, time_in
from nsys2prv.model.schemas import to_schema

# Idle time (ns) of each device (index in Run.devices) by iteration (null without any), in parts: `load`: a range of
# loading was open on the main thread; `allocating`: else, a thread allocated or freed memory, or had waited for the
# device to free some, or a pool gave some back in a wait; `system`: the thread that launched next was in a call of the
# operating system, such as `poll`, and waited for no other thread of its process; `synchronized`: the device became
# idle while its host waited for it, up to the length of that wait, or of a row of waits: the host could have launched
# meanwhile; `launching`: the rest. `longest`: the longest of these times, and `at` its begin; `pause`: the most of
# `launching` in one idle time.
STARVED = {
    "device": pl.Int64(),
    "repeat": pl.Int64(),
    "number": pl.Int64(),
    "load": pl.Int64(),
    "allocating": pl.Int64(),
    "system": pl.Int64(),
    "synchronized": pl.Int64(),
    "launching": pl.Int64(),
    "longest": pl.Int64(),
    "at": pl.Int64(),
    "pause": pl.Int64(),
}
PARTS = ("load", "allocating", "system", "synchronized", "launching")
# True for the calls (CALLS) in which a thread allocates, frees, maps or pins memory.
IS_ALLOCATION = (pl.col("kind") == "cuda") & text_contains("name", MANAGING_MEMORY)
# Waits for a whole device, as records and as calls (see device_waits), and calls that end streams and events.
WAITS_FOR_ALL = rf"^Context synchronize$|^(?:{'|'.join(DEVICE_WIDE)})$"
ENDS = r"^cu(?:da)?(?:Event|Stream)Destroy"
# Calls that give memory to a pool and take it from there. Between them a synchronization gives it back to the driver,
# unless the pool may keep it (CUDA programming guide, stream-ordered memory allocator).
TO_POOL, FROM_POOL = r"^cu(?:da)?(?:Free|MemFree)Async", r"^cu(?:da)?(?:Malloc|MemAlloc)(?:FromPool)?Async"


class BlockedHosts(NamedTuple):
    """Times in which all tasks that use a device load data, are in MPI, allocate, or wait, on an axis of the devices.

    Of the first three a time counts once, for the first of them: memory that is allocated to load data is loading.
    `freeing`: waits for the whole device before calls that allocate or free memory, which are not in `synchronization`.
    `releasing`: waits in which a pool may give back memory, from when the devices of their task have ended their work.
    """

    load: Spans
    mpi: Spans
    allocation: Spans
    synchronization: Spans
    freeing: Spans
    releasing: Spans


def blocked_hosts(analysis: Analysis, launchers: Launchers, work: DeviceWork) -> BlockedHosts:
    """Find when hosts cannot launch."""
    calls = analysis.run.calls
    waits = pl.concat([analysis.explanation.device_waits, launchers.value_waits])
    freeing = _waits_to_free(waits, calls)
    others = waits.join(freeing.select("row", "start"), on=["row", "start"], how="anti", maintain_order="left")
    releasing = _without_work(_waits_of_pools(waits, calls), work, len(analysis.run.tasks))
    every = (load_ranges(analysis), calls.filter(kind=MPI), calls.filter(IS_ALLOCATION), others, freeing, releasing)
    load, mpi, allocation, *of_waits = (_together(work.axis, work.users, own) for own in every)
    in_mpi = difference(mpi, load)
    return BlockedHosts(load, in_mpi, difference(difference(allocation, load), in_mpi), *of_waits)


def starved(blocked: BlockedHosts, launchers: Launchers, begins: pl.DataFrame, idle: Gaps) -> pl.DataFrame:
    """Return STARVED for each device and iteration of the window; without iterations for the window.

    `begins`: see step_begins; `idle`: of the time that counts, as `starved_time`.
    """
    return _by_iteration(parts_of_gaps(blocked, launchers, idle), begins, idle.users["device"].unique().sort())


def parts_of_gaps(blocked: BlockedHosts, launchers: Launchers, idle: Gaps) -> pl.DataFrame:
    """Return PARTS of each idle time (ns), with its device and start (ns of the trace), in order of `idle.found`."""
    axis, _, gaps = idle
    load, mpi, allocating = (_inside(spans, gaps) for spans in (blocked.load, blocked.mpi, blocked.allocation))
    waited, system = _wait_before(blocked.synchronization, gaps), time_in_system(launchers, idle)
    rest = pl.col("until") - pl.col("start") - pl.sum_horizontal("load", "mpi", "allocating")
    timed = (
        gaps.with_columns(load=load, mpi=mpi, allocating=allocating, waited=waited, system=system)
        .with_columns(rest.clip(lower_bound=0).alias("rest"))
        .with_columns(pl.min_horizontal("rest", "system").alias("system"))
        .with_columns(
            pl.col("rest") - pl.col("system"),
            device=pl.Series(axis.group(gaps["start"].to_numpy())),
            start=pl.Series(axis.time(gaps["start"].to_numpy())),
        )
    )
    # A wait that only waits ends with the work of the devices.
    released = _inside(blocked.releasing, gaps)
    released = (released > BLOCKED.value) * released
    freed = pl.max_horizontal(pl.lit(_wait_before(blocked.freeing, gaps)), pl.lit(released))
    to_free = pl.min_horizontal("rest", freed)
    timed = timed.with_columns(pl.col("rest") - to_free, pl.col("allocating") + to_free)
    timed = timed.with_columns(synchronized=_without_lead(timed))
    return timed.with_columns(launching=pl.col("rest") - pl.col("synchronized"))


def longest_at(starved: pl.DataFrame, part: str) -> int | None:
    """Return when the longest idle time begins (ns) where most of a part of STARVED is, None where no device has it."""
    at: int | None = starved.filter(pl.col(part) > 0).select(at_longest(part, "at")).item()
    return at


def load_ranges(analysis: Analysis) -> pl.DataFrame:
    """Return the ranges of the main threads that load data, by their names: columns of RANGES."""
    return with_phase(analysis.main_ranges).filter(phase="load").drop("phase")


def _waits_to_free(waits: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the waits (CALLS) for the whole device after which the next call of their thread manages memory.

    So libraries free what they have, such as cublasDestroy. Ends of streams and events between do not count.
    """
    of_cuda = calls.filter(pl.col("kind") == "cuda", ~text_contains("name", ENDS))
    following = of_cuda.select("row", "start", managing=IS_ALLOCATION).sort("start")
    wide = waits.filter(text_contains("name", WAITS_FOR_ALL)).sort("end")
    known = wide.join_asof(
        following, left_on="end", right_on="start", by="row", strategy="forward", check_sortedness=False
    )
    return known.filter(pl.col("managing").fill_null(False)).select(waits.columns)


def _waits_of_pools(waits: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the waits (CALLS) that come between calls of their thread that give memory to a pool and take it there."""
    of_pools = calls.filter((pl.col("kind") == "cuda") & text_contains("name", f"{TO_POOL}|{FROM_POOL}"))
    gives = of_pools.select("row", "start", gives=text_contains("name", TO_POOL)).sort("start")
    key: dict[str, Any] = {"by": "row", "right_on": "start", "check_sortedness": False}
    known = waits.sort("start").join_asof(gives, left_on="start", **key)
    known = known.sort("end").join_asof(gives, left_on="end", strategy="forward", suffix="_next", **key)
    return known.filter(pl.col("gives") & ~pl.col("gives_next")).select(waits.columns)


def _without_work(waits: pl.DataFrame, work: DeviceWork, tasks: int) -> pl.DataFrame:
    """Return the parts (task, start and end in ns) of waits (CALLS) in which no device of their task works.

    Before, a wait may only wait, also where it is for another device of the task than the one that is idle.
    """
    axis, (start, end) = work.axis, work.busy
    busy = pl.DataFrame({"device": axis.group(start), "start": axis.time(start), "end": axis.time(end)})
    by_task = Axis(axis.low, axis.high, tasks)
    each = (covered_by(by_task, own, "task") for own in (waits, busy.join(work.users, on="device")))
    idle = difference(*each)
    return pl.DataFrame(
        {"task": by_task.group(idle.start), "start": by_task.time(idle.start), "end": by_task.time(idle.end)}
    )


def _inside(spans: Spans, gaps: pl.DataFrame) -> pl.Series:
    """Return how long (ns) each idle time, until the next launch, is inside spans on the axis of the gaps."""
    start, until = gaps["start"].to_numpy(), gaps["until"].to_numpy()
    return pl.Series(time_in(spans, until) - time_in(spans, start), dtype=pl.Int64)


def _wait_before(waits: Spans, gaps: pl.DataFrame) -> pl.Series:
    """Return how long the host had waited (ns) when each idle time began, 0 if it did not wait then."""
    start = gaps["start"].to_numpy()
    if not len(waits.start):
        return pl.Series(np.zeros(len(start), dtype=np.int64))
    at = np.searchsorted(waits.start, start, side="right") - 1
    since, until = waits.start[np.maximum(at, 0)], waits.end[np.maximum(at, 0)]
    return pl.Series(np.where((at >= 0) & (start < until), start - since, 0))


def _without_lead(gaps: pl.DataFrame) -> pl.Series:
    """Return how much of `rest` of each idle time (ns) is due to waits of the host. `waited`: see _wait_before.

    While the host waited it could have launched: it lost that much of its lead, and an idle time at the end of the wait
    takes of it what it can. Of idle times in one wait, as between kernels, each adds what was waited since the last.
    Waits with few launches between are one row, as where a program reads the norm of each gradient: then later idle
    times take of the lead what is still there, lost = max(0, lost before + waited - rest). That is Lindley's recursion
    (1952, "The theory of queues with a single server").
    """
    waits, row = pl.col("waited") > 0, ("device", "row")
    # Step by step: older releases of Polars have no windows within windows.
    known = gaps.with_columns(since=pl.col("start") - pl.col("start").shift(1).over("device"))
    known = known.with_columns(pl.min_horizontal("waited", "since"), at=pl.when(waits).then("before"))
    known = known.with_columns(
        last=pl.col("at").forward_fill().over("device"), following=pl.col("at").shift(-1).backward_fill().over("device")
    )
    known = known.with_columns(in_row=(pl.col("following") - pl.col("last") <= IN_ROW.value).fill_null(False))
    known = known.with_columns(begins=waits & ~pl.col("in_row").shift(1, fill_value=False).over("device"))
    known = known.with_columns(row=pl.col("begins").cast(pl.Int64).cum_sum().over("device"))
    known = known.with_columns(change=(pl.col("waited") - pl.col("rest")).cum_sum().over(row))
    known = known.with_columns(lost=pl.col("change") - pl.min_horizontal(pl.col("change").cum_min().over(row), 0))
    taken = pl.col("lost").shift(1, fill_value=0).over(row) + pl.col("waited") - pl.col("lost")
    return known.select(pl.when(waits | pl.col("in_row")).then(taken).otherwise(0)).to_series()


def _together(axis: Axis, users: pl.DataFrame, intervals: pl.DataFrame) -> Spans:
    """Return the time in which all tasks that use a device have an interval: one task alone does not keep it idle.

    `users`: device and task; the spans are on the axis of the devices.
    """
    numbered = users.with_row_index("user").cast({"user": pl.Int64})
    by_user = Axis(axis.low, axis.high, users.height)
    each = covered_by(by_user, intervals.join(numbered, on="task"), "user")
    user = by_user.group(each.start)
    device = users["device"].to_numpy()
    start, end = (axis.at(device[user], by_user.time(positions)) for positions in each)
    needed = np.bincount(device, minlength=axis.groups)
    return _all_over(start, end, needed[device[user]])


def _all_over(start: Times, end: Times, needed: Indices) -> Spans:
    """Return the time in which as many intervals overlap as is `needed` there."""
    change = np.concatenate([start, end])
    step = np.repeat(np.array([1, -1]), len(start))
    order = np.lexsort((step, change))
    change, depth = change[order], np.cumsum(step[order])
    begins = np.flatnonzero((depth == np.tile(needed, 2)[order]) & (step[order] > 0))
    return Spans(change[begins], change[begins + 1])


def _by_iteration(gaps: pl.DataFrame, begins: pl.DataFrame, devices: pl.Series) -> pl.DataFrame:
    """Return STARVED of the gaps of `devices`, which have its parts. A time between two iterations is of the first.

    `begins`: see step_begins.
    """
    named = gaps.with_columns(repeat=pl.lit(None, pl.Int64), number=pl.lit(None, pl.Int64), steady=pl.lit(True))
    if begins.height:
        at = np.searchsorted(begins["begin"].to_numpy(), gaps["start"].to_numpy(), side="right") - 1
        named = gaps.hstack(begins.select("repeat", "number", "steady")[np.maximum(at, 0)]).filter(pl.Series(at >= 0))
    length, by = pl.sum_horizontal(*PARTS), ["device", "repeat", "number"]
    sums = (
        named.filter("steady")
        .group_by(by, maintain_order=True)
        .agg(pl.col(*PARTS).sum(), longest=length.max(), at=at_longest(length), pause=pl.col("launching").max())
    )
    if begins.height:
        steady = (
            devices.alias("device").to_frame().join(begins.filter("steady").select("repeat", "number"), how="cross")
        )
        sums = steady.join(sums, on=by, how="left").with_columns(pl.col(*PARTS, "pause").fill_null(0))
    return to_schema(sums, STARVED)
