"""Parallel efficiency of the devices: load balance x communication x orchestration.

The model is that of POP, TALP (dlb, src/talp/perf_metrics.c) and BasicAnalysis (doc/source/06_metrics.rst): with
K_d the time that device d computes and B_d the time that it does anything, both as unions over all streams of all
processes on it, D devices and a window of T ns:

    parallel = sum K / (D T) = [mean K / max K] x [max K / max B] x [max B / T]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import GRAPH, KERNEL, NCCL, Device
from nsys2prv.analysis.interval_frames import covered_by, covered_time
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, one_span, time_in

# Kind of NCCL kernels: useful work (as TALP counts them) or communication (as BasicAnalysis does).
NcclAs = Literal["useful", "communication"]
USEFUL_KINDS = (KERNEL, GRAPH)


class DeviceTime(NamedTuple):
    """Time of one device: computing, and busy with anything (ns)."""

    device: Device
    useful_ns: int
    busy_ns: int


class Efficiency(NamedTuple):
    """Efficiencies (fractions of 1) over `window_ns` of time.

    Where no device computes, all are 0 but `orchestration`: that is the time of the busiest device over the window.
    """

    window_ns: int
    devices: tuple[DeviceTime, ...]
    parallel: float
    load_balance: float
    communication: float
    orchestration: float

    @property
    def measured(self) -> bool:
        """Return True if any device was busy at all: one may have a context and no recorded work."""
        return any(time.busy_ns for time in self.devices)


class Phase(NamedTuple):
    """Efficiency of an NVTX phase or an iteration; `occurrences` over all ranks."""

    name: str
    occurrences: int
    efficiency: Efficiency


def efficiency(work: pl.DataFrame, devices: Sequence[Device], window: Spans, nccl: NcclAs) -> Efficiency:
    """Return the efficiency over a window of one or more spans. `work`: WORK; an idle device counts with 0."""
    axis = axis_over(window, len(devices))
    useful, busy = (
        axis.sums(covered_by(axis, own, "device", window)).tolist() for own in (work.filter(_is_useful(nccl)), work)
    )
    return efficiency_of_times([DeviceTime(*one) for one in zip(devices, useful, busy, strict=True)], window.total())


def efficiency_by_occurrence(
    launched: pl.DataFrame, devices: Sequence[Device], nccl: NcclAs
) -> dict[tuple[int, int], Efficiency]:
    """Return the efficiency of each occurrence in a frame of `phases.projected`, by (repeat, number) in this order.

    All occurrences of a repeat come before those of the next one. The window of an occurrence is its first to its last
    device activity.
    """
    key = ["repeat", "number"]
    on_devices = (
        launched.sort("start").group_by(*key, "device").agg(useful=covered_time(_is_useful(nccl)), busy=covered_time())
    )
    known = {(repeat, number, device): times for repeat, number, device, *times in on_devices.rows()}
    windows = launched.group_by(key).agg(ns=pl.col("end").max() - pl.col("start").min()).sort(key)
    found = {}
    for repeat, number, ns in windows.rows():
        times = [DeviceTime(device, *known.get((repeat, number, n), (0, 0))) for n, device in enumerate(devices)]
        found[repeat, number] = efficiency_of_times(times, ns)
    return found


def efficiency_by_span(
    work: pl.DataFrame, spans: pl.DataFrame, devices: Sequence[Device], nccl: NcclAs
) -> dict[tuple[int, int], Efficiency]:
    """Return the efficiency of each span by (repeat, number), in order of the rows.

    All work in a span counts, whichever iteration launched it. `work`: WORK; `spans`: repeat, number, begin and until
    (ns) of iterations that overlap on devices.
    """
    begin, until = (spans[c].to_numpy() for c in ("begin", "until"))
    axis = axis_over(one_span(int(begin.min()), int(until.max())), len(devices))
    covered = [covered_by(axis, own, "device") for own in (work.filter(_is_useful(nccl)), work)]
    by_device = [
        [time_in(one, axis.at(group, until)) - time_in(one, axis.at(group, begin)) for one in covered]
        for group in (np.full(len(begin), device) for device in range(len(devices)))
    ]
    found = {}
    for n, (repeat, number, ns) in enumerate(
        spans.select("repeat", "number", pl.col("until") - pl.col("begin")).rows()
    ):
        times = [
            DeviceTime(device, int(useful[n]), int(busy[n]))
            for device, (useful, busy) in zip(devices, by_device, strict=True)
        ]
        found[repeat, number] = efficiency_of_times(times, ns)
    return found


def _is_useful(nccl: NcclAs) -> pl.Expr:
    """Return the condition that work is useful."""
    return pl.col("kind").is_in([*USEFUL_KINDS, NCCL] if nccl == "useful" else USEFUL_KINDS)


def efficiency_of_times(times: Sequence[DeviceTime], window_ns: int) -> Efficiency:
    """Return the efficiencies of the devices' times."""
    most = max((t.useful_ns for t in times), default=0)
    busiest = max((t.busy_ns for t in times), default=0)
    if not most or not window_ns:
        return Efficiency(window_ns, tuple(times), 0.0, 0.0, 0.0, busiest / window_ns if window_ns else 0.0)
    total = sum(t.useful_ns for t in times)
    parallel = total / (len(times) * window_ns)
    return Efficiency(window_ns, tuple(times), parallel, total / len(times) / most, most / busiest, busiest / window_ns)
