"""Lengths of a dependency graph after a change: a faster network, no delays, balanced ranks, faster kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import EdgeKind
from nsys2prv.analysis.graph.host_delays import without_delays
from nsys2prv.analysis.graph.nodes import NO_NODE, end_node, work_of_node
from nsys2prv.analysis.predict.change import ADVICE, HOST, Change
from nsys2prv.analysis.predict.model import Model
from nsys2prv.analysis.predict.replay import Lengths, too_long
from nsys2prv.errors import UsageError
from nsys2prv.intervals.grouped import LONGEST_AXIS
from nsys2prv.intervals.spans import Indices, Mask, Times
from nsys2prv.model.words import did_you_mean, few, short

# Families of kernels that an error names, at most.
FAMILIES_NAMED = 12

# A device counts as a rank's only if the rank computes there at least this part of the time on its busiest device. It
# may touch others in passing, such as GPU 0 through a stray context.
LEAST_SHARE = 0.1


def changed_lengths(model: Model, lengths: Lengths, change: Change) -> Lengths:
    """Apply one change to the lengths of a scenario. Raises UsageError if the run does not have its target."""
    if change.target in _SCALED:
        return _SCALED[change.target](model, lengths, change.factor)
    if change.rank is None:
        return _scaled(lengths, end_node(_works_named(model, change)), change.factor)
    task = _task_of(model, change.rank, change)
    if change.as_median:
        return _as_median(model, lengths, task)
    own = _computing(model) & (model.run.work["task"] == task).to_numpy()
    return _scaled(lengths, end_node(np.flatnonzero(own)), change.factor)


def with_room(graph: Graph, measured: Lengths, lengths: Lengths) -> Lengths:
    """Return lengths in which work beside a kernel waits for room during the same part of that kernel as measured."""
    room = np.flatnonzero(graph.edges.kind == EdgeKind.ROOM)
    if not len(room):
        return lengths
    runs = end_node(work_of_node(graph.edges.source[room]))
    crossing = lengths.crossing.copy()
    crossing[room] = _times(measured.crossing[room] * (lengths.along[runs] / np.maximum(measured.along[runs], 1)))
    return lengths._replace(crossing=crossing)


def _works_named(model: Model, change: Change) -> Indices:
    """Return the rows of Run.work with the target as family, class, name or phase. Raises UsageError without any."""
    named = _names_of_works(model)
    chosen = named.select(pl.any_horizontal(pl.all() == change.target).fill_null(False)).to_series()
    if chosen.any():
        return np.flatnonzero(chosen.to_numpy())
    families, *others = (named[column].drop_nulls().unique() for column in named.columns)
    known = f"the families are {few(families.sort().to_list(), FAMILIES_NAMED)}; " if len(families) else ""
    every = pl.concat([families, *others]).unique().sort().to_list()
    raise UsageError(
        f"--set {short(change.text)!r}: no kernel family, class, name or phase is {short(change.target)!r}"
        f"{did_you_mean(change.target, [*_SCALED, *every])}; {known}{ADVICE}"
    )


def _names_of_works(model: Model) -> pl.DataFrame:
    """Return family, class, name and phase of each row of Run.work."""
    return model.run.work.select(pl.col("family", "class", "name").cast(pl.String)).with_columns(phase=model.phases)


def _scaled(lengths: Lengths, nodes: Indices, factor: float | Times) -> Lengths:
    along = lengths.along.copy()
    along[nodes] = _times(along[nodes] * factor)
    return lengths._replace(along=along)


def _scaled_edges(model: Model, lengths: Lengths, kind: EdgeKind, factor: float) -> Lengths:
    """Scale the crossing edges of a kind."""
    crossing, chosen = lengths.crossing.copy(), model.graph.edges.kind == kind
    crossing[chosen] = _times(crossing[chosen] * factor)
    return lengths._replace(crossing=crossing)


def _times(lengths: npt.NDArray[np.floating[Any]]) -> Times:
    """Return lengths in whole ns. Raises UsageError where they add up to more than a replay can tell apart."""
    if np.abs(lengths).sum() > LONGEST_AXIS:
        raise too_long()
    times: Times = np.rint(lengths).astype(np.int64)
    return times


def _transfer(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Scale the time of collectives and messages after the last rank has come."""
    moved = _scaled_edges(model, lengths, EdgeKind.TRANSFER, factor)
    alone = end_node(np.flatnonzero((model.run.work["kind"] == NCCL).to_numpy()))
    exchanges = np.flatnonzero(model.graph.along == EdgeKind.EXCHANGE)
    return _scaled(moved, np.concatenate([alone, exchanges]), factor)


