"""Pauses of kernels on a GPU that another process uses, too: each as long as a time slice."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.thresholds import (
    FEWEST_LAUNCHES,
    FEWEST_PLACES,
    FEWEST_SLICES,
    KERNELS_IN_SLICES,
    LIKE_SLICES,
    MANY_IN_SLICES,
    NEARLY_SLICES,
    OF_SHORT_KERNELS,
    SHORTEST_SLICE,
)
from nsys2prv.analysis.frames import Device


class TimeSlices(NamedTuple):
    """A GPU whose kernels pause for time slices, and the ranks that use it.

    `pauses`: how many, of `kernels` different names, each of `slice_ns` (the median); `lost_ns`: what the rank that
    loses most loses in them (ns of an iteration); `at`: begin of the first kernel that pauses.
    """

    device: Device
    ranks: tuple[int, ...]
    pauses: int
    kernels: int
    slice_ns: float
    lost_ns: float
    at: int


@once
def time_slices(case: Case) -> TimeSlices | None:
    """Return the GPU whose kernels lose most time in pauses; None without pauses that look like time slices.

    Where the run does not show a second process on the GPU, its pauses must have one length: that of a slice. Where
    pauses are of several lengths, they must stop many kernels, short and long ones alike.
    """
    work = case.kernels
    users = work.group_by("device").agg(users=pl.col("task").unique().sort())
    # Processes that share a GPU pause in turns: an iteration lasts longer by what one of them loses.
    of_task = pl.col("lost").sum().over("device", "task")
    paused = _paused(work, case.step_count).with_columns(of_task=of_task).join(users, on="device")
    middle = (pl.col("lost").quantile(0.75) - pl.col("lost").quantile(0.25)) / pl.col("lost").median()
    many = pl.col("kernels") >= MANY_IN_SLICES.value
    alike = pl.col("spread") <= pl.when(many).then(NEARLY_SLICES.value).otherwise(LIKE_SLICES.value)
    by_device = (
        paused.group_by("device")
        .agg(
            count=pl.len(),
            kernels=pl.col("name").n_unique(),
            spread=middle,
            users=pl.col("users").first(),
            slice=pl.col("lost").median(),
            lost=pl.col("of_task").max(),
            at=pl.col("start").first(),
        )
        .filter(
            pl.col("count") >= FEWEST_SLICES.value,
            pl.col("kernels") >= KERNELS_IN_SLICES.value,
            alike | (pl.col("users").list.len() > 1),
        )
        .sort("lost", "device", descending=[True, False])
    )
    if by_device.is_empty():
        return None
    number, count, kernels, _, sharing, length, lost, at = by_device.row(0)
    ranks = tuple(case.run.rank(task) for task in sharing)
    return TimeSlices(case.run.devices[number], ranks, count, kernels, length, lost / case.step_count, int(at))


def _paused(work: pl.DataFrame, steps: int) -> pl.DataFrame:
    """Return device, task, name, start and `lost` (ns above the median) of kernels that take far longer than usual.

    `steps`: number of iterations. What is as long at its place in most of them is no pause: a matrix product of one
    name and grid takes longer where it sums up more.
    """
    alike = ["device", "name", "shape"]
    usual, count = pl.col("ns").median().over(alike), pl.len().over(alike)
    # Work comes in order of start.
    known = work.select(*alike, "task", "start", "ns").with_columns(usual=usual, count=count)
    if steps >= FEWEST_PLACES.value:
        in_step = (pl.col("count") / steps).round().cast(pl.Int64).clip(lower_bound=1)
        place = known.with_columns(place=pl.int_range(pl.len()).over(alike) % in_step)
        known = place.with_columns(usual=pl.max_horizontal("usual", pl.col("ns").median().over(*alike, "place")))
    lost = pl.col("ns") - pl.col("usual")
    paused = known.filter(
        pl.col("count") >= FEWEST_LAUNCHES.value,
        lost >= SHORTEST_SLICE.value,
        lost >= OF_SHORT_KERNELS.value * pl.col("usual"),
    )
    return paused.sort(*alike, "start").select("device", "task", "name", "start", lost=lost)
