"""Instants of host threads at which they launch, block or communicate."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import MPI, Run
from nsys2prv.analysis.graph.nodes import NO_NODE, Nodes
from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Indices, first_of_equals
from nsys2prv.model.schemas import to_schema

# Host instants: `row` is the thread; `launches`: device work is launched here; `ends`: a call ends here that waited or
# communicated; `mpi`: by MPI.
INSTANT = {
    "task": pl.Int64(),
    "row": pl.Int64(),
    "time": pl.Int64(),
    "launches": pl.Boolean(),
    "ends": pl.Boolean(),
    "mpi": pl.Boolean(),
}
# In place of the index of an instant that is not among known ones.
NO_INSTANT = -1


def instants_of(run: Run, blocking: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """Return INSTANT, each once, in order of thread and time. `operations`: see waiting.CARRIED."""
    launches = run.work.select("task", row="caller_row", time="launched").drop_nulls("row")
    calls = operations.filter(pl.col("kind") == MPI).select("index", "task", "start", "end").unique()
    calls = calls.with_columns(row=run.calls["row"].gather(calls["index"]))
    parts = [
        launches.with_columns(launches=True, ends=False, mpi=False),
        *(
            blocking.select("task", "row", time=side, launches=False, ends=side == "end", mpi=False)
            for side in ("start", "end")
        ),
        *(
            calls.select("task", "row", time=side, launches=False, ends=side == "end", mpi=True)
            for side in ("start", "end")
        ),
    ]
    every = pl.concat([to_schema(p, INSTANT) for p in parts])
    # Two sorts by one column each, and a reduction of rows in order: groups of two keys take three times as long.
    ordered = every.sort("time").sort("row", maintain_order=True)
    first = np.flatnonzero(np.logical_or(*(first_of_equals(ordered[c].to_numpy()) for c in ("row", "time"))))
    roles = {c: pl.Series(np.logical_or.reduceat(ordered[c].to_numpy(), first)) for c in ("launches", "ends", "mpi")}
    return ordered.select("row", "time", "task")[first].with_columns(**roles)


def instant_nodes(instants: pl.DataFrame, rows: pl.Series, times: pl.Series) -> Nodes:
    """Return the node of each host instant, by thread and time (NO_NODE: none). `instants`: INSTANT with `node`."""
    # NO_INSTANT is the last one.
    nodes = np.append(instants["node"].to_numpy(), NO_NODE)
    return nodes[known_instants(instants["row"], instants["time"], rows, times)]


def known_instants(rows: pl.Series, times: pl.Series, wanted_rows: pl.Series, wanted_times: pl.Series) -> Indices:
    """Return the index of each wanted instant among known ones (NO_INSTANT: none), by thread and time.

    The known ones come in order of thread and time; of equal ones it is the first.
    """
    row, time, wanted_row, wanted = (s.to_numpy() for s in (rows, times, wanted_rows, wanted_times))
    if not len(row):
        return np.full(len(wanted), NO_INSTANT)
    threads = rows.unique().sort().to_numpy()
    axis = Axis(int(time.min()), int(time.max()), len(threads))
    positions = axis.at(np.searchsorted(threads, row), time)
    at = np.searchsorted(positions, axis.at(np.searchsorted(threads, wanted_row), wanted))
    at = np.minimum(at, len(positions) - 1)
    return np.where((row[at] == wanted_row) & (time[at] == wanted), at, NO_INSTANT)
