"""Delays of host threads: work between two instants that took longer than it does at the same place elsewhere.

The same place is the k-th time that a thread launches the same work, or blocks, in an iteration. What is usual there is
the lower median over the ranks of each rank's median over its iterations, so that two ranks are enough.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.dependencies import Graph
from nsys2prv.analysis.edges import NO_NODE, EdgeKind
from nsys2prv.analysis.frames import Run, parts_by
from nsys2prv.intervals.spans import Times

# Lowest delay (ns), as a share of what is usual, and as a share of the usual iteration: less than that is jitter.
LEAST, SHARE, OF_ITERATION = 100_000, 0.5, 0.02
# Lowest number of iterations of a rank from which its usual time is known.
ENOUGH = 3
# `node`: the instant at the end of the delayed work; `delay`: what exceeds the usual (ns).
HOST_DELAY = {
    "node": pl.Int64(),
    "task": pl.Int64(),
    "repeat": pl.Int64(),
    "number": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "delay": pl.Int64(),
}
_PLACE = ["thread", "launches", "nth"]


def host_delays(run: Run, graph: Graph, steps: pl.DataFrame) -> pl.DataFrame:
    """Return HOST_DELAY of each delayed piece of host work. `steps`: OCCURRENCE of the iterations."""
    pieces = _in_iterations(_pieces(run, graph), steps)
    nth = pl.int_range(pl.len()).over("task", "repeat", "number", "thread", "launches")
    placed = pieces.sort("end").with_columns(nth=nth)
    medians = placed.group_by(*_PLACE, "task").agg(own=pl.col("length").median(), count=pl.len())
    usual = (
        medians.filter(pl.col("count") >= ENOUGH)
        .group_by(_PLACE)
        .agg(usual=pl.col("own").quantile(0.5, "lower"), ranks=pl.len())
    )
    delayed = placed.join(usual, on=_PLACE).with_columns(delay=(pl.col("length") - pl.col("usual")).round())
    lasting = float((steps["end"] - steps["start"]).median() or 0)  # type: ignore[arg-type]
    least = max(LEAST, OF_ITERATION * lasting)
    found = delayed.filter(pl.col("delay") > pl.max_horizontal(pl.lit(least), SHARE * pl.col("usual")))
    return found.select(pl.col(c).cast(t) for c, t in HOST_DELAY.items()).sort("start", "row")


def without_delays(graph: Graph, delays: pl.DataFrame, along: Times) -> Times:
    """Return the lengths along chains without the delays."""
    shorter = along.copy()
    node = delays["node"].to_numpy()
    shorter[node] = np.maximum(shorter[node] - delays["delay"].to_numpy(), 0)
    return shorter


def _pieces(run: Run, graph: Graph) -> pl.DataFrame:
    """Return pieces of host work: node, task, row, thread (number in the task), launches, start, end, length."""
    nodes = graph.instants["node"].to_numpy()
    before = graph.before[nodes]
    launches = graph.edges.kind == EdgeKind.LAUNCH
    source, target = graph.edges.source[launches], graph.edges.target[launches]
    named = pl.DataFrame({"node": source, "launches": run.work["name"].cast(pl.String).gather(target // 2)})
    pieces = graph.instants.select("node", "task", "row", end="time").with_columns(
        start=pl.Series(graph.time[before]), host=pl.Series((graph.along[nodes] == EdgeKind.HOST) & (before != NO_NODE))
    )
    first = named.unique("node", keep="first", maintain_order=True)
    thread = (pl.col("row").rank("dense").over("task") - 1).alias("thread")
    joined = pieces.with_columns(thread).join(first, on="node", how="left", maintain_order="left")
    return joined.filter("host").with_columns(
        length=pl.col("end") - pl.col("start"), launches=pl.col("launches").fill_null("")
    )


def _in_iterations(pieces: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Add the iteration (repeat, number) in which each piece ends; pieces outside of all are left out."""
    parts = [pieces.clear().with_columns(repeat=pl.lit(None, pl.Int64), number=pl.lit(None, pl.Int64))]
    by_task = parts_by(pieces, "task") if pieces.height else {}
    for task, own in parts_by(steps, "task").items():
        if task not in by_task:
            continue
        ends = by_task[task]["end"].to_numpy()
        at = np.searchsorted(own["start"].to_numpy(), ends, side="right") - 1
        step = own.select("repeat", "number", until="end")[np.maximum(at, 0)]
        inside = pl.Series((at >= 0) & (ends <= step["until"].to_numpy()))
        parts.append(by_task[task].with_columns(step["repeat"], step["number"]).filter(inside))
    return pl.concat(parts)
