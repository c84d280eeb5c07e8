"""Optimizer, collectives and graphs that repeat regularly: the work that is tried first to find iterations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Indices, Mask, Times
from nsys2prv.run.iterations.milestone_kinds import OF_GRAPH, OF_OPTIMIZER, OF_ORDER
from nsys2prv.run.iterations.repeats_by_order import FEWEST_REPEATS

# Launches of one group, such as an optimizer's kernels, are this many times closer to each other than to others.
LEAST_GAP_RATIO = 4.0
# At least this share of a milestone's periods differs from their median by no more than the tolerance, a part of it
# (start-up and pauses may be longer), and of its bursts has the median number of launches. A process with a smaller
# share of the milestones of the process that has the most began to record later.
LEAST_REGULAR_SHARE, REGULAR_PERIOD_TOLERANCE = 0.75, 0.5

# PyTorch's kernels over lists of tensors. Where none is an optimizer's alone, they are its steps, as of SGD.
OVER_LISTS = "multi_tensor_apply_kernel"
# As many times as between bursts a distance must come within them for these to be iterations of a host that runs ahead.
FEWEST_WITHIN = 2


def work_of_kinds(own: pl.DataFrame) -> Iterator[tuple[Sequence[object], pl.DataFrame, None]]:
    """Yield kind, name and bytes of optimizer, collectives and graphs that repeat regularly, and their milestones."""
    for key, candidates in _candidates(own):
        timed = key[0] != OF_OPTIMIZER
        for milestones, sizes in _groupings(key[0], candidates):
            if _is_regular(milestones["start"].to_numpy(), sizes, timed):
                yield key, milestones, None
                break


def _candidates(own: pl.DataFrame) -> Iterable[tuple[Sequence[object], pl.DataFrame]]:
    """Yield kind, name and bytes of optimizer, collectives and graphs of a process, and their launches in order."""
    # `place`: in the order of launches.
    placed = own.with_row_index("place").cast({"place": pl.Int64})
    optimizer = placed.filter(pl.col("kind") == OF_OPTIMIZER)
    if optimizer.is_empty():
        over_lists = placed.filter(pl.col("kind") == OF_ORDER, pl.col("name") == OVER_LISTS)
        if over_lists.height >= FEWEST_REPEATS and _same_work_between(over_lists):
            optimizer = over_lists
    if optimizer.height >= FEWEST_REPEATS:
        yield (OF_OPTIMIZER, optimizer["name"].cast(pl.String).mode().sort()[0], None), optimizer
    known = placed.filter(pl.col("kind") < OF_ORDER).with_columns(pl.col("name").cast(pl.String))
    key = ("kind", "name", "bytes")
    often = known.filter(pl.col("kind") != OF_OPTIMIZER, pl.len().over(key) >= FEWEST_REPEATS)
    yield from often.group_by(key, maintain_order=True)


def _groupings(kind: object, launches: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, Indices]]:
    """Yield the ways to group launches: the first launch of each group, and the number of launches in each."""
    ordered = launches.unique("launched", keep="first", maintain_order=True)
    paused = kind != OF_OPTIMIZER and _only_paused(ordered)
    yield _milestones(ordered, "place" if paused else "launched")
    if kind == OF_OPTIMIZER:
        # A host that runs far ahead waits for room in the queue, also between launches of one optimizer step. The
        # device runs them one after another.
        yield _milestones(ordered, "start")
    if kind == OF_GRAPH:
        # A host that runs ahead launches a graph in bursts of several iterations.
        yield ordered, np.ones(ordered.height, dtype=np.int64)


def _milestones(ordered: pl.DataFrame, times: str) -> tuple[pl.DataFrame, Indices]:
    """Return the first launch of each burst by a column of times, and the number of launches in each."""
    begins = _whole_bursts(_bursts(ordered[times].to_numpy()), ordered.height)
    return ordered[begins], np.diff(np.append(begins, ordered.height))


def _only_paused(ordered: pl.DataFrame) -> bool:
    """Return True if only time parts the bursts of launches: between them is no other work than within them.

    A host that runs ahead waits for the device every few iterations, and launches these in a burst.
    """
    begins, distances = _bursts(ordered["launched"].to_numpy()), np.diff(ordered["place"].to_numpy())
    borders = begins[1:] - 1
    if not FEWEST_REPEATS - 1 <= len(borders) < len(distances):
        return False
    usual = float(np.median(distances[borders]))
    within = np.delete(distances, borders)
    same: Mask = distances[borders] == usual
    return bool(same.all()) and int((within == usual).sum()) >= FEWEST_WITHIN * len(borders)


def _same_work_between(launches: pl.DataFrame) -> bool:
    """Return True if as much other work lies between most bursts of launches: those of two models in turn have not."""
    ordered = launches.unique("launched", keep="first", maintain_order=True)
    for times in ("launched", "start"):
        distances = np.diff(_milestones(ordered, times)[0]["place"].to_numpy())
        if len(distances) and np.mean(distances == np.median(distances)) >= LEAST_REGULAR_SHARE:
            return True
    return False


def _bursts(times: Times) -> Indices:
    """Return where bursts of instants (ns, in order) begin: after gaps that are far longer than those within."""
    gaps = np.maximum(np.diff(times), 1)
    lengths = np.sort(gaps)
    growth = lengths[1:] / lengths[:-1]
    # Between bursts are three gaps or more, or there are too few of them.
    usable = growth[: max(len(growth) - FEWEST_REPEATS + 2, 0)]
    if not len(usable) or usable.max() < LEAST_GAP_RATIO:
        return np.arange(len(times))
    limit = lengths[int(usable.argmax()) + 1]
    return np.append(0, np.flatnonzero(gaps >= limit) + 1)


def _whole_bursts(begins: Indices, count: int) -> Indices:
    """Return where bursts begin (of `count` launches), with the parts of interrupted ones put together.

    A burst may pause, as the first time that a kernel is launched and its module is loaded. Parts follow one another,
    each with fewer launches than usual, and together they have as many as one burst or several.
    """
    sizes = np.diff(np.append(begins, count))
    usual = float(np.median(sizes))
    bursts = pl.DataFrame({"begin": begins, "size": sizes}).with_columns(run=(pl.col("size") < usual).rle_id())
    within = (pl.col("begin") - pl.col("begin").first().over("run")) % usual > 0
    parted = bursts.with_columns(within=within)
    # As many begins are left as there are bursts.
    of_parts = pl.col("size").sum().over("run") == usual * (~pl.col("within")).sum().over("run")
    return parted.filter(~((pl.col("size") < usual) & of_parts & pl.col("within")))["begin"].to_numpy()


def _is_regular(starts: Times, sizes: Indices, timed: bool) -> bool:
    """Return True if milestones come often enough, in equal numbers (`sizes`) and at equal distances on the device.

    Not `timed`: at any distances. An optimizer ends an iteration however long that waited for data.
    """
    if len(starts) < FEWEST_REPEATS:
        return False
    periods = np.diff(starts)
    usual = float(np.median(periods))
    tolerance = REGULAR_PERIOD_TOLERANCE * usual if timed else np.inf
    near: Mask = np.abs(periods - usual) <= tolerance
    same: Mask = sizes == np.median(sizes)
    return usual > 0 and float(near.mean()) >= LEAST_REGULAR_SHARE and float(same.mean()) >= LEAST_REGULAR_SHARE
