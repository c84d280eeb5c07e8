"""GPUs of one process that take turns: while one works, another one has its work already, or could have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.thresholds import AT_ONCE, ONE_PLACE
from nsys2prv.intervals.spans import Spans, intersection, union


class WaitsForGpus(NamedTuple):
    """How long each GPU of a rank (index in Run.devices) waits for others of it, ns of an iteration.

    `at`: begin of the longest wait (ns of the trace), None without any.
    """

    by_device: Mapping[int, float]
    at: int | None


@once
def waits_for_gpus(case: Case) -> Mapping[int, WaitsForGpus]:
    """Return by rank how long its GPUs wait for each other; ranks that compute on a single GPU are left out.

    A GPU waits while it idles with launched work and another GPU of its process works.
    """
    gaps = case.idle_gaps(kept_time(case.analysis))
    # Nothing follows the last work of a GPU.
    known = gaps.found.drop_nulls("caller_row")
    waits = intersection(union(known["until"].to_numpy(), known["end"].to_numpy()), _work_beside(case))
    times = gaps.axis.sums(waits)
    of_ranks = {}
    for rank, own in shared_compute(case).items():
        if len(own) > 1:
            lasting = np.where(np.isin(gaps.axis.group(waits.start), list(own)), waits.end - waits.start, 0)
            at = int(gaps.axis.time(waits.start[[np.argmax(lasting)]])[0]) if lasting.any() else None
            of_ranks[rank] = WaitsForGpus({device: float(times[device]) / case.step_count for device in own}, at)
    return of_ranks


def hosts_wait_for_one_gpu(case: Case) -> bool:
    """Return True if GPUs idle after waits of their hosts mainly while a host waits for another GPU of its process.

    Where a GPU mostly works beside another one, the host launched on both at once, and one of them has less to do.
    """
    covered, beside, axis = kept_time(case.analysis), _work_beside(case), case.device_work.axis
    gaps = case.idle_gaps(covered).found
    unlaunched = union(gaps["start"].to_numpy(), gaps["until"].to_numpy())
    waits = intersection(intersection(unlaunched, case.blocked.synchronization), beside)
    after_waits = sum(case.idle_of_devices("synchronized")) * case.step_count
    busy = intersection(case.device_work.busy, axis.spread(covered))
    works_beside = axis.sums(intersection(busy, beside)) >= AT_ONCE.value * axis.sums(busy).clip(1)
    return waits.total() > ONE_PLACE.value * after_waits and not works_beside.any()


@once
def _work_beside(case: Case) -> Spans:
    """Return when other GPUs of its process work, for each device that shares the work of a rank (axis of devices)."""
    axis, busy = case.device_work.axis, case.device_work.busy
    device = axis.group(busy.start)
    start, end = [], []
    for own in shared_compute(case).values():
        for other in own if len(own) > 1 else ():
            works = device == other
            for beside in own.keys() - {other}:
                group = np.full(int(works.sum()), beside, dtype=np.int64)
                start.append(axis.at(group, axis.time(busy.start[works])))
                end.append(axis.at(group, axis.time(busy.end[works])))
    nothing = np.zeros(0, dtype=np.int64)
    return union(np.concatenate([nothing, *start]), np.concatenate([nothing, *end]))
