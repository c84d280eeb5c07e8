"""Device work of all kinds: its place on a stream, and the call behind it."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.intervals.lanes import LanedIntervals, lanes
from nsys2prv.intervals.shortest import ends_of
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.interning import CLOSE, Places
from nsys2prv.report import schema
from nsys2prv.report.tables import ReadTable

DEVICE_TABLES = (schema.KERNEL, schema.MEMCPY, schema.MEMSET, schema.GRAPH_TRACE)
DEVICE_KEYS = ("start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId")
CALL_KEYS = ("start", "globalTid", "correlationId")
# Columns that `device_work` reads.
DEVICE_WORK_READS = {**dict.fromkeys(DEVICE_TABLES, DEVICE_KEYS), schema.RUNTIME: CALL_KEYS}
NODE_KEYS = ("start", "globalTid", "graphNodeId", "originalGraphNodeId")


def device_work(
    read: ReadTable, places: Places, held: LanedIntervals, merged: bool = False
) -> tuple[dict[str, pl.DataFrame], LanedIntervals]:
    """Return device activity by table, each with `place`, `caller` and `called`; and the lanes now held on streams.

    `place` is the stream, in a lane of its own where activities of one stream overlap each other or those of earlier
    slices, `held`; `merged`: all streams of a process on one device are stream 0, a number that CUDA gives to none.
    `caller` (globalTid) and `called` (ns) name the CUDA call that launched it, by (process, correlationId); null where
    the report has none.
    """
    tables = {t.name: read(t) for t in DEVICE_TABLES}
    keys = pl.concat([f.select(DEVICE_KEYS) for f in tables.values()])
    keys = keys.with_columns(pl.col("globalPid", "contextId").fill_null(0))
    streams = keys.with_columns(contextId=pl.lit(0), streamId=pl.lit(0)) if merged else keys
    place = places.streams(streams)
    group, start = place.cast(pl.Int64).to_numpy(), keys["start"].to_numpy()
    end = ends_of(start, keys["end"].to_numpy())
    lane = lanes(group, start, end, held)
    if lane.any():
        place = places.in_lanes(place, pl.Series(lane))
    found = pl.concat([place.to_frame("place"), callers(keys, read(schema.RUNTIME))], how="horizontal")
    offset, parts = 0, {}
    for name, frame in tables.items():
        parts[name] = pl.concat([frame, found.slice(offset, frame.height)], how="horizontal")
        offset += frame.height
    return parts, held.and_more(LanedIntervals(group, start, end, lane))


def callers(keys: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return thread and time of the call behind each activity, in the order of the activities.

    The first call, should a report have several of one (process, correlationId). Id 0 is none.
    """
    called = calls.select(
        process=process_of(pl.col("globalTid")),
        correlationId="correlationId",
        caller="globalTid",
        called="start",
    ).filter(pl.col("correlationId") != 0)
    wanted = keys.select(process=process_of(pl.col("globalPid")), correlationId="correlationId")
    alone = pl.concat([called["process"], wanted["process"]]).n_unique() == 1
    # In a report of one process the ids alone tell calls apart: they lie close, and are looked up in a third of the
    # time of a join.
    if alone and (found := _by_close_ids(wanted["correlationId"], called)) is not None:
        return found
    key = ["process", "correlationId"]
    joined = wanted.join(called, on=key, how="left", maintain_order="left")
    if joined.height > wanted.height:
        once = called.sort("called").unique(key, keep="first")
        joined = wanted.join(once, on=key, how="left", maintain_order="left")
    return joined.select("caller", "called")


def _by_close_ids(wanted: pl.Series, called: pl.DataFrame) -> pl.DataFrame | None:
    """Return the same as `callers` where ids lie close together; None where they do not."""
    low, high = called["correlationId"].min(), called["correlationId"].max()
    if not isinstance(low, int) or not isinstance(high, int) or high - low > CLOSE * called.height:
        return None
    # From the last call to the first, so that the first call's index stays. The index behind all means no call.
    order = np.argsort(called["called"].to_numpy(), kind="stable")[::-1]
    place = np.full(high - low + 2, called.height, dtype=np.uint32)
    place[called["correlationId"].to_numpy()[order] - low] = order
    ids = wanted.fill_null(low).to_numpy()
    elsewhere = wanted.is_null().to_numpy() | (ids < low) | (ids > high)
    at = place[np.where(elsewhere, high - low + 1, ids - low)]
    found = called.select("caller", "called")
    return pl.concat([found, found.clear(1)])[at]


def original_nodes(read: ReadTable, process: pl.Series, node: pl.Series) -> pl.Series:
    """Return the original of each CUDA graph node, by (globalPid, graphNodeId), that it was cloned from; null: unknown.

    Instantiating a graph clones its nodes: kernels name the clones.
    """
    rows = pl.DataFrame({"process": process_of(process), "node": node})
    clones = read(schema.GRAPH_NODE_EVENTS).drop_nulls("originalGraphNodeId")
    if clones.is_empty():
        return pl.repeat(None, rows.height, dtype=pl.Int64, eager=True)
    named = clones.select(
        process=process_of(pl.col("globalTid")), node="graphNodeId", original="originalGraphNodeId"
    ).unique(["process", "node"], keep="last", maintain_order=True)
    return rows.join(named, on=["process", "node"], how="left", maintain_order="left")["original"]
