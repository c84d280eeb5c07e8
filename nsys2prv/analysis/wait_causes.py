"""Causes of waiting: work by which the last rank came later than a rank that waited for it.

The ways to both arrivals are followed back along binding predecessors to the point that they have in common. Both ways
are summed by kind of work. The kinds in which the late rank spent more time made it late. A wait on its way leads on to
the rank that caused that wait.
The excess over a waiting rank is the delay of Boehme et al. (2010, "Identifying the root causes of wait states in
large-scale parallel applications").
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.critical_path import HOST, UNEXPLAINED, describe_nodes
from nsys2prv.analysis.dependencies import Graph
from nsys2prv.analysis.edges import NO_NODE, EdgeKind
from nsys2prv.analysis.frames import NCCL, Run
from nsys2prv.analysis.host_labels import host_labels
from nsys2prv.analysis.instants import instant_nodes
from nsys2prv.analysis.phases import projected
from nsys2prv.intervals.spans import Indices, Spans, Times, time_in

# Waiting by what caused it: `rank` did the work of a `kind` (see critical_path) and `name` (family of kernels, range or
# call of the host). `ns`: waiting charged to it, over all ranks; `ranks`: how many others waited; `iterations`: in how
# many of `of_iterations`.
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
NAMES, CHANGES = 48, 32
# A wait counts in an iteration from this length on (ns).
COUNTS = 10_000

# A part of a way on one task, from node `high` back to the first node of the task there: `sign` is 1 on the way of the
# late rank and -1 on that of the waiting one.
_PART = {"wait": pl.Int64(), "sign": pl.Int64(), "task": pl.Int64(), "high": pl.Int64()}


def wait_causes(
    run: Run, graph: Graph, found: pl.DataFrame, main: pl.DataFrame, steps: pl.DataFrame, window: Spans
) -> pl.DataFrame:
    """Return CAUSE of the waiting inside a window, the longest first.

    `found`: EXCHANGE; `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations.
    """
    waits = _waits(run, graph, found, window)
    if waits.is_empty():
        return pl.DataFrame(schema=CAUSE)
    parts, rest = _parts(graph, waits)
    host = host_labels(run, graph, main, steps)
    charged = _charged(waits, pl.concat([_excess(run, graph, parts, host), rest]))
    placed = charged.join(_iterations(run, waits, steps), on="wait", maintain_order="left")
    ranks = {task: run.rank(task) for task in range(len(run.tasks))}
    counts = pl.col("ns") >= COUNTS
    sums = placed.group_by("task", "kind", "name").agg(
        pl.col("ns").sum().round(),
        ranks=pl.col("waiting").filter(counts & (pl.col("waiting") != pl.col("task"))).n_unique(),
        iterations=pl.col("iteration").filter(counts).drop_nulls().n_unique(),
    )
    named = sums.with_columns(
        rank=pl.col("task").replace_strict(ranks, return_dtype=pl.Int64),
        of_iterations=pl.lit(placed["iteration"].drop_nulls().n_unique()),
    )
    lasting = named.select(pl.col(c).cast(t) for c, t in CAUSE.items()).filter(pl.col("ns") > 0)
    return lasting.sort("ns", "rank", "kind", "name", descending=[True, False, False, False])


def _waits(run: Run, graph: Graph, found: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Return wait (number), waiting (task), launched, ns inside the window, and the nodes of both arrivals."""
    start, ready = (time_in(window, found[c].to_numpy()) for c in ("start", "ready"))
    begin = pl.Series(instant_nodes(graph.instants, found["row"], found["start"]))
    node = found.select(pl.when(pl.col("kind") == NCCL).then(2 * pl.col("index")).otherwise(begin)).to_series()
    could = pl.Series(_could_begin(run, graph)).gather(node.clip(0))
    begins = found.with_columns(node=node, could=could, ns=pl.Series(ready - start))
    arrivals = begins.select("kind", waited_for="task", last="start", late="node", late_could="could").unique(
        ["kind", "waited_for", "last"], keep="first", maintain_order=True
    )
    waits = begins.filter(pl.col("ns") > 0).join(arrivals, on=["kind", "waited_for", "last"], maintain_order="left")
    launches = run.work.select("launched").with_row_index("index").cast({"index": pl.Int64})
    called = waits.select("index").join(launches, on="index", how="left", maintain_order="left")["launched"]
    times = {c: pl.Series(graph.time).gather(waits[c]) for c in ("could", "late_could")}
    later = times["late_could"] > times["could"]
    return (
        waits.with_columns(launched=pl.when(pl.col("kind") == NCCL).then(called).otherwise("start"))
        .with_columns(
            pl.when(later).then(both).otherwise(begin).alias(begin)
            for begin, both in (("node", "could"), ("late", "late_could"))
        )
        .filter((pl.col("node") != NO_NODE) & (pl.col("late") != NO_NODE))
        .with_row_index("wait")
        .select(pl.col("wait").cast(pl.Int64), "launched", "ns", "node", "late", waiting="task")
    )


def _could_begin(run: Run, graph: Graph) -> Indices:
    """Return for each begin of an NCCL kernel the node from which on it could begin: its launch, or the work before.

    A collective also follows the one before on its stream, which waited for the same late rank: that does not say why
    its own data came when they did. The last other work that was launched before it does, if it ended before.
    """
    could = np.arange(len(graph.time))
    launches = (graph.edges.kind == EdgeKind.LAUNCH) & (graph.edges.target < 2 * graph.works)
    instant = np.full(2 * graph.works, NO_NODE)
    instant[graph.edges.target[launches]] = graph.edges.source[launches]
    work = run.work.select("device", "launched", "start", "end", "kind").with_row_index("work").sort("launched")
    nccl = pl.col("kind") == NCCL
    others = work.filter(~nccl).drop_nulls("launched").select("device", "launched", ended="end", before="work")
    found = (
        work.filter(nccl).drop_nulls("launched").join_asof(others, on="launched", by="device", check_sortedness=False)
    )
    ready = found.filter(pl.col("ended") <= pl.col("start"))
    begin, last = 2 * ready["work"].cast(pl.Int64).to_numpy(), 2 * ready["before"].cast(pl.Int64).to_numpy() + 1
    called = instant[begin]
    known = called != NO_NODE
    later = graph.time[called[known]] > graph.time[last[known]]
    could[begin[known]] = np.where(later, called[known], last[known])
    return could


def _iterations(run: Run, waits: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return wait, waiting, and `iteration`: a number of the iteration in which it was launched (null: none)."""
    inside = projected(waits.select("wait", "launched", task="waiting"), steps)
    numbered = inside.select("wait", iteration=pl.struct("repeat", "number").rank("dense"))
    return waits.select("wait", "waiting").join(numbered, on="wait", how="left", maintain_order="left")


def _first_of_task(graph: Graph) -> Indices:
    """Return for each node the first one on its way that follows from no other of the same task."""
    nodes = np.arange(len(graph.time))
    own = (graph.binding != NO_NODE) & (graph.task[graph.binding] == graph.task)
    first = np.where(own, graph.binding, nodes)
    while not np.array_equal(further := first[first], first):
        first = further
    return first


def _parts(graph: Graph, waits: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return _PART of both ways of each wait back to the point in common, and the excess before it by task.

    Where the ways have no point in common, the later begin of one is not explained.
    """
    first = _first_of_task(graph)
    late, early = waits["late"].to_numpy().copy(), waits["node"].to_numpy().copy()
    wait, parts = np.arange(waits.height), [pl.DataFrame(schema=_PART)]
    for _ in range(CHANGES):
        begins = first[late], first[early]
        before = [np.where(graph.binding[b] == NO_NODE, -1, graph.time[b]) for b in begins]
        apart = (begins[0] != begins[1]) & ((before[0] >= 0) | (before[1] >= 0))
        if not apart.any():
            break
        # The way that changes rank later steps back.
        steps = apart & (before[0] >= before[1]), apart & (before[0] < before[1])
        for moves, ends, begin, sign in zip(steps, (late, early), begins, (1, -1), strict=True):
            parts.append(_part(graph, wait[moves], sign, ends[moves]))
            ends[moves] = graph.binding[begin[moves]]
    begins = first[late], first[early]
    parts += [_part(graph, wait, sign, ends) for ends, sign in ((late, 1), (early, -1))]
    began = [graph.time[np.where(graph.binding[b] == NO_NODE, b, graph.binding[b])] for b in begins]
    rest = pl.DataFrame(
        {"wait": wait, "task": graph.task[late], "ns": np.where(begins[0] == begins[1], 0, began[0] - began[1])}
    )
    return pl.concat(parts), rest.select("wait", "task", kind=pl.lit(UNEXPLAINED), name=pl.lit(""), ns="ns")


def _part(graph: Graph, wait: Indices, sign: int, high: Indices) -> pl.DataFrame:
    values = {"wait": wait, "sign": np.full(len(wait), sign), "task": graph.task[high], "high": high}
    return pl.DataFrame(values, schema=_PART)


def _excess(run: Run, graph: Graph, parts: pl.DataFrame, host: pl.Series) -> pl.DataFrame:
    """Return wait, task, kind, name and `ns`: signed time of the parts."""
    labels, number = _labels(run, graph, host)
    length = np.where(graph.binding == NO_NODE, 0, graph.time - graph.time[graph.binding])
    wanted, at = np.unique(parts["high"].to_numpy(), return_inverse=True)
    pieces = []
    for label in range(labels.height):
        times = _sums_of_task(graph, np.where(number == label, length, 0), wanted)[at]
        signed = parts.select("wait", "task", ns=pl.Series(times) * pl.col("sign"))
        nonzero = signed.filter(pl.col("ns") != 0).group_by("wait", "task").agg(pl.col("ns").sum())
        kind, name = labels.row(label)
        pieces.append(nonzero.select("wait", "task", pl.lit(kind).alias("kind"), pl.lit(name).alias("name"), "ns"))
    return pl.concat(pieces)


def _labels(run: Run, graph: Graph, host: pl.Series) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
    """Return kind and name of the labels, the longest first and names beyond NAMES as ``, and each node's label."""
    nodes = np.arange(len(graph.time))
    described = describe_nodes(run, graph, nodes)
    name = pl.when(pl.col("kind") == HOST).then(host.alias("host")).otherwise("family").fill_null("")
    named = described.select("kind", name=name, ns=pl.Series(graph.time - graph.time[graph.binding]))
    known = named.group_by("kind", "name").agg(pl.col("ns").sum()).sort("ns", "kind", "name", descending=True)
    kept = known.head(NAMES).select("kind", "name", kept="name")
    shown = named.join(kept, on=["kind", "name"], how="left", maintain_order="left")
    shown = shown.select("kind", name=pl.col("kept").fill_null(""))
    labels = shown.unique(maintain_order=True).with_row_index("label")
    number = shown.join(labels, on=["kind", "name"], how="left", maintain_order="left")["label"]
    return labels.select("kind", "name"), number.cast(pl.Int64).to_numpy()


def _sums_of_task(graph: Graph, lengths: Times, wanted: Indices) -> Times:
    """Return the sum of lengths on the way from each wanted node back to the first node of its task, both included."""
    count = len(graph.time)
    own = (graph.binding != NO_NODE) & (graph.task[graph.binding] == graph.task)
    # The last place stands for the end of a way.
    up, sums = np.append(np.where(own, graph.binding, count), count), np.append(lengths, 0)
    while (up[:-1] != count).any():
        sums, up = sums + sums[up], up[up]
    result: Times = sums[wanted]
    return result


def _charged(waits: pl.DataFrame, excess: pl.DataFrame) -> pl.DataFrame:
    """Return wait, task, kind, name and `ns`: the waiting by what made the late rank late, in proportion.

    What the waiting rank's way took longer of is no cause.
    """
    of_kind = pl.col("ns").sum().over("wait", "kind", "name").clip(0)
    by_task = pl.col("ns").clip(0)
    split = of_kind * by_task / by_task.sum().over("wait", "kind", "name")
    positive = excess.with_columns(split=pl.when(by_task > 0).then(split).otherwise(0.0)).filter(pl.col("split") > 0)
    shares = positive.with_columns(share=pl.col("split") / pl.col("split").sum().over("wait"))
    both = shares.join(waits.select("wait", whole="ns"), on="wait")
    return both.select("wait", "task", "kind", "name", ns=pl.col("share") * pl.col("whole"))
