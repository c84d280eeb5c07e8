"""What the reports of a run say of its GPUs: models, what they have, how full their memory was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nsys2prv.analysis.frames import Device, Hardware
from nsys2prv.report.identity import Gpu
from nsys2prv.run.hosts import find_hosts, host_numbers, number_of
from nsys2prv.run.objects import NO_ROW
from nsys2prv.run.plan import Plan


def hardware_of(
    plan: Plan, devices: Sequence[Device], device_of: npt.NDArray[np.int64], overrides: Mapping[str, str]
) -> tuple[Hardware, ...]:
    """Return the hardware of each device. `device_of`: the device of each row; `overrides`: hosts, as for the plan."""
    gpus = _gpus(plan, overrides)
    peaks = _memory_peaks(plan, device_of)
    found = []
    for number, device in enumerate(devices):
        gpu = gpus.get((device.host, device.gpu), Gpu(device.gpu, "", "", ""))
        own = peaks.get(number, [])
        peak, at = (sum(held for held, _ in own), max(own)[1]) if own else (None, None)
        found.append(Hardware(gpu.name, gpu.capacity, peak, at))
    return tuple(found)


def _gpus(plan: Plan, overrides: Mapping[str, str]) -> dict[tuple[str, int], Gpu]:
    """Return the GPUs that the reports list, by host and number there."""
    identities = [s.identity for s in plan.summaries]
    hosts = find_hosts(identities, [s.name for s in plan.summaries], overrides)
    host_of = host_numbers(hosts)
    return {
        (hosts[host_of[r]].name, number_of(hosts[host_of[r]], gpu)): gpu
        for r, identity in enumerate(identities)
        for gpu in identity.gpus
    }


def _memory_peaks(plan: Plan, device_of: npt.NDArray[np.int64]) -> dict[int, list[tuple[int, int]]]:
    """Return for each device the most memory of each process on it (bytes), and when (merged ns)."""
    peaks: dict[int, dict[int, tuple[int, int]]] = {}
    for r, summary in enumerate(plan.summaries):
        for place, (held, time) in summary.memory_peaks.items():
            row = plan.objects.row_of[r][place]
            if row != NO_ROW and device_of[row] != NO_ROW:
                of_rows = peaks.setdefault(int(device_of[row]), {})
                # Reports of one process share a row.
                of_rows[int(row)] = max(of_rows.get(int(row), (0, 0)), (held, plan.clocks[r].merged_one(time)))
    return {device: list(of_rows.values()) for device, of_rows in peaks.items()}
