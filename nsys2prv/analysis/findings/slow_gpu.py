"""One GPU runs at a lower clock than its peers: by its sampled clock, or by all of its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import (
    ALIKE_KERNELS,
    CLOCK_DROP,
    FEWEST_LAUNCHES,
    LIKE_LAUNCHES,
    SAME_KERNELS,
    SLOW_KERNELS,
    SLOW_SHARE,
)
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import NCCL, Pieces
from nsys2prv.analysis.interval_frames import covered, covered_by
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span, time_in
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
    by_kernels = _kernel_factors(case).get(slow.device)
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
        inside = time_in(computing, times + 1) > time_in(computing, times)
        total, count = total + float(values[inside].sum()), count + int(inside.sum())
    return total / count if total else None


def _alike(case: Case, a: int, b: int) -> bool:
    """Return True unless two devices are of different models."""
    models = [hardware.model for hardware in case.run.hardware]
    return not models or models[a] == models[b]


class _Factor(NamedTuple):
    """The kernels of a device compared with those of the same name and grid on its peers.

    `factor`: median ratio of their usual times to the peers', weighted by time. `alike`: share of their time in kernels
    whose ratio is above 1 + (factor - 1) / 2. `same`: share of the time of all of the device's kernels that is in
    kernels which a peer launches as often. `kernels`: number of names and grids that are compared.
    """

    factor: float
    alike: float
    same: float
    kernels: int


def _by_kernels(case: Case) -> SlowGpu | None:
    """Return the GPU on which nearly all kernels take longer than the same kernels on its peers."""
    slow = {
        device: found
        for device, found in _kernel_factors(case).items()
        if found.factor >= SLOW_KERNELS.value
        and found.alike >= SLOW_SHARE.value
        and found.same >= SAME_KERNELS.value
        and found.kernels >= ALIKE_KERNELS.value
    }
    if not slow:
        return None
    device, worst = max(slow.items(), key=lambda item: (item[1].factor, -item[0]))
    evidence = {
        "kernels": worst.kernels,
        "share_of_their_time": round(worst.alike, 3),
        "factor": round(worst.factor, 4),
    }
    return SlowGpu(device, worst.factor, evidence, sampled=False)


def _kernel_factors(case: Case) -> dict[int, _Factor]:
    """Compare the median times of kernels of one name and grid between devices of one model, by device.

    The usual time is the lower median over devices: of two devices the faster one. Kernels beside communication, which
    slows them, do not count, and neither do kernels that a device launches more or less often than the others: it has
    other work.
    """
    models = [hardware.model for hardware in case.run.hardware] or [""] * len(case.run.devices)
    kernels = case.kernels
    alone = _beside_no_communication(case, kernels)
    if alone.is_empty():
        return {}
    model = pl.col("device").replace_strict(dict(enumerate(models)), default="", return_dtype=pl.String)
    alike, key = ("model", "name", "shape"), ("device", "name", "shape")
    difference = (pl.col("count") - pl.col("count").median().over(alike)).abs()
    timed = alone.group_by(key).agg(timed=pl.len(), usual=pl.col("ns").median())
    each = (
        kernels.group_by(key)
        .agg(count=pl.len(), total=pl.col("ns").sum())
        .with_columns(model=model)
        .with_columns(same=difference <= pl.max_horizontal(1, LIKE_LAUNCHES.value * pl.col("count")))
        .with_columns(same=pl.col("same") & (pl.col("same").sum().over(alike) > 1))
        .join(timed, on=key, how="left", nulls_equal=True)
    )
    share = dict(each.group_by("device").agg(pl.col("total").filter("same").sum() / pl.col("total").sum()).rows())
    often = each.filter("same", pl.col("timed") >= FEWEST_LAUNCHES.value, pl.col("usual") > 0)
    compared = often.filter(pl.len().over(alike) > 1)
    rated = compared.with_columns(ratio=pl.col("usual") / pl.col("usual").quantile(0.5, "lower").over(alike))
    found = {}
    for (device,), own in rated.sort("device", "ratio").group_by("device", maintain_order=True):
        ratio, weight = own["ratio"].to_numpy(), own["total"].to_numpy()
        factor = float(ratio[np.searchsorted(np.cumsum(weight), weight.sum() / 2)])
        slow = float(weight[ratio > 1 + (factor - 1) / 2].sum() / weight.sum())
        found[int(str(device))] = _Factor(factor, slow, share[device], own.height)
    return found


def _beside_no_communication(case: Case, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels during which no NCCL kernel runs on their device."""
    nccl = case.run.work.filter(pl.col("kind") == NCCL)
    if nccl.is_empty() or kernels.is_empty():
        return kernels
    device, start, end = (kernels[c].to_numpy() for c in ("device", "start", "end"))
    axis = axis_over(one_span(int(start.min()), int(end.max())), len(case.run.devices))
    communicating = covered_by(axis, nccl, "device")
    beside = time_in(communicating, axis.at(device, end)) - time_in(communicating, axis.at(device, start))
    return kernels.filter(pl.Series(beside == 0))
