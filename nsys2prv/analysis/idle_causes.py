"""Idle time of each device taken apart by its cause.

An idle time ends when the next work of the device begins. Until the host launched that work, the device was starved,
unless the launching thread was in a synchronization or in MPI meanwhile; after the launch, the work waited for its
stream, an event or a copy. The parts sum to the idle time.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.critical_path import EXPLAINED
from nsys2prv.analysis.dependencies import Graph
from nsys2prv.analysis.edges import NO_NODE, EdgeKind
from nsys2prv.analysis.frames import Run, covered, parts_by
from nsys2prv.analysis.host import STREAM_WAIT
from nsys2prv.intervals.spans import Spans, difference, time_in

CAUSES = ("launch_starved_ns", "dependency_ns", "communication_ns", "host_synchronization_ns", "unexplained_ns")
# `span`: number of the window's span, null for all of them; the times are ns.
IDLE_CAUSES = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "gpu": pl.Int64(),
    "span": pl.Int64(),
    "idle_ns": pl.Int64(),
    **dict.fromkeys(CAUSES, pl.Int64()),
}
_DEPENDS = (EdgeKind.STREAM, EdgeKind.EVENT)


def idle_causes(run: Run, graph: Graph, window: Spans) -> pl.DataFrame:
    """Return IDLE_CAUSES of each device: over the whole window, then by span."""
    blocked = _blocked(run)
    by_device = parts_by(run.work.with_row_index("work"), "device")
    parts = [pl.DataFrame(schema=IDLE_CAUSES)]
    for number, device in enumerate(run.devices):
        own = by_device.get(number, run.work.clear().with_row_index("work"))
        idle = difference(window, covered(own, window))
        gaps = _taken_apart(_before_next(graph, own, idle), blocked).with_columns(
            span=pl.Series(np.searchsorted(window.end, idle.end, side="left"))
        )
        sums = [pl.col(c).sum() for c in ("idle_ns", *CAUSES)]
        both = [gaps.select(pl.lit(None, pl.Int64).alias("span"), *sums), gaps.group_by("span").agg(sums).sort("span")]
        named = pl.concat([part.with_columns(pl.col("span").cast(pl.Int64)) for part in both]).with_columns(
            rank=pl.lit(device.rank), host=pl.lit(device.host), gpu=pl.lit(device.gpu)
        )
        parts.append(named.select(pl.col(c).cast(t) for c, t in IDLE_CAUSES.items()))
    return pl.concat(parts)


def _before_next(graph: Graph, own: pl.DataFrame, idle: Spans) -> pl.DataFrame:
    """Return start and end of each idle time, and launch, thread and binding edge of the device's next work."""
    gaps = pl.DataFrame({"start": idle.start, "end": idle.end})
    work = own.sort("start")
    at = np.searchsorted(work["start"].to_numpy(), idle.end, side="left")
    known = at < work.height
    nexts = work.select("work", "launched", "caller_row")[np.where(known, at, 0)] if work.height else None
    if nexts is None:
        nothing = pl.lit(None, pl.Int64)
        return gaps.with_columns(launched=nothing, caller_row=nothing, bound=pl.lit(NO_NODE), lag=pl.lit(0))
    node = 2 * nexts["work"].cast(pl.Int64).to_numpy()
    bound = np.where(known & (graph.binding[node] != NO_NODE), graph.binds[node], NO_NODE)
    lag = graph.time[node] - graph.time[graph.binding[node]]
    found = gaps.hstack(nexts.select("launched", "caller_row")).with_columns(
        bound=pl.Series(bound, dtype=pl.Int64), lag=pl.Series(lag), known=pl.Series(known)
    )
    return found.with_columns(pl.when("known").then(c).alias(c) for c in ("launched", "caller_row")).drop("known")


def _taken_apart(gaps: pl.DataFrame, blocked: dict[tuple[int, str], Spans]) -> pl.DataFrame:
    """Add the causes of each idle time."""
    launched = pl.col("launched").clip(pl.col("start"), pl.col("end"))
    cut = gaps.with_row_index("gap").with_columns(
        until=pl.coalesce(pl.when(pl.col("launched").is_not_null()).then(launched), "start")
    )
    waiting = {kind: np.zeros(gaps.height, dtype=np.int64) for kind in ("mpi", "synchronization")}
    for row, own in parts_by(cut.drop_nulls("caller_row"), "caller_row").items():
        at = own["gap"].to_numpy()
        for kind, times in waiting.items():
            if (spans := blocked.get((row, kind))) is not None:
                times[at] = time_in(spans, own["until"].to_numpy()) - time_in(spans, own["start"].to_numpy())
    before, after = pl.col("until") - pl.col("start"), pl.col("end") - pl.col("until")
    depends = pl.col("bound").is_in([int(kind) for kind in _DEPENDS]) & (pl.col("lag") <= EXPLAINED)
    launching = (pl.col("bound") == int(EdgeKind.LAUNCH)) & (pl.col("lag") <= EXPLAINED)
    starved = before - pl.col("communication_ns") - pl.col("host_synchronization_ns")
    apart = cut.with_columns(
        communication_ns=pl.Series(waiting["mpi"]), host_synchronization_ns=pl.Series(waiting["synchronization"])
    ).with_columns(
        idle_ns=pl.col("end") - pl.col("start"),
        launch_starved_ns=starved + pl.when(launching).then(after).otherwise(0),
        dependency_ns=pl.when(depends).then(after).otherwise(0),
        unexplained_ns=pl.when(depends | launching).then(0).otherwise(after),
    )
    return apart.select("idle_ns", *CAUSES)


def _blocked(run: Run) -> dict[tuple[int, str], Spans]:
    """Return the spans in which each thread waits, by row and kind; MPI within a synchronization counts as MPI."""
    waits = run.calls.filter(
        (pl.col("kind") == "mpi") | ((pl.col("kind") == "synchronization") & (pl.col("name") != STREAM_WAIT))
    ).with_columns(pl.col("kind").cast(pl.String))
    parts = waits.partition_by("row", "kind", as_dict=True)
    spans = {(int(row), str(kind)): covered(part) for (row, kind), part in parts.items()}
    for (row, kind), own in spans.items():
        if kind == "synchronization" and (row, "mpi") in spans:
            spans[row, kind] = difference(own, spans[row, "mpi"])
    return spans
