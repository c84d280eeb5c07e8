"""Iterations of runs without ranges that number them: from one launch of repeating work to the next.

Many programs name no range for an iteration (Megatron, most of inference), but each iteration runs the optimizer, or a
collective of one size, or launches a graph. Loops of other kernels are no evidence: a program may repeat a kernel
within its iterations, or have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import GRAPH, NCCL, Run, parts_by
from nsys2prv.analysis.phases import OCCURRENCE
from nsys2prv.intervals.spans import Indices, Times

# Family of classes of the kernels that an optimizer launches.
OPTIMIZER = "optimizer"
# Lowest number of an anchor's launches on each rank.
FEWEST = 4
# Launches of one group, such as an optimizer's kernels, are this many times closer to each other than to others.
APART = 4.0
# This part of the periods must be within this share of the median: start-up and pauses may be longer.
REGULAR, WITHIN = 0.75, 0.5
# Part of the device activity, and of the other ranks' anchors, that a rank's iterations must hold.
HELD = 0.5


class Repeats(NamedTuple):
    """Iterations by repeating work: the name of the anchor, and OCCURRENCE from one anchor to the next on each task."""

    anchor: str
    steps: pl.DataFrame


def find_repeats(run: Run) -> Repeats | None:
    """Return the iterations by an anchor that repeats regularly on every rank with device activity; None without one.

    The optimizer's kernels come before collectives and graphs; of several anchors that with the longest period counts.
    """
    launched = run.work.drop_nulls("launched")
    tasks = launched["task"].unique().sort().to_list()
    for candidates in _candidates(launched):
        found = []
        for (name, *_), work in candidates.group_by("name", "bytes", maintain_order=True):
            anchors = {task: _anchors(part) for task, part in parts_by(work, "task").items()}
            if list(anchors) == tasks and all(map(_regular, anchors.values())) and _alike(anchors, launched):
                period = float(np.median(np.concatenate([np.diff(a["start"].to_numpy()) for a in anchors.values()])))
                found.append((period, str(name), anchors))
        if found:
            _, name, anchors = max(found, key=lambda one: (one[0], one[1]))
            return Repeats(name, _steps(name, anchors))
    return None


def _candidates(launched: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield kinds of work that may be anchors, in order of trust: name, bytes, task, start, launched.

    Kernels of an optimizer count together, under the name of the most frequent one.
    """
    columns = ["name", "bytes", "task", "start", "launched"]
    named = launched.with_columns(pl.col("name").cast(pl.String))
    optimizer = named.filter(pl.col("family").cast(pl.String) == OPTIMIZER)
    yield optimizer.with_columns(name=pl.col("name").mode().sort().first(), bytes=pl.lit(None, pl.Int64)).select(
        columns
    )
    repeated = named.filter(pl.col("kind").is_in([NCCL, GRAPH]))
    often = pl.len().over("name", "bytes", "task") >= FEWEST
    yield repeated.filter(often).select(columns)


def _anchors(work: pl.DataFrame) -> pl.DataFrame:
    """Return the first launch of each burst of one task's work: start, launched, `size` (number in the burst)."""
    ordered = work.sort("launched", "start").unique("launched", keep="first", maintain_order=True)
    begins = _bursts(ordered["launched"].to_numpy())
    sizes = np.diff(np.append(begins, ordered.height))
    return ordered[begins].select("start", "launched").with_columns(size=pl.Series(sizes, dtype=pl.Int64))


def _bursts(times: Times) -> Indices:
    """Return where bursts of instants (ns, in order) begin: after gaps that are far longer than those within."""
    gaps = np.maximum(np.diff(times), 1)
    lengths = np.sort(gaps)
    growth = lengths[1:] / lengths[:-1]
    # Between bursts are three gaps or more, or there are too few of them.
    usable = growth[: max(len(growth) - FEWEST + 2, 0)]
    if not len(usable) or usable.max() < APART:
        return np.arange(len(times))
    limit = lengths[int(usable.argmax()) + 1]
    return np.append(0, np.flatnonzero(gaps >= limit) + 1)


def _regular(anchors: pl.DataFrame) -> bool:
    """Return True if the anchors come often enough, in equal numbers and at equal distances on the device."""
    if anchors.height < FEWEST:
        return False
    periods = np.diff(anchors["start"].to_numpy())
    usual, size = float(np.median(periods)), float(anchors["size"].median())  # type: ignore[arg-type]
    near = np.abs(periods - usual) <= WITHIN * usual
    return usual > 0 and near.mean() >= REGULAR and float((anchors["size"] == size).mean()) >= REGULAR  # type: ignore[arg-type]


def _alike(anchors: dict[int, pl.DataFrame], launched: pl.DataFrame) -> bool:
    """Return True if all tasks have about as many anchors, and these span most of the work of each."""
    most = max(a.height for a in anchors.values())
    for task, work in parts_by(launched, "task").items():
        first, last = anchors[task]["launched"][0], anchors[task]["launched"][-1]
        held = work["launched"].is_between(first, last).mean()
        if anchors[task].height < REGULAR * most or float(held or 0) < HELD:  # type: ignore[arg-type]
            return False
    return True


def _steps(name: str, anchors: dict[int, pl.DataFrame]) -> pl.DataFrame:
    """Return OCCURRENCE. A task with fewer anchors began to record later: the last ones belong together."""
    most = max(a.height for a in anchors.values())
    parts = [
        own.select(
            task=pl.lit(task, pl.Int64),
            number=pl.int_range(pl.len(), dtype=pl.Int64) + most - own.height,
            repeat=pl.lit(0, pl.Int64),
            start=pl.col("launched"),
            end=pl.col("launched").shift(-1),
            text=pl.lit(name),
        ).drop_nulls("end")
        for task, own in anchors.items()
    ]
    return pl.concat(parts).select(pl.col(c).cast(t) for c, t in OCCURRENCE.items())
