"""GPUs of one process that take turns: while one works, another one has its work already, or could have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.thresholds import AT_ONCE, ONE_PLACE
from nsys2prv.intervals.grouped import NO_GROUP, Axis
from nsys2prv.intervals.spans import Indices, Spans, Times, intersection, time_in, union


class WaitsForGpus(NamedTuple):
    """The waits of the GPUs of a rank for each other.

    `by_device`: how long each one (index in Run.devices) waits, ns of an iteration; `at`: begin of the longest wait (ns
    of the trace), None without any.
    """

    by_device: Mapping[int, float]
    at: int | None


class _WorkOfRanks(NamedTuple):
    """The times in which any GPU of a rank works, for ranks that share their work over several GPUs.

    `axis`: of these ranks; `group`: of each device the number of its rank there, else NO_GROUP; `spans`: the times.
    """

    axis: Axis
    group: Indices
    spans: Spans


@once
def waits_for_gpus(case: Case) -> Mapping[int, WaitsForGpus]:
    """Return by rank how long its GPUs wait for each other; ranks that compute on a single GPU are left out.

    A GPU waits while it idles with launched work and another GPU of its process works.
    """
    gaps = case.idle_gaps(kept_time(case.analysis))
    # Nothing follows the last work of a GPU.
    known = gaps.found.drop_nulls("caller_row")
    device = gaps.axis.group(known["end"].to_numpy() - 1)
    begin, end = (gaps.axis.time(known[c].to_numpy() - 1) + 1 for c in ("until", "end"))
    waits = _others_work(case, device, begin, end)
    found = {}
    for rank, own in _sharing(case).items():
        of_device = {d: float(waits[device == d].sum()) / case.step_count for d in own}
        of_rank = np.where(np.isin(device, list(own)), waits, 0)
        found[rank] = WaitsForGpus(of_device, int(begin[of_rank.argmax()]) if of_rank.any() else None)
    return found


def hosts_wait_for_one_gpu(case: Case) -> bool:
    """Return True if GPUs idle after waits of their hosts mainly while a host waits for another GPU of its process.

    Where a GPU mostly works beside another one, the host launched on both at once, and one of them has less to do.
    """
    sharing = _sharing(case)
    if not sharing:
        return False
    axis, covered = case.device_work.axis, kept_time(case.analysis)
    gaps = case.idle_gaps(covered).found
    waits = intersection(union(gaps["start"].to_numpy(), gaps["until"].to_numpy()), case.blocked.synchronization)
    beside = _others_work(case, axis.group(waits.start), axis.time(waits.start), axis.time(waits.end - 1) + 1)
    after_waits = sum(case.idle_of_devices("synchronized")) * case.step_count
    busy = axis.sums(intersection(case.device_work.busy, axis.spread(covered)))
    works = _work_of_ranks(case)
    any_busy = works.axis.sums(intersection(works.spans, works.axis.spread(covered)))
    at_once = [
        busy[list(own)].sum() - any_busy[n] >= AT_ONCE.value * busy[list(own)].min()
        for n, own in enumerate(sharing.values())
    ]
    return bool(beside.sum() > ONE_PLACE.value * after_waits) and not any(at_once)


def _sharing(case: Case) -> dict[int, list[int]]:
    """Return the devices of each rank that shares its work over several."""
    return {rank: list(own) for rank, own in shared_compute(case).items() if len(own) > 1}


def _others_work(case: Case, device: Indices, start: Times, end: Times) -> Times:
    """Return how long (ns) other GPUs of its process work in each of some times in which a device idles (ns).

    As the device idles, all work of its rank is that of others.
    """
    works = _work_of_ranks(case)
    group = works.group[device]
    known = group != NO_GROUP
    rank = np.where(known, group, 0)
    inside = time_in(works.spans, works.axis.at(rank, end)) - time_in(works.spans, works.axis.at(rank, start))
    found: Times = np.where(known, inside, 0)
    return found


@once
def _work_of_ranks(case: Case) -> _WorkOfRanks:
    """Find when the GPUs of each rank work that shares its work over several."""
    run, sharing, devices = case.run, _sharing(case), case.device_work.axis
    group = np.full(len(run.devices), NO_GROUP, dtype=np.int64)
    for number, own in enumerate(sharing.values()):
        group[own] = number
    # Another process may work on a device, too.
    tasks = pl.Series([run.task_by_rank[device.rank] for device in run.devices], dtype=pl.Int64)
    work = run.work.select("device", "start", "end", "task").filter(pl.col("task") == tasks.gather(run.work["device"]))
    axis = Axis(devices.low, devices.high, max(len(sharing), 1))
    own_group = group[work["device"].to_numpy()]
    return _WorkOfRanks(axis, group, axis.union(own_group, work["start"].to_numpy(), work["end"].to_numpy()))
