"""One GPU runs at a lower clock than its peers: by its sampled clock, or by all of its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.kernel_factors import kernel_factors
from nsys2prv.analysis.facts.thresholds import CLOCK_DROP, SLOW_KERNELS
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import Pieces
from nsys2prv.analysis.interval_frames import covered
from nsys2prv.intervals.spans import inside
from nsys2prv.model.units import text_ms


class SlowGpu(NamedTuple):
    """A GPU that is slower than others of its model: `factor` of their time; `evidence` says by what it is known."""

    device: int
    factor: float
    evidence: Mapping[str, float]
    sampled: bool


def slow_gpu(case: Case) -> Iterator[Finding]:
    """Yield the slowest GPU, by sampled clocks, else by kernels."""
    found = _by_clock(case) or _by_kernels(case)
    if found is None:
        return
    device = case.run.devices[found.device]
    cost = case.useful[found.device] * (1 - 1 / found.factor)
    how = "its clock is lower" if found.sampled else "all of its kernels take longer, alike on others"
    yield Finding(
        "slow-gpu",
        f"GPU {device.gpu} of {device.host} (rank {device.rank}) takes {found.factor:.2f} times as long as its "
        f"peers, {how}: {text_ms(cost)} {case.unit}",
        cost,
        "See why it is slow: nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE,POWER names power caps, heat and locked "
        "clocks; other processes on it slow it, too. Leave the node out until then.",
        ranks=(device.rank,),
        iterations=case.iterations,
        evidence=found.evidence,
        confidence="high" if found.sampled else "medium",
        command="nsys2prv analyze RUN --show devices,kernels",
        cfg="analysis/kernel_duration",
    )


def _by_clock(case: Case) -> SlowGpu | None:
    """Return the GPU with the lowest clock in kernels, if it is low and its kernels do not contradict."""
    clocks = {sampled.device: sampled.clock for sampled in case.run.samples if sampled.clock is not None}
    means = {device: mean for device, pieces in clocks.items() if (mean := _clock(case, device, pieces)) is not None}
    slow = None
    for device, own in means.items():
        others = [mean for other, mean in means.items() if other != device and _alike(case, device, other)]
        factor = float(np.median(others)) / own if others else 1.0
        if factor >= CLOCK_DROP.value and (slow is None or factor > slow.factor):
            evidence = {"clock": round(own), "clock_of_others": round(float(np.median(others)))}
            slow = SlowGpu(device, factor, evidence, sampled=True)
    if slow is None:
        return None
    by_kernels = kernel_factors(case).get(slow.device)
    if by_kernels is not None and by_kernels.factor < SLOW_KERNELS.value:
        return None
    return slow._replace(factor=by_kernels.factor) if by_kernels else slow


def _clock(case: Case, device: int, pieces: Pieces) -> float | None:
    """Return the mean clock of a device (in the report's unit) while its kernels run in the window.

    Return None without samples above 0.
    """
    kernels = case.run.work.filter(pl.col("kind").is_in(USEFUL_KINDS), pl.col("device") == device)
    computing = covered(kernels, case.analysis.window.spans)
    total, count = 0.0, 0
    for times, values in pieces():
        meanwhile = inside(computing, times)
        total, count = total + float(values[meanwhile].sum()), count + int(meanwhile.sum())
    return total / count if total else None


def _alike(case: Case, a: int, b: int) -> bool:
    """Return True unless two devices are of different models."""
    models = [hardware.model for hardware in case.run.hardware]
    return not models or models[a] == models[b]


def _by_kernels(case: Case) -> SlowGpu | None:
    """Return the GPU on which nearly all kernels take longer than the same kernels on its peers."""
    slow = {device: found for device, found in kernel_factors(case).items() if found.slow}
    if not slow:
        return None
    device, worst = max(slow.items(), key=lambda item: (item[1].factor, -item[0]))
    evidence = {
        "kernels": worst.kernels,
        "share_of_their_time": round(worst.alike, 3),
        "factor": round(worst.factor, 4),
    }
    return SlowGpu(device, worst.factor, evidence, sampled=False)