def _launch(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Scale the time in launching calls, and from a launch to the begin of its work."""
    launched = _scaled_edges(model, lengths, EdgeKind.LAUNCH, factor)
    nodes, calls = model.after_calls
    along = lengths.along.copy()
    spared = _times(calls * (1 - factor))
    along[nodes] = np.maximum(along[nodes] - spared, 0)
    return launched._replace(along=along)


def _host(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Scale the work of hosts from one instant to the next, of one thread or of two that hand over to each other."""
    handed = _scaled_edges(model, lengths, EdgeKind.HANDOVER, factor)
    return _scaled(handed, np.flatnonzero(model.graph.along == EdgeKind.HOST), factor)


def _delay(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Scale the delays of host threads."""
    shorter = without_delays(model.host_delays, lengths.along)
    return lengths._replace(along=_times(shorter + factor * (lengths.along - shorter)))


def _computing(model: Model) -> Mask:
    mask: Mask = model.run.work["kind"].is_in(USEFUL_KINDS).to_numpy()
    return mask


def _imbalance(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Move the compute time of each device between two collective operations toward the mean of all devices.

    It is the time that kernels take alone. They run slower beside communication that waits, but balanced ranks do not
    wait. A single device is as balanced as can be. In a run without devices the hosts work instead.
    """
    if model.run.work.is_empty():
        return _balanced_hosts(model, lengths, factor)
    if max(len(model.run.devices), len(model.run.tasks)) < 2:
        return lengths
    graph, chosen = model.graph, np.flatnonzero(_computing(model))
    begin, end = graph.at_begins(graph.time)[chosen], graph.at_ends(graph.time)[chosen]
    ns = graph.at_ends(lengths.along)[chosen] * model.slowdown.alone_ns[chosen] / np.maximum(end - begin, 1)
    piece = np.searchsorted(np.unique(graph.time[graph.hubs]), begin, side="right")
    work = model.run.work.select("task", "device")[chosen].with_columns(node=end_node(chosen), piece=piece, ns=ns)
    total = work.with_columns(total=pl.col("ns").sum().over("task", "device"))
    shared = total.filter(pl.col("total") >= LEAST_SHARE * pl.col("total").max().over("task"))
    own = pl.col("ns").sum().over("piece", "task", "device")
    mean = pl.col("ns").sum().over("piece") / pl.struct("task", "device").n_unique()
    # A device that computes nothing in a piece stays so.
    factors = shared.select(pl.when(own > 0).then(1 + (mean / own - 1) * (1 - factor)).otherwise(1.0))
    return _scaled(lengths, shared["node"].to_numpy(), factors.to_series().to_numpy())


def _balanced_hosts(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Move the work of each rank's hosts between two collectives of all ranks toward the mean of all ranks."""
    graph, ranks = model.graph, model.run.rank_tasks
    own = graph.instants.select("task", "node").filter(pl.col("task").is_in(ranks)).unique("node").sort("node")
    nodes = own["node"].to_numpy()
    before = graph.before[nodes]
    works = (graph.along[nodes] == EdgeKind.HOST) & (before != NO_NODE)
    nodes, begin = nodes[works], graph.time[before[works]]
    arrivals = graph.edges.target[graph.edges.kind == EdgeKind.ARRIVAL]
    hubs, arrived = np.unique(arrivals, return_counts=True)
    piece = np.searchsorted(np.unique(graph.time[hubs[arrived >= len(ranks)]]), begin, side="right")
    work = own.filter(pl.Series(works)).select("task", piece=pl.Series(piece), ns=pl.Series(lengths.along[nodes]))
    total = pl.col("ns").sum().over("piece", "task")
    mean = pl.col("ns").sum().over("piece") / len(ranks)
    factors = work.select(pl.when(total > 0).then(1 + (mean / total - 1) * (1 - factor)).otherwise(1.0))
    return _scaled(lengths, nodes, factors.to_series().to_numpy())


def _task_of(model: Model, rank: int, change: Change) -> int:
    """Return the task of the rank of a change. Raises UsageError if the run has no such rank."""
    task_by_rank = model.run.task_by_rank
    if rank not in task_by_rank:
        known = ", ".join(map(str, sorted(task_by_rank)))
        raise UsageError(f"--set {short(change.text.strip())!r}: no rank {rank}; the ranks are {known}")
    return task_by_rank[rank]


def _as_median(model: Model, lengths: Lengths, task: int) -> Lengths:
    """Scale the kernels of a task by family, so that they take the median of the ranks in all.

    Of an even number of ranks that is the mean of the middle two. The other ranks keep their times.
    """
    chosen = np.flatnonzero(_computing(model))
    ns = pl.Series("ns", model.graph.at_ends(lengths.along)[chosen])
    work = model.run.work.select("task", "family")[chosen].with_columns(ns)
    by_rank = work.group_by("task", "family").agg(own=pl.col("ns").sum())
    usual = by_rank.group_by("family").agg(usual=pl.col("own").median())
    both = by_rank.join(usual, on="family")
    slower = (pl.col("task") == task) & (pl.col("own") > 0)
    factors = both.with_columns(factor=pl.when(slower).then(pl.col("usual") / pl.col("own")).otherwise(1.0))
    factor = work.join(factors, on=["task", "family"], maintain_order="left")["factor"]
    return _scaled(lengths, end_node(chosen), factor.to_numpy())


# Targets that are no kernels, each with what scales its lengths.
_SCALED: dict[str, Callable[[Model, Lengths, float], Lengths]] = {
    "transfer": _transfer,
    "launch": _launch,
    HOST: _host,
    "imbalance": _imbalance,
    "delay": _delay,
}
