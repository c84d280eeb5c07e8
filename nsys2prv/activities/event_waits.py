"""Lines from the record of a CUDA event to the stream that waits for it.

On the host from cudaEventRecord to cudaStreamWaitEvent; on the device from the end of what was launched into the
recorded stream before to the begin of what was launched into the waiting stream after: the order that it imposed.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.activities.relations import CALL_KEYS, DEVICE_KEYS, DEVICE_TABLES, callers
from nsys2prv.paraver.event_types import EVENT_WAIT_TAG, STREAM_WAIT_TAG
from nsys2prv.report import schema
from nsys2prv.timeline.frames import Messages

# ENUM_CUPTI_SYNC_TYPE of cudaStreamWaitEvent; eventId and eventSyncId of a wait that names no event (the driver's own).
STREAM_WAIT, NO_EVENT = 2, 2**32 - 1
_NAMES_EVENT = (pl.col("syncType") == STREAM_WAIT) & (pl.coalesce("eventSyncId", "eventId") != NO_EVENT)
_STREAM = ["globalPid", "deviceId", "contextId", "streamId"]
_SIDE = ["caller", "called", *_STREAM]


def matched_waits(source: Source) -> pl.DataFrame:
    """One row a stream's wait with its record: the columns of _SIDE, those of the record ending in `_record`.

    By eventSyncId; in exports that lack it a wait is for the last record of its event that was called before. The
    record's own time stands in no column of most versions: it is that of its call.
    """
    waits = _called(source, source.table(schema.SYNCHRONIZATION).filter(_NAMES_EVENT)).drop_nulls("called")
    records = _called(source, source.table(schema.CUDA_EVENT)).drop_nulls("called")
    numbered = records.drop_nulls("eventSyncId").unique(["globalPid", "eventSyncId"], keep="first")
    by_number = waits.drop_nulls("eventSyncId").join(numbered, on=["globalPid", "eventSyncId"], suffix="_record")
    unnumbered = waits.filter(pl.col("eventSyncId").is_null()).sort("called")
    by_event = unnumbered.join_asof(
        records.with_columns(called_record="called").sort("called"),
        on="called",
        by=["globalPid", "eventId"],
        suffix="_record",
        check_sortedness=False,
    ).drop_nulls("called_record")
    # The process is a key of both joins: a wait and its record share it.
    wanted = [*_SIDE, *(f"{c}_record" for c in _SIDE if c != "globalPid")]
    return pl.concat([by_number.select(wanted), by_event.select(wanted)])


def _called(source: Source, records: pl.DataFrame) -> pl.DataFrame:
    records = records.with_columns(pl.col("globalPid", "contextId").fill_null(0))
    own = callers(records, source.table(schema.RUNTIME))
    return pl.concat([records.drop("start", "end", strict=False), own], how="horizontal")


def _order_on_device(source: Source, waits: pl.DataFrame) -> pl.DataFrame:
    """Begin and end of the lines on the device, in the order of `waits`: done, from_place, begun, to_place.

    Null where nothing was launched into the stream before the record, or after the wait.
    """
    columns = ["place", "start", "end", "called", *_STREAM]
    work = pl.concat(source.device_work(t).select(columns) for t in DEVICE_TABLES).drop_nulls("called")
    work = work.with_columns(pl.col("globalPid", "contextId").fill_null(0)).sort("called")
    # Work of one stream may overlap (graph branches): done is when all of it is.
    work = work.with_columns(end=pl.col("end").cum_max().over(_STREAM))
    numbered = waits.with_row_index("wait")
    before = (
        numbered.select("wait", "globalPid", called="called_record", **{c: f"{c}_record" for c in _STREAM[1:]})
        .sort("called")
        .join_asof(work, on="called", by=_STREAM, check_sortedness=False)
        .select("wait", done="end", from_place="place")
    )
    after = (
        numbered.select("wait", "called", *_STREAM)
        .sort("called")
        .join_asof(work, on="called", by=_STREAM, strategy="forward", check_sortedness=False)
        .select("wait", begun="start", to_place="place")
    )
    return before.join(after, on="wait").sort("wait").drop("wait")


def _frames(source: Source) -> Iterator[Messages]:
    waits = matched_waits(source)
    wanted = source.table(schema.SYNCHRONIZATION).filter(_NAMES_EVENT).height
    source.tally.drop("waits for an event whose record is not in the report", wanted - waits.height)
    yield _lines(
        time=waits["called_record"],
        place=source.places.threads(waits["caller_record"]),
        received=waits["called"],
        to_place=source.places.threads(waits["caller"]),
        tag=EVENT_WAIT_TAG,
    )
    order = _order_on_device(source, waits).drop_nulls()
    yield _lines(order["done"], order["from_place"], order["begun"], order["to_place"], STREAM_WAIT_TAG)


def _lines(time: pl.Series, place: pl.Series, received: pl.Series, to_place: pl.Series, tag: int) -> Messages:
    ends = {"time": time, "place": place, "received": received, "to_place": to_place}
    return Messages(pl.DataFrame(ends).with_columns(size=pl.lit(0, pl.Int64), tag=pl.lit(tag, pl.Int64)))


FAMILY = Family(
    name="event_waits",
    title="Lines from CUDA event records to the streams that wait for them",
    draws=(schema.CUDA_EVENT,),
    reads={
        schema.CUDA_EVENT: tuple(schema.CUDA_EVENT.columns),
        schema.SYNCHRONIZATION: (*DEVICE_KEYS, "syncType", "eventId", "eventSyncId"),
        schema.RUNTIME: CALL_KEYS,
        **dict.fromkeys(DEVICE_TABLES, DEVICE_KEYS),
    },
    emits=(),
    frames=_frames,
    makes_rows=False,
)
