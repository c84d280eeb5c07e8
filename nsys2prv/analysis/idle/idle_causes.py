"""Idle time of each device taken apart by its cause.

An idle time ends when the next work of the device begins. Until the host launched that work, the device was starved,
unless the launching thread was in a synchronization or in MPI meanwhile; after the launch, the work waited for its
stream, an event or a copy. The parts sum to the idle time.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import MPI, NO_DEVICE, Run, devices_of
from nsys2prv.analysis.graph.critical_path import LONGEST_EXPLAINED_LAG_NS, UNEXPLAINED
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.graph.edges import NO_EDGE, EdgeKind
from nsys2prv.analysis.graph.nodes import begin_node
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import Axis, axis_over
from nsys2prv.intervals.spans import Indices, Spans, difference, intersection, one_span
from nsys2prv.model.schemas import to_schema

LAUNCH_STARVED, DEPENDENCY, COMMUNICATING = "launch-starved", "dependency", "communication"
HOST_SYNCHRONIZATION = "host synchronization"
# The column of IDLE_CAUSES that sums up each cause.
COLUMNS = {
    LAUNCH_STARVED: "launch_starved_ns",
    DEPENDENCY: "dependency_ns",
    COMMUNICATING: "communication_ns",
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
    devices = devices_of(run)
    whole = devices.join(every.group_by("device").agg(sums), on="device", how="left")
    whole = whole.with_columns(pl.col("idle_ns", *CAUSES).fill_null(0), span=pl.lit(None, pl.Int64))
    by_span = devices.join(every.group_by("device", "span").agg(sums), on="device")
    both = pl.concat([whole.select("device", *IDLE_CAUSES), by_span.select("device", *IDLE_CAUSES)])
    return to_schema(both.sort("device", "span"), IDLE_CAUSES)


def idle_parts(run: Run, graph: Graph, window: Spans) -> pl.DataFrame:
    """Return IDLE_PART of each device, in order of device and time. The parts of a device fill its idle time."""
    axis = axis_over(window, len(run.devices))
    columns = run.work.select("device", "start", "end", "launched", "caller_row")
    work = columns.with_row_index("work").sort("device", "start", maintain_order=True)
    idle = difference(axis.spread(window), covered_by(axis, work, "device"))
    found = _taken_apart(run, graph.device_waits, _before_next(graph, work, axis, idle))
    span = pl.Series("span", np.searchsorted(window.end, found["end"].to_numpy(), side="left"))
    return to_schema(found.with_columns(span), IDLE_PART)


def _before_next(graph: Graph, work: pl.DataFrame, axis: Axis, idle: Spans) -> pl.DataFrame:
    """Return device, start and end of each idle time, and launch, thread and binding edge of the device's next work.

    `work`: by device and start, with `work`, its index in Run.work; `idle`: on the axis of the devices.
    """
    device = axis.group(idle.start)
    times = {"start": axis.time(idle.start), "end": axis.time(idle.end)}
    gaps = pl.DataFrame({"device": device, **times})
    at = np.searchsorted(axis.at(work["device"].to_numpy(), work["start"].to_numpy()), idle.end, side="left")
    known = np.append(work["device"].to_numpy(), NO_DEVICE)[at] == device
    if not known.any():
        nothing = pl.lit(None, pl.Int64)
        return gaps.with_columns(launched=nothing, caller_row=nothing, bound=pl.lit(NO_EDGE), lag=pl.lit(0))
    nexts = work.select("work", "launched", "caller_row")[np.where(known, at, 0)]
    node = begin_node(nexts["work"].cast(pl.Int64).to_numpy())
    bound = np.where(known, graph.binds[node], NO_EDGE)
    found = gaps.hstack(nexts.select("launched", "caller_row")).with_columns(
        bound=pl.Series(bound, dtype=pl.Int64), lag=pl.Series(graph.lag(node)), known=pl.Series(known)
    )
    return found.with_columns(pl.when("known").then(c).alias(c) for c in ("launched", "caller_row")).drop("known")


def _taken_apart(run: Run, waits: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Return device, start, end and cause of the parts of idle times, in order of device and time.

    `waits`: see device_waits.
    """
    launched = pl.col("launched").clip(pl.col("start"), pl.col("end"))
    cut = gaps.with_columns(until=pl.coalesce(launched, "start"))
    depends = pl.col("bound").is_in([int(kind) for kind in _DEPENDS]) & (pl.col("lag") <= LONGEST_EXPLAINED_LAG_NS)
    # That lag is the time of the kernel beside.
    depends |= pl.col("bound") == int(EdgeKind.ROOM)
    launching = (pl.col("bound") == int(EdgeKind.LAUNCH)) & (pl.col("lag") <= LONGEST_EXPLAINED_LAG_NS)
    after = (
        pl.when(depends)
        .then(pl.lit(DEPENDENCY))
        .when(launching)
        .then(pl.lit(LAUNCH_STARVED))
        .otherwise(pl.lit(UNEXPLAINED))
    )
    before = cut.filter(pl.col("until") > pl.col("start")).select("device", "caller_row", "start", end="until")
    parts = [cut.select("device", "end", start="until", cause=after), *_before_launch(run, waits, before)]
    every = pl.concat([part.select("device", "start", "end", "cause") for part in parts])
    return every.filter(pl.col("end") > pl.col("start")).sort("device", "start")


def _before_launch(run: Run, waits: pl.DataFrame, idle: pl.DataFrame) -> list[pl.DataFrame]:
    """Take apart idle times (device, caller_row, start, end) before their launch, by what the launching thread did."""
    if idle.is_empty():
        return []
    # A thread may launch on several devices, and a device's work come from several threads.
    pairs = idle.select("device", "caller_row").unique(maintain_order=True)
    pairs = pairs.with_row_index("pair").cast({"pair": pl.Int64})
    borders = int(idle["start"].to_numpy().min()), int(idle["end"].to_numpy().max())
    axis = axis_over(one_span(*borders), pairs.height)
    own = idle.join(pairs, on=["device", "caller_row"], nulls_equal=True).sort("pair", "start")
    # Times of one gap in two spans of the window stay apart.
    left = Spans(*(axis.at(own["pair"].to_numpy(), own[c].to_numpy()) for c in ("start", "end")))
    device, parts = pairs["device"].to_numpy(), []
    # MPI within a synchronization counts as MPI.
    causes = ((run.calls.filter(kind=MPI), COMMUNICATING), (waits, HOST_SYNCHRONIZATION))
    for calls, cause in causes:
        own_calls = calls.join(pairs, left_on="row", right_on="caller_row")
        spans = covered_by(axis, own_calls, "pair")
        parts.append(_of_cause(axis, device, intersection(left, spans), cause))
        left = difference(left, spans)
    return [*parts, _of_cause(axis, device, left, LAUNCH_STARVED)]


def _of_cause(axis: Axis, device: Indices, spans: Spans, cause: str) -> pl.DataFrame:
    own = device[axis.group(spans.start)]
    times = {"start": axis.time(spans.start), "end": axis.time(spans.end)}
    return pl.DataFrame({"device": own, **times}).with_columns(cause=pl.lit(cause))
