"""Delays of host threads: work between two instants that took longer than it does at the same place elsewhere.

The same place is the k-th time that a thread launches the same work, or blocks, in an iteration. What is usual there is
the lower median over the ranks of each rank's median over its iterations, so that two ranks are enough.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import EdgeKind
from nsys2prv.analysis.graph.nodes import NO_NODE
from nsys2prv.analysis.iterations.phases import projected
from nsys2prv.intervals.spans import Times
from nsys2prv.model.schemas import to_schema

# Lowest delay (ns), as a share of what is usual, and as a share of the usual iteration: less than that is jitter.
LEAST_DELAY_NS, LEAST_SHARE_OF_USUAL, LEAST_SHARE_OF_ITERATION = 100_000, 0.5, 0.02
# Lowest number of iterations of a rank from which its usual time is known.
FEWEST_ITERATIONS = 3
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
# The number of the name of work where none is launched.
NO_NAME = -1


def host_delays(run: Run, graph: Graph, steps: pl.DataFrame) -> pl.DataFrame:
    """Return HOST_DELAY of each delayed piece of host work. `steps`: OCCURRENCE of the iterations."""
    instants = projected(_instants(run, graph).with_columns(launched="end"), steps)
    nth = pl.int_range(pl.len()).over("task", "repeat", "number", "thread", "launches")
    # Counted over all instants: a thread's first one has no work before it.
    placed = instants.sort("end").with_columns(nth=nth).filter("host")
    medians = placed.group_by(*_PLACE, "task").agg(own=pl.col("length").median(), count=pl.len())
    known = medians.filter(pl.col("count") >= FEWEST_ITERATIONS)
    usual = known.group_by(_PLACE).agg(usual=pl.col("own").quantile(0.5, "lower"))
    delayed = placed.join(usual, on=_PLACE).with_columns(delay=(pl.col("length") - pl.col("usual")).round())
    lasting = float((steps["end"] - steps["start"]).median() or 0)  # type: ignore[arg-type]
    least = max(LEAST_DELAY_NS, LEAST_SHARE_OF_ITERATION * lasting)
    found = delayed.filter(pl.col("delay") > pl.max_horizontal(pl.lit(least), LEAST_SHARE_OF_USUAL * pl.col("usual")))
    return to_schema(found, HOST_DELAY).sort("start", "row")


def without_delays(delays: pl.DataFrame, along: Times) -> Times:
    """Return the lengths along chains without the delays."""
    shorter = along.copy()
    node = delays["node"].to_numpy()
    shorter[node] = np.maximum(shorter[node] - delays["delay"].to_numpy(), 0)
    return shorter


def _instants(run: Run, graph: Graph) -> pl.DataFrame:
    """Return the instants of host threads, each with the piece of work before it.

    Columns: node, task, row, thread (number in the task), launches (number of the name of the first work that is
    launched there, NO_NAME: none is), start, end, length, and `host`: false without such a piece.
    """
    nodes = graph.instants["node"].to_numpy()
    before = graph.before[nodes]
    return graph.instants.select(
        *("node", "task", "row"),
        (pl.col("row").rank("dense").over("task") - 1).alias("thread"),
        launches=_launches(run, graph),
        start=pl.Series(graph.time[before]),
        end="time",
        length=pl.Series(graph.time[nodes] - graph.time[before]),
        host=pl.Series((graph.along[nodes] == EdgeKind.HOST) & (before != NO_NODE)),
    )


def _launches(run: Run, graph: Graph) -> pl.Series:
    """Return the number of the name of the first work that each instant launches, NO_NAME for none."""
    first = graph.first_launched()
    name = run.work["name"].to_physical().cast(pl.Int64).gather(first["work"])
    named = graph.instants.join(first.select("node", name=name), on="node", how="left", maintain_order="left")
    return named["name"].fill_null(NO_NAME)
