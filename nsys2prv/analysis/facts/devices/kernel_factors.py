"""Kernels of one name and grid on several GPUs of a model: how much longer they take on one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.thresholds import (
    ALIKE_KERNELS,
    FEWEST_LAUNCHES,
    LIKE_LAUNCHES,
    SAME_KERNELS,
    SLOW_KERNELS,
    SLOW_SHARE,
)
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span, time_in

# Kernels of one name and grid on the devices of one model.
_ALIKE = ("model", "name", "shape")


class Factor(NamedTuple):
    """The kernels of a device compared with those of the same name and grid on its peers.

    `factor`: median ratio of their usual times to the peers', weighted by the time of the peers. `alike`: share of that
    time in kernels whose ratio is above 1 + (factor - 1) / 2. `same`: share of the time of all of the device's kernels
    that is in kernels which a peer launches as often. `kernels`: number of names and grids that are compared.
    """

    factor: float
    alike: float
    same: float
    kernels: int

    @property
    def slow(self) -> bool:
        """Return True if nearly all kernels take longer, as on a slower GPU; other input lengthens only some."""
        return (
            self.factor >= SLOW_KERNELS.value
            and self.alike >= SLOW_SHARE.value
            and self.same >= SAME_KERNELS.value
            and self.kernels >= ALIKE_KERNELS.value
        )


@once
def kernel_factors(case: Case) -> dict[int, Factor]:
    """Compare the median times of kernels of one name and grid between devices of one model, by device.

    The usual time is the lower median over devices: of two devices the faster one. Kernels beside communication, which
    slows them, do not count, and neither do kernels that a device launches more or less often than the others: it has
    other work.
    """
    alone = _beside_no_communication(case, case.kernels)
    if alone.is_empty():
        return {}
    each = _kernels_of_devices(case, alone)
    share = dict(each.group_by("device").agg(pl.col("total").filter("same").sum() / pl.col("total").sum()).rows())
    often = each.filter("same", pl.col("timed") >= FEWEST_LAUNCHES.value, pl.col("usual") > 0)
    compared = often.filter(pl.len().over(_ALIKE) > 1)
    rated = compared.with_columns(ratio=pl.col("usual") / pl.col("usual").quantile(0.5, "lower").over(_ALIKE))
    found = {}
    for (device,), own in rated.sort("device", "ratio").group_by("device", maintain_order=True):
        ratio = own["ratio"].to_numpy()
        # A kernel that lasts far longer has no more weight for that.
        weight = own["total"].to_numpy() / ratio
        factor = float(ratio[np.searchsorted(np.cumsum(weight), weight.sum() / 2)])
        slow = float(weight[ratio > 1 + (factor - 1) / 2].sum() / weight.sum())
        found[int(str(device))] = Factor(factor, slow, share[device], own.height)
    return found


def _kernels_of_devices(case: Case, alone: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels of one name and grid on each device: their `count` and `total` time (ns), and the model.

    `same`: another device of the model launches them as often; `timed`: how many of them are `alone`, and `usual`:
    the median time of these (ns).
    """
    models = [hardware.model for hardware in case.run.hardware] or [""] * len(case.run.devices)
    model = pl.col("device").replace_strict(dict(enumerate(models)), default="", return_dtype=pl.String)
    key = ("device", "name", "shape")
    difference = (pl.col("count") - pl.col("count").median().over(_ALIKE)).abs()
    timed = alone.group_by(key).agg(timed=pl.len(), usual=pl.col("ns").median())
    return (
        case.kernels.group_by(key)
        .agg(count=pl.len(), total=pl.col("ns").sum())
        .with_columns(model=model)
        .with_columns(same=difference <= pl.max_horizontal(1, LIKE_LAUNCHES.value * pl.col("count")))
        .with_columns(same=pl.col("same") & (pl.col("same").sum().over(_ALIKE) > 1))
        .join(timed, on=key, how="left", nulls_equal=True)
    )


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
