"""Changes of the lengths in a dependency graph: a faster network, no delays, balanced ranks, faster kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.communication.contention import Slowdown
from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL, Run
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import EdgeKind
from nsys2prv.analysis.graph.host_delays import without_delays
from nsys2prv.analysis.graph.instants import instant_nodes
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes, end_node
from nsys2prv.analysis.predict.replay import Lengths, too_long
from nsys2prv.errors import UsageError
from nsys2prv.intervals.grouped import LONGEST_AXIS
from nsys2prv.intervals.spans import Indices, Mask, Times
from nsys2prv.model.words import did_you_mean, few, short

ADVICE = (
    "changes are transfer*F, launch*F, host*F, imbalance*F, delay*F, `rank N*F`, `rank N=median`, and NAME*F for "
    "kernels by family, class, name or phase; TARGET=0 is TARGET*0"
)
# Families of kernels that an error names, at most.
FAMILIES_NAMED = 12

# A device counts as a rank's only if the rank computes there at least this part of the time on its busiest device. It
# may touch others in passing, such as GPU 0 through a stray context.
LEAST_SHARE = 0.1


class AfterCalls(NamedTuple):
    """The host's work after CUDA calls: its nodes, and how long the call before each took (ns)."""

    nodes: Nodes
    calls: Times


class Model(NamedTuple):
    """A run that can be replayed: its graph, its host delays (HOST_DELAY), and its iterations.

    `marks`: one row for each `first` and `last` node of an iteration, with its number and repeat, in order of these: it
    lasts from the earliest `first` to the latest `last`; `kept`: the iterations that count, as (number, repeat), empty:
    all; `phases`: the phase of each work (null: none); `slowdown`: contention; `after_calls`: made once, as each replay
    needs them again.
    """

    run: Run
    graph: Graph
    host_delays: pl.DataFrame
    marks: pl.DataFrame
    kept: tuple[tuple[int, int], ...]
    phases: pl.Series
    slowdown: Slowdown
    after_calls: AfterCalls


class Change(NamedTuple):
    """A change: its target times a factor. `rank`: of that rank (None: not of one), to the median where `as_median`."""

    target: str
    factor: float = 1.0
    rank: int | None = None
    as_median: bool = False


def parsed(change: str) -> Change:
    """Return a change, of whose target only a run can tell if it has it. Raises UsageError if it cannot be read."""
    text = change.strip()
    if found := re.fullmatch(r"(rank\s+(\d+))\s*=\s*median", text):
        return Change(found[1], rank=int(found[2]), as_median=True)
    found = re.fullmatch(r"(.+?)\s*(?:\*\s*(\d+\.?\d*|\.\d+)|=\s*0)", text)
    if not found:
        meant = re.fullmatch(r"(.+?)\s*=\s*(\d+\.?\d*|\.\d+)", text)
        hint = f", did you mean '{short(meant[1])}*{meant[2]}'?" if meant else ""
        if not re.search(r"[*=]", text):
            hint = f", such as '{short(text)}*0.5' for half of its time"
        raise UsageError(
            f"--set {short(change)!r}: not TARGET*F with a factor F of 0 or more, nor TARGET=0{hint}; {ADVICE}"
        )
    target = found[1].strip()
    of_rank = re.fullmatch(r"rank\s+(\d+)", target)
    return Change(target, float(found[2] or 0), int(of_rank[1]) if of_rank else None)


def changed(model: Model, lengths: Lengths, change: str) -> Lengths:
    """Apply one change to the lengths of a scenario. Raises UsageError for one that cannot be read or has no target."""
    target, factor, rank, as_median = parsed(change)
    if rank is not None and as_median:
        return _as_median(model, lengths, rank)
    named: dict[str, Callable[[Model, Lengths, float], Lengths]] = {
        "transfer": _transfer,
        "launch": _launch,
        "host": _host,
        "imbalance": _imbalance,
        "delay": _delay,
    }
    if target in named:
        return named[target](model, lengths, factor)
    if rank is not None:
        task = _task_of(model, rank, change.strip())
        own = _computing(model) & (model.run.work["task"] == task).to_numpy()
        return _scaled(lengths, end_node(np.flatnonzero(own)), factor)
    chosen = _works_named(model, target)
    if not chosen.any():
        families = model.run.work["family"].drop_nulls().cast(pl.String).unique().sort().to_list()
        known = f"the families are {few(families, FAMILIES_NAMED)}; " if families else ""
        raise UsageError(
            f"--set {short(change)!r}: no kernel family, class, name or phase is {short(target)!r}"
            f"{did_you_mean(target, [*named, *_names(model)])}; {known}{ADVICE}"
        )
    return _scaled(lengths, end_node(np.flatnonzero(chosen)), factor)


def _names(model: Model) -> list[str]:
    """Return the families, classes, names and phases of all works, each once."""
    named = _named(model)
    return pl.concat(named[column].unique() for column in named.columns).drop_nulls().unique().sort().to_list()


def _named(model: Model) -> pl.DataFrame:
    return model.run.work.select(pl.col("family", "class", "name").cast(pl.String)).with_columns(phase=model.phases)


def _works_named(model: Model, target: str) -> Mask:
    work = _named(model)
    mask: Mask = work.select(pl.any_horizontal(pl.all() == target).fill_null(False)).to_series().to_numpy()
    return mask


