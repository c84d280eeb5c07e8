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
from nsys2prv.intervals.spans import Spans, difference, intersection

STARVED, DEPENDENCY, COMMUNICATION = "launch-starved", "dependency", "communication"
HOST_SYNCHRONIZATION, UNEXPLAINED = "host synchronization", "unexplained"
# The column of IDLE_CAUSES that sums up each cause.
COLUMNS = {
    STARVED: "launch_starved_ns",
    DEPENDENCY: "dependency_ns",
    COMMUNICATION: "communication_ns",
    HOST_SYNCHRONIZATION: "host_synchronization_ns",
    UNEXPLAINED: "unexplained_ns",
}
CAUSES = tuple(COLUMNS.values())
# `span`: number of the window's span, null for all of them; the times are ns.
IDLE_CAUSES = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "gpu": pl.Int64(),
    "span": pl.Int64(),
    "idle_ns": pl.Int64(),
    **dict.fromkeys(CAUSES, pl.Int64()),
}
# A part of a device's idle time with one cause. `device`: index in Run.devices; `span`: number of the window's span.
IDLE_PART = {
    "device": pl.Int64(),
    "span": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "cause": pl.String(),
}
_DEPENDS = (EdgeKind.STREAM, EdgeKind.EVENT)


def idle_causes(run: Run, graph: Graph, window: Spans) -> pl.DataFrame:
    """Return IDLE_CAUSES of each device: over the whole window, then by span."""
    every = idle_parts(run, graph, window).with_columns(ns=pl.col("end") - pl.col("start"))
    sums = [pl.col("ns").sum().alias("idle_ns")]
    sums += [pl.col("ns").filter(pl.col("cause") == cause).sum().alias(c) for cause, c in COLUMNS.items()]
    devices = pl.DataFrame(
        [(n, d.rank, d.host, d.gpu) for n, d in enumerate(run.devices)],
        schema={"device": pl.Int64(), "rank": pl.Int64(), "host": pl.String(), "gpu": pl.Int64()},
        orient="row",
    )
    whole = devices.join(every.group_by("device").agg(sums), on="device", how="left")
    whole = whole.with_columns(pl.col("idle_ns", *CAUSES).fill_null(0), span=pl.lit(None, pl.Int64))
    by_span = devices.join(every.group_by("device", "span").agg(sums), on="device")
    both = pl.concat([whole.select("device", *IDLE_CAUSES), by_span.select("device", *IDLE_CAUSES)])
    return both.sort("device", "span").select(pl.col(c).cast(t) for c, t in IDLE_CAUSES.items())


def idle_parts(run: Run, graph: Graph, window: Spans) -> pl.DataFrame:
    """Return IDLE_PART of each device, in order of device and time. The parts of a device fill its idle time."""
    blocked = _blocked(run)
    by_device = parts_by(run.work.with_row_index("work"), "device")
    parts = [pl.DataFrame(schema=IDLE_PART)]
    for number in range(len(run.devices)):
        own = by_device.get(number, run.work.clear().with_row_index("work"))
        idle = difference(window, covered(own, window))
        found = _taken_apart(_before_next(graph, own, idle), blocked)
        span = pl.Series("span", np.searchsorted(window.end, found["end"].to_numpy(), side="left"))
        placed = found.with_columns(span, device=pl.lit(number))
        parts.append(placed.select(pl.col(c).cast(t) for c, t in IDLE_PART.items()))
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
    """Return start, end and cause of the parts of idle times, in order of time."""
    launched = pl.col("launched").clip(pl.col("start"), pl.col("end"))
    cut = gaps.with_columns(until=pl.coalesce(launched, "start"))
    depends = pl.col("bound").is_in([int(kind) for kind in _DEPENDS]) & (pl.col("lag") <= EXPLAINED)
    launching = (pl.col("bound") == int(EdgeKind.LAUNCH)) & (pl.col("lag") <= EXPLAINED)
    after = (
        pl.when(depends).then(pl.lit(DEPENDENCY)).when(launching).then(pl.lit(STARVED)).otherwise(pl.lit(UNEXPLAINED))
    )
    parts = [cut.select("end", start="until", cause=after)]
    threads = cut.partition_by("caller_row", as_dict=True, maintain_order=True)
    for (row,), own in threads.items():
        before = own.filter(pl.col("until") > pl.col("start"))
        left = Spans(before["start"].to_numpy(), before["until"].to_numpy())
        for kind, cause in (("mpi", COMMUNICATION), ("synchronization", HOST_SYNCHRONIZATION)):
            if (spans := blocked.get((row, kind))) is not None:
                parts.append(_of_cause(intersection(left, spans), cause))
                left = difference(left, spans)
        parts.append(_of_cause(left, STARVED))
    every = pl.concat([part.select("start", "end", "cause") for part in parts])
    return every.filter(pl.col("end") > pl.col("start")).sort("start")


def _of_cause(spans: Spans, cause: str) -> pl.DataFrame:
    return pl.DataFrame({"start": spans.start, "end": spans.end}).with_columns(cause=pl.lit(cause))


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
