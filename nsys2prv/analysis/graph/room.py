"""Kernels that wait for room on their device: another stream's kernel had taken all multiprocessors before.

A grid with a block or more for each multiprocessor may leave none free until some of its last blocks end, and none of
them gives way before. So a kernel of another stream, such as one of NCCL, begins shortly before the end of a kernel of
many short blocks, and up to a quarter before that of one with a block for each multiprocessor. In three captures of
H200, 660 of 667 kernels that began 20 us or more later than all else allowed did so beside such a kernel.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import COPY, KERNEL, Run
from nsys2prv.analysis.graph.device_order import MOST_OVERLAP
from nsys2prv.analysis.graph.edges import LONGEST_FOLLOWING_LAG_NS, NO_EDGE, USUAL_LAG, EdgeKind, Edges, edges_of
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes, at_begins, begin_node
from nsys2prv.analysis.work_attributes import blocks_of
from nsys2prv.intervals.spans import Times

# Work that begins so much later than all that it is known to wait for allows has waited for something else (ns).
LEAST_WAIT_NS = 20_000


def room_edges(run: Run, time: Times, binding: Nodes, binds: Nodes) -> Edges:
    """Return edges from the begins of kernels that filled a device to begins of work that waited beside them.

    Such work could have begun while the kernel ran, began in its last half or at once when it ended, and is of the same
    process. `time`, `binding` and `binds`: of each node, without these edges. Devices of unknown size have none.
    """
    kernels = run.work.select("task", "device", "row", "start", "end", "kind", "shape").with_row_index("work")
    sizes = [(n, one.capacity.multiprocessors) for n, one in enumerate(run.hardware) if one.capacity.multiprocessors]
    known = pl.DataFrame(sizes, schema={"device": pl.Int64, "multiprocessors": pl.Int64}, orient="row")
    length = pl.col("end") - pl.col("start")
    long = kernels.filter(pl.col("kind") == KERNEL, length >= LEAST_WAIT_NS, pl.col("shape").is_not_null())
    full = long.join(known, on="device").filter(blocks_of(pl.col("shape")) >= pl.col("multiprocessors"))
    beside = full.select("task", "device", beside="row", ready="start", began="start", ended="end", source="work")
    waiting = kernels.with_columns(ready=pl.Series(_ready(time, binding, binds, run.work.height)))
    waiting = waiting.filter(pl.col("kind") != COPY, pl.col("start") - pl.col("ready") >= LEAST_WAIT_NS)
    pairs = waiting.sort("ready", "work").join_asof(
        beside.sort("ready", "source"), on="ready", by=["task", "device"], check_sortedness=False
    )
    early, ran = pl.col("ended") - pl.col("start"), pl.col("ended") - pl.col("began")
    found = pairs.drop_nulls("source").filter(
        pl.col("row") != pl.col("beside"), early.is_between(-LONGEST_FOLLOWING_LAG_NS, MOST_OVERLAP * ran)
    )
    source, target = (found[c].cast(pl.Int64).to_numpy() for c in ("source", "work"))
    return edges_of(begin_node(source), begin_node(target), EdgeKind.ROOM)


def _ready(time: Times, binding: Nodes, binds: Nodes, works: int) -> Times:
    """Return when each of `works` rows of Run.work could begin by its binding edge; its begin without one."""
    start, before, kind = (at_begins(values, works) for values in (time, binding, binds))
    allowed = time[before] + USUAL_LAG[np.where(kind == NO_EDGE, 0, kind)]
    return np.where(before == NO_NODE, start, np.minimum(allowed, start))
