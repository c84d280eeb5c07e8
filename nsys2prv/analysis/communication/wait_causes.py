"""Causes of waiting: work by which the last rank came later than a rank that waited for it.

The ways to both arrivals are followed back along binding predecessors to the point that they have in common. Both ways
are summed by kind of work. The kinds in which the late rank spent more time made it late. A wait on its way leads on to
the rank that caused that wait.
The excess over a waiting rank is the delay of Boehme et al. (2010, "Identifying the root causes of wait states in
large-scale parallel applications").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.communication.waiting import since_recorded, with_last
from nsys2prv.analysis.frames import NCCL, TEXT, Run
from nsys2prv.analysis.graph.critical_path import COPYING, HOST, UNEXPLAINED, describe_nodes
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import EdgeKind
from nsys2prv.analysis.graph.host_labels import host_labels
from nsys2prv.analysis.graph.instants import instant_nodes
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes, begin_node, end_node, work_of_node
from nsys2prv.analysis.graph.ways import WayLabels, Ways, find_ways
from nsys2prv.analysis.iterations.phases import projected
from nsys2prv.intervals.spans import BEFORE_ALL, Indices, Spans, time_in
from nsys2prv.model.schemas import to_schema

# Waiting by what caused it: `rank` did the work of a `kind` (see critical_path) and `name` (family of kernels, copy,
# range or call of the host). `ns`: waiting charged to it, over all ranks; `ranks`: how many others waited;
# `iterations`: in how many of `of_iterations`.
CAUSE = {
    "rank": pl.Int64(),
    "kind": pl.String(),
    "name": pl.String(),
    "ns": pl.Int64(),
    "ranks": pl.Int64(),
    "iterations": pl.Int64(),
    "of_iterations": pl.Int64(),
}
# Highest number of names that are told apart, and of changes of rank by which one way is followed back.
MOST_NAMES, MOST_RANK_CHANGES = 48, 32
# A wait counts in an iteration from this length on (ns).
SHORTEST_COUNTED_WAIT_NS = 10_000
# Nodes that are named, and waits that are followed back, at a time.
NODES_AT_ONCE, WAITS_AT_ONCE = 1 << 20, 1 << 16

# A part of a way on one task, from node `high` back to the first node of the task there: `sign` is 1 on the way of the
# late rank and -1 on that of the waiting one.
_PART = {"wait": pl.Int64(), "sign": pl.Int64(), "task": pl.Int64(), "high": pl.Int64()}
# Signed time of a way by label (see `_labels`).
_EXCESS = {"wait": pl.Int64(), "task": pl.Int64(), "label": pl.Int16(), "ns": pl.Int64()}


def wait_causes(
    run: Run, graph: Graph, exchanges: pl.DataFrame, main: pl.DataFrame, steps: pl.DataFrame, window: Spans
) -> pl.DataFrame:
    """Return CAUSE of the waiting inside a window, the longest first.

    `exchanges`: EXCHANGE; `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations.
    """
    waits = _waits(run, graph, exchanges, steps, window)
    if waits.is_empty():
        return pl.DataFrame(schema=CAUSE)
    labels, number = _labels(run, graph, host_labels(run, graph, main, steps))
    ways = find_ways(graph, number, labels.height)
    unexplained = labels.select((pl.col("kind") == UNEXPLAINED) & (pl.col("name") == "")).to_series().arg_true()[0]
    parts = [_charged_sums(graph, ways, own, unexplained) for own in waits.iter_slices(WAITS_AT_ONCE)]
    sums, counted, iterations = (pl.concat(part) for part in zip(*parts, strict=True))
    others = pl.col("waiting").filter(pl.col("waiting") != pl.col("task")).n_unique()
    counts = counted.group_by("task", "label").agg(ranks=others, iterations=pl.col("iteration").drop_nulls().n_unique())
    both = sums.group_by("task", "label").agg(pl.col("ns").sum().round())
    both = both.join(counts, on=["task", "label"], how="left").with_columns(
        pl.col("ranks", "iterations").fill_null(0),
        rank=run.rank_of("task"),
        of_iterations=pl.lit(iterations["iteration"].n_unique()),
    )
    named = both.hstack(labels[both["label"]])
    lasting = to_schema(named, CAUSE).filter(pl.col("ns") > 0)
    return lasting.sort("ns", "rank", "kind", "name", descending=[True, False, False, False])


class _ChargedSums(NamedTuple):
    """Some waits, charged to what caused them (see _charged) and summed.

    `sums`: task, label and ns; `counted`: task, label, waiting and iteration of what is long enough to count, each
    once; `iterations`: all of them, each once.
    """

    sums: pl.DataFrame
    counted: pl.DataFrame
    iterations: pl.DataFrame


def _charged_sums(graph: Graph, ways: Ways, waits: pl.DataFrame, unexplained: int) -> _ChargedSums:
    """Charge some waits to what caused them. `unexplained`: the label of what is not explained."""
    parts, rest = _parts(graph, ways, waits)
    excess = [_excess(ways, parts), rest.with_columns(label=pl.lit(unexplained, pl.Int16)).select(*_EXCESS)]
    charged = _charged(waits, pl.concat(excess))
    counted = charged.filter(pl.col("ns") >= SHORTEST_COUNTED_WAIT_NS)
    return _ChargedSums(
        charged.group_by("task", "label").agg(pl.col("ns").sum()),
        counted.select("task", "label", "waiting", "iteration").unique(),
        charged.select("iteration").drop_nulls().unique(),
    )


def _waits(run: Run, graph: Graph, exchanges: pl.DataFrame, steps: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Return a row for each wait with a length inside the window, of which both arrivals have nodes.

    Columns: `wait`, its number; `waiting`, the task; `ns`, its length inside the window; `node` and `late`, the nodes
    at which the waiting task and the late one arrived; `iteration`, the number of the one in which the waiting activity
    was launched (null: none). Where the late activity could begin later than the other one, both nodes are those that
    let them begin (see _could_begin).
    """
    known = since_recorded(run, exchanges)
    since, ready = (time_in(window, known[c].to_numpy()) for c in ("since", "ready"))
    node, calls = begin_node(exchanges["index"].to_numpy()), exchanges["kind"] != NCCL
    node[calls.to_numpy()] = instant_nodes(graph.instants, *exchanges.filter(calls).select("row", "start"))
    begins = exchanges.select(
        *("kind", "index", "task", "start", "last", "waited_for"), node=pl.Series(node), ns=pl.Series(ready - since)
    )
    waits = with_last(begins.filter(pl.col("ns") > 0), begins, late="node")
    waits = waits.filter((pl.col("node") != NO_NODE) & (pl.col("late") != NO_NODE))
    of_work = pl.when(pl.col("kind") == NCCL).then("index")
    called = run.work["launched"].gather(waits.select(of_work).to_series())
    could = _could_begin(run, graph)
    sides = {c: waits[c].to_numpy() for c in ("node", "late")}
    later = graph.time[could[sides["late"]]] > graph.time[could[sides["node"]]]
    numbered = waits.select(
        "ns",
        *(pl.Series(c, np.where(later, could[side], side), dtype=pl.Int64) for c, side in sides.items()),
        waiting="task",
        launched=pl.when(pl.col("kind") == NCCL).then(called).otherwise("start"),
    )
    return _with_iterations(numbered.with_row_index("wait").cast({"wait": pl.Int64}), steps)


def _could_begin(run: Run, graph: Graph) -> Nodes:
    """Return for each node the node that let it begin: for the begin of an NCCL kernel, its launch or earlier work.

    The NCCL kernel before it on its stream does not count: it waited for the same late rank, and does not show when
    the data of this one was ready. What counts is the last other work of the device that was launched before the
    kernel, if that ended before the kernel began and after the kernel's launch. Without earlier work it is the launch.
    Any other node stands for itself, and so does the begin of a kernel whose launch is not known, or beside which other
    work still ran.
    """
    could = np.arange(len(graph.time), dtype=graph.binding.dtype)
    launches = (graph.edges.kind == EdgeKind.LAUNCH) & graph.is_work(graph.edges.target)
    launch_of = np.full(graph.works, NO_NODE, dtype=graph.binding.dtype)
    launch_of[work_of_node(graph.edges.target[launches])] = graph.edges.source[launches]
    work = run.work.select("device", "launched", "start", "end", "kind").with_row_index("work").drop_nulls("launched")
    nccl = pl.col("kind") == NCCL
    others = work.filter(~nccl).sort("launched").select("device", "launched", ended="end", before="work")
    found = work.filter(nccl).sort("launched").join_asof(others, on="launched", by="device", check_sortedness=False)
    ready = found.filter(pl.col("ended").is_null() | (pl.col("ended") <= pl.col("start")))
    ready = ready.with_columns(pl.col("work", "before").cast(pl.Int64))
    begin, alone = begin_node(ready["work"].to_numpy()), ready["before"].is_null().to_numpy()
    last = end_node(ready["before"].fill_null(0).to_numpy())
    called = launch_of[ready["work"].to_numpy()]
    known = called != NO_NODE
    later = alone[known] | (graph.time[called[known]] > graph.time[last[known]])
    could[begin[known]] = np.where(later, called[known], last[known])
    return could


def _with_iterations(waits: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Add `iteration` by the time at which the waiting activity was launched."""
    inside = projected(waits.select("wait", "launched", task="waiting"), steps)
    numbered = inside.select("wait", iteration=pl.struct("repeat", "number").rank("dense"))
    return waits.join(numbered, on="wait", how="left", maintain_order="left").drop("launched")


def _parts(graph: Graph, ways: Ways, waits: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return _PART of both ways of each wait, back to the point in common, and what of the excess is before all parts.

    That rest has wait, task and ns. It is 0 but for ways without a point in common: there, nothing explains that one
    begins later. Each turn of the loop takes one of the two ways back by the part on one task.
    """
    first = ways.first
    late, early = waits["late"].to_numpy().copy(), waits["node"].to_numpy().copy()
    wait, parts = waits["wait"].to_numpy(), [pl.DataFrame(schema=_PART)]
    for _ in range(MOST_RANK_CHANGES):
        begins = first[late], first[early]
        goes_on = [graph.binding[b] != NO_NODE for b in begins]
        before = [np.where(more, graph.time[b], BEFORE_ALL) for more, b in zip(goes_on, begins, strict=True)]
        apart = (begins[0] != begins[1]) & (goes_on[0] | goes_on[1])
        if not apart.any():
            break
        # The way whose part on its task began later goes back.
        steps = apart & (before[0] >= before[1]), apart & (before[0] < before[1])
        for moves, ends, begin, sign in zip(steps, (late, early), begins, (1, -1), strict=True):
            parts.append(_part(graph, wait[moves], sign, ends[moves]))
            ends[moves] = graph.binding[begin[moves]]
    begins = first[late], first[early]
    parts += [_part(graph, wait, sign, ends) for ends, sign in ((late, 1), (early, -1))]
    began = [graph.time[np.where(graph.binding[b] == NO_NODE, b, graph.binding[b])] for b in begins]
    excess = np.where(begins[0] == begins[1], 0, began[0] - began[1])
    rest = pl.DataFrame({"wait": wait, "task": graph.task[late].astype(np.int64), "ns": excess})
    return pl.concat(parts), rest


def _part(graph: Graph, wait: Indices, sign: int, high: Indices) -> pl.DataFrame:
    values = {"wait": wait, "sign": np.full(len(wait), sign), "task": graph.task[high], "high": high}
    return pl.DataFrame(values, schema=_PART)


def _excess(ways: Ways, parts: pl.DataFrame) -> pl.DataFrame:
    """Return _EXCESS of the parts: by how much the late rank's way took longer for each label."""
    wanted, at = np.unique(parts["high"].to_numpy(), return_inverse=True)
    sums, pieces = ways.sums_from(wanted), [pl.DataFrame(schema=_EXCESS)]
    for label in range(sums.shape[1]):
        signed = parts.select("wait", "task", ns=pl.Series(sums[at, label]) * pl.col("sign")).filter(pl.col("ns") != 0)
        by_task = signed.group_by("wait", "task").agg(pl.col("ns").sum())
        pieces.append(by_task.with_columns(label=pl.lit(label, pl.Int16)).select(*_EXCESS))
    return pl.concat(pieces)


def _labels(run: Run, graph: Graph, host: pl.DataFrame) -> tuple[pl.DataFrame, WayLabels]:
    """Return kind and name of the labels, and the label of each node.

    The names with the longest times are told apart, MOST_NAMES of them; the others of their kind share the name ``.
    One label is UNEXPLAINED without a name. `host`: see host_labels.
    """
    parts, key = [], ["kind", "name"]
    for first in range(0, len(graph.time), NODES_AT_ONCE):
        nodes = np.arange(first, min(first + NODES_AT_ONCE, len(graph.time)), dtype=graph.binding.dtype)
        described = describe_nodes(run, graph, nodes).join(host, on="node", how="left", maintain_order="left")
        of_host, of_copy = (pl.col("kind") == kind for kind in (HOST, COPYING))
        name = pl.when(of_host).then("label").when(of_copy).then("name").otherwise("family")
        parts.append(described.select("kind", name=name.fill_null(pl.lit("", TEXT))))
    named = pl.concat(parts)
    length = pl.Series("ns", graph.lag())
    lasting = named.with_columns(length).group_by(key).agg(pl.col("ns").sum())
    known = lasting.with_columns(pl.col(key).cast(pl.String).name.suffix("_text"))
    known = known.sort("ns", "kind_text", "name_text", descending=True).with_columns(
        shown=pl.when(pl.int_range(pl.len()) < MOST_NAMES).then("name_text").otherwise(pl.lit(""))
    )
    shown = known.select(kind="kind_text", name="shown")
    others = pl.DataFrame({"kind": [UNEXPLAINED], "name": [""]})
    labels = pl.concat([shown, others]).unique(maintain_order=True).with_row_index("label").cast({"label": pl.Int16})
    number = shown.join(labels, on=key, maintain_order="left")["label"]
    numbers = known.select(*key, number)
    of_nodes = [
        part.join(numbers, on=key, how="left", maintain_order="left")["label"]
        for part in named.iter_slices(NODES_AT_ONCE)
    ]
    return labels.select(key), pl.concat(of_nodes).to_numpy()


def _charged(waits: pl.DataFrame, excess: pl.DataFrame) -> pl.DataFrame:
    """Return task, label, waiting, iteration and `ns`: the waiting by what made the late rank late, in proportion.

    `excess`: _EXCESS. What the waiting rank's way took longer of is no cause.
    """
    of_label = pl.col("ns").sum().over("wait", "label").clip(0)
    by_task = pl.col("ns").clip(0)
    split = of_label * by_task / by_task.sum().over("wait", "label")
    positive = excess.with_columns(split=pl.when(by_task > 0).then(split).otherwise(0.0)).filter(pl.col("split") > 0)
    shares = positive.with_columns(share=pl.col("split") / pl.col("split").sum().over("wait"))
    both = shares.join(waits.select("wait", "waiting", "iteration", whole="ns"), on="wait")
    return both.select("task", "label", "waiting", "iteration", ns=pl.col("share") * pl.col("whole"))