def _scaled(lengths: Lengths, nodes: Indices, factor: float | Times) -> Lengths:
    along = lengths.along.copy()
    along[nodes] = _times(along[nodes] * factor)
    return lengths._replace(along=along)


def _times(lengths: npt.NDArray[np.floating[Any]]) -> Times:
    """Return lengths in whole ns. Raises UsageError where they add up to more than a replay can tell apart."""
    if np.abs(lengths).sum() > LONGEST_AXIS:
        raise too_long()
    times: Times = np.rint(lengths).astype(np.int64)
    return times


def _transfer(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Scale the time of collectives and messages after the last rank has come."""
    crossing = lengths.crossing.copy()
    moves = model.graph.edges.kind == EdgeKind.TRANSFER
    crossing[moves] = _times(crossing[moves] * factor)
    alone = end_node(np.flatnonzero((model.run.work["kind"] == NCCL).to_numpy()))
    exchanges = np.flatnonzero(model.graph.along == EdgeKind.EXCHANGE)
    return _scaled(lengths._replace(crossing=crossing), np.concatenate([alone, exchanges]), factor)


def _launch(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Scale the time in launching calls, and from a launch to the begin of its work."""
    crossing = lengths.crossing.copy()
    launches = model.graph.edges.kind == EdgeKind.LAUNCH
    crossing[launches] = _times(crossing[launches] * factor)
    nodes, calls = model.after_calls
    along = lengths.along.copy()
    spared = _times(calls * (1 - factor))
    along[nodes] = np.maximum(along[nodes] - spared, 0)
    return Lengths(along, crossing)


def _host(model: Model, lengths: Lengths, factor: float) -> Lengths:
    """Scale the work of hosts from one instant to the next, of one thread or of two that hand over to each other."""
    crossing = lengths.crossing.copy()
    handed = model.graph.edges.kind == EdgeKind.HANDOVER
    crossing[handed] = _times(crossing[handed] * factor)
    return _scaled(lengths._replace(crossing=crossing), np.flatnonzero(model.graph.along == EdgeKind.HOST), factor)


def find_after_calls(run: Run, graph: Graph) -> AfterCalls:
    """Find the nodes of the host's work that follow CUDA calls."""
    calls = run.calls.filter(pl.col("kind") == "cuda").select("row", "start", ns=pl.col("end") - pl.col("start"))
    nodes = instant_nodes(graph.instants, calls["row"], calls["start"])
    called = calls.select("ns", node=pl.Series(nodes)).filter(pl.col("node") != NO_NODE).unique("node", keep="first")
    following = np.full(len(graph.time) + 1, NO_NODE, dtype=graph.before.dtype)
    chained = np.flatnonzero(graph.before >= 0)
    following[graph.before[chained]] = chained
    after = following[called["node"].to_numpy()]
    own = (after >= 0) & (graph.along[after] == EdgeKind.HOST)
    return AfterCalls(after[own], called["ns"].to_numpy()[own])


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
    works = (graph.along[nodes] == EdgeKind.HOST) & (before >= 0)
    nodes, begin = nodes[works], graph.time[before[works]]
    arrivals = graph.edges.target[graph.edges.kind == EdgeKind.ARRIVAL]
    hubs, arrived = np.unique(arrivals, return_counts=True)
    piece = np.searchsorted(np.unique(graph.time[hubs[arrived >= len(ranks)]]), begin, side="right")
    work = own.filter(pl.Series(works)).select("task", piece=pl.Series(piece), ns=pl.Series(lengths.along[nodes]))
    total = pl.col("ns").sum().over("piece", "task")
    mean = pl.col("ns").sum().over("piece") / len(ranks)
    factors = work.select(pl.when(total > 0).then(1 + (mean / total - 1) * (1 - factor)).otherwise(1.0))
    return _scaled(lengths, nodes, factors.to_series().to_numpy())


def _task_of(model: Model, rank: int, change: str) -> int:
    """Return the task of a rank. Raises UsageError if the run has no such rank."""
    task_by_rank = model.run.task_by_rank
    if rank not in task_by_rank:
        known = ", ".join(map(str, sorted(task_by_rank)))
        raise UsageError(f"--set {short(change)!r}: no rank {rank}; the ranks are {known}")
    return task_by_rank[rank]


def _as_median(model: Model, lengths: Lengths, rank: int) -> Lengths:
    """Scale the kernels of a rank by family, so that they take the lower median of the ranks in all."""
    task = _task_of(model, rank, f"rank {rank}=median")
    chosen = np.flatnonzero(_computing(model))
    ns = pl.Series("ns", model.graph.at_ends(lengths.along)[chosen])
    work = model.run.work.select("task", "family")[chosen].with_columns(ns)
    by_rank = work.group_by("task", "family").agg(own=pl.col("ns").sum())
    usual = by_rank.group_by("family").agg(usual=pl.col("own").quantile(0.5, "lower"))
    both = by_rank.join(usual, on="family")
    slower = (pl.col("task") == task) & (pl.col("own") > 0)
    factors = both.with_columns(factor=pl.when(slower).then(pl.col("usual") / pl.col("own")).otherwise(1.0))
    factor = work.join(factors, on=["task", "family"], maintain_order="left")["factor"]
    return _scaled(lengths, end_node(chosen), factor.to_numpy())
