"""The model of a run on which changes are tried: its graph, with all that the lengths of scenarios are made from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.communication.contention import Slowdown, slowdown
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import EdgeKind
from nsys2prv.analysis.graph.host_delays import host_delays
from nsys2prv.analysis.graph.instants import instant_nodes
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes, begin_node, end_node, work_of_node
from nsys2prv.analysis.iterations import phases
from nsys2prv.analysis.iterations.window import iterations_in_ranges
from nsys2prv.intervals.spans import Times
from nsys2prv.run.iterations.steady import BUILT_IN_WINDOWS, Window


class AfterCalls(NamedTuple):
    """The host's work after CUDA calls: its nodes, and how long the call before each took (ns)."""

    nodes: Nodes
    calls: Times


class Model(NamedTuple):
    """A run that can be replayed: its graph, its host delays (HOST_DELAY), and its iterations.

    `marks`: one row for each `first` and `last` node of an iteration, with its number and repeat, in order of these: it
    lasts from the earliest `first` to the latest `last`; `tails`: of iterations without a next one, on each task,
    number, repeat, `node` of the host's last instant, and `tail_ns` from there to the end of the iteration's range;
    `kept`: the iterations that count, as (number, repeat), empty: all; `phases`: the phase of each work (null: none);
    `slowdown`: contention; `after_calls`: made once, as each replay needs them again; `by_ends`: see last_by_ends.
    """

    run: Run
    graph: Graph
    host_delays: pl.DataFrame
    marks: pl.DataFrame
    tails: pl.DataFrame
    kept: tuple[tuple[int, int], ...]
    phases: pl.Series
    slowdown: Slowdown
    after_calls: AfterCalls
    by_ends: bool


def model_of(run: Run, graph: Graph, main: pl.DataFrame, steps: pl.DataFrame, window: Window, by_ends: bool) -> Model:
    """Prepare a run for predictions.

    `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations; `by_ends`: see last_by_ends.
    """
    numbered = run.work.select("task", "launched").with_row_index("work").cast({"work": pl.Int64})
    launched = phases.projected(numbered, steps).select("work", "number", "repeat")
    slow = slowdown(run, ready_times(graph, graph.time), launched)
    delays, named = host_delays(run, graph, steps), _phases(numbered, main)
    marks, tails, kept = _marks(graph, launched, steps), _tails(graph, steps), window.iterations
    if window.name not in BUILT_IN_WINDOWS:
        marked = set(marks.select("number", "repeat").unique().rows())
        chosen = iterations_in_ranges(steps, phases.occurrences(main, window.name))
        kept = tuple(one for one in chosen if one in marked)
    return Model(run, graph, delays, marks, tails, kept, named, slow, find_after_calls(run, graph), by_ends)


def _marks(graph: Graph, launched: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return `marks` of a model: begin and end of the device work of each iteration; without any, instants of hosts.

    `launched`: work, number and repeat; `steps`: OCCURRENCE.
    """
    if launched.height:
        marks = launched.select("number", "repeat", first=begin_node(pl.col("work")), last=end_node(pl.col("work")))
    else:
        instants = phases.projected(graph.instants.select("task", "node", launched="time"), steps)
        marks = instants.select("number", "repeat", first="node", last="node")
    return marks.sort("repeat", "number")


def _tails(graph: Graph, steps: pl.DataFrame) -> pl.DataFrame:
    """Return `tails` of a model (repeat, number, node, tail_ns). `steps`: OCCURRENCE of all iterations."""
    key = ["repeat", "number"]
    following = steps.select("repeat", pl.col("number") - 1).unique()
    last = steps.join(following, on=key, how="anti")
    # Of millions of instants few are in the last iterations.
    late = graph.instants.select("task", "node", "time").filter(pl.col("time") >= (last["start"].min() or 0))
    within = phases.projected(late.rename({"time": "launched"}), last)
    each = within.group_by("task", *key).agg(pl.col("node", "launched").sort_by("launched").last())
    both = each.join(last, on=["task", *key])
    return both.select(*key, "node", tail_ns=pl.col("end") - pl.col("launched")).sort(*key, "node")


def _phases(work: pl.DataFrame, main: pl.DataFrame) -> pl.Series:
    """Return the phase in which each work was launched, by the outermost range of its task that names one.

    `work`: task and launched of Run.work, with `work`, its index.
    """
    known = pl.Series("phase", list(phases.PHASES), dtype=pl.String)
    # Of ranges with one begin the longest is the outermost.
    named = phases.with_phase(main).sort("task", "start", "end", descending=[False, False, True])
    numbers = dict(zip(known, range(len(known)), strict=True))
    number = pl.col("phase").replace_strict(numbers, return_dtype=pl.Int64)
    ranges = phases.outermost(named, named["task"]).with_columns(number=number, repeat=pl.lit(0, pl.Int64))
    inside = phases.projected(work, ranges.select(*phases.OCCURRENCE)).select("work", "number")
    every = work.select("work").join(inside, on="work", how="left", maintain_order="left")
    return known.gather(every["number"])


def find_after_calls(run: Run, graph: Graph) -> AfterCalls:
    """Find the nodes of the host's work that follow CUDA calls."""
    calls = run.calls.filter(pl.col("kind") == "cuda").select("row", "start", ns=pl.col("end") - pl.col("start"))
    nodes = instant_nodes(graph.instants, calls["row"], calls["start"])
    called = calls.select("ns", node=pl.Series(nodes)).filter(pl.col("node") != NO_NODE).unique("node", keep="first")
    following = np.full(len(graph.time) + 1, NO_NODE, dtype=graph.before.dtype)
    chained = np.flatnonzero(graph.before != NO_NODE)
    following[graph.before[chained]] = chained
    after = following[called["node"].to_numpy()]
    own = (after != NO_NODE) & (graph.along[after] == EdgeKind.HOST)
    return AfterCalls(after[own], called["ns"].to_numpy()[own])


def ready_times(graph: Graph, times: Times) -> Times:
    """Return the time (ns) at which the last rank came to the operation of each device work.

    That of work without an operation is its own begin.
    """
    begin, end = graph.at_begins(times), graph.at_ends(times)
    moves = (graph.edges.kind == EdgeKind.TRANSFER) & graph.is_work(graph.edges.target)
    ready = begin.copy()
    np.maximum.at(ready, work_of_node(graph.edges.target[moves]), times[graph.edges.source[moves]])
    return np.minimum(ready, end)
