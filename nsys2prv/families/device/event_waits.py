"""Lines from the record of a CUDA event to the stream that waits for it.

On the host a line goes from cudaEventRecord to cudaStreamWaitEvent. On the device it goes from the end of the last work
before the record, in its stream, to the begin of the first work after the wait, in the waiting stream.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.families.device.synchronization import EVENT_SYNCHRONIZE, STREAM_WAIT, names_event
from nsys2prv.families.device_work import CALL_KEYS, DEVICE_KEYS, DEVICE_TABLES, callers
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source, after
from nsys2prv.model.frames import HOST_WAIT_EVENT, STREAM_WAIT_EVENT, WAIT_CALL, Messages, WaitCalls
from nsys2prv.model.line_tags import EVENT_WAIT_TAG, STREAM_WAIT_TAG
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

_NAMES_EVENT = (pl.col("syncType") == STREAM_WAIT) & names_event()
_STREAM = ["globalPid", "deviceId", "contextId", "streamId"]
_SIDE = ["caller", "called", *_STREAM]
_EVENT = ["globalPid", "eventId"]
# Columns of a record beside its call: end and place of the last work launched into its stream before it.
_DONE = ("done", "from_place")


class Open(NamedTuple):
    """Rows that later slices need: last work of each stream, last record of each event, waits without work after."""

    work: pl.DataFrame | None = None
    records: pl.DataFrame | None = None
    waits: pl.DataFrame | None = None


def matched_waits(waits: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Match waits with records. A row has the wait's columns, and the record's with `_record` at their end.

    Both have one eventSyncId. A wait without an id belongs to the last earlier record of its event. Most versions have
    no column with the time of a record: it is the time of its call.
    """
    numbered = records.drop_nulls("eventSyncId").unique(["globalPid", "eventSyncId"], keep="first")
    by_number = waits.drop_nulls("eventSyncId").join(numbered, on=["globalPid", "eventSyncId"], suffix="_record")
    unnumbered = waits.filter(pl.col("eventSyncId").is_null()).sort("called")
    by_event = unnumbered.join_asof(
        records.with_columns(called_record="called").sort("called"),
        on="called",
        by=_EVENT,
        suffix="_record",
        check_sortedness=False,
    ).drop_nulls("called_record")
    # The process is a key of both joins: a wait and its record share it.
    wanted = [*_SIDE, *(f"{c}_record" for c in _SIDE if c != "globalPid"), *_DONE]
    return pl.concat([by_number.select(wanted), by_event.select(wanted)])


def _waits(source: Source, wanted: pl.DataFrame) -> pl.DataFrame:
    """Return waits with their call, and an eventSyncId if any record has it: before nsys 2025.3 only waits had ids."""
    waits = _called(source, wanted)
    if source.report.has_column(schema.CUDA_EVENT, "eventSyncId"):
        return waits
    return waits.with_columns(eventSyncId=pl.lit(None, pl.Int64))


def _called(source: Source, records: pl.DataFrame) -> pl.DataFrame:
    records = records.with_columns(pl.col("globalPid", "contextId").fill_null(0))
    own = callers(records, source.table(schema.RUNTIME))
    called = pl.concat([records.drop("start", "end", strict=False), own], how="horizontal")
    return called.drop_nulls("called").select(*_SIDE, "eventId", "eventSyncId")


def _work(source: Source, earlier: pl.DataFrame | None) -> pl.DataFrame:
    """Return launched device work in the order of its calls, with the last of each stream in `earlier` slices.

    Work of one stream may overlap (graph branches): `end` is the time at which all work so far is done.
    """
    columns = ["place", "start", "end", "called", *_STREAM]
    work = pl.concat(source.device_work(t).select(columns) for t in DEVICE_TABLES).drop_nulls("called")
    work = work.with_columns(pl.col("globalPid", "contextId").fill_null(0)).sort("called")
    return after(earlier, work).with_columns(end=pl.col("end").cum_max().over(_STREAM))


def _with_done(records: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Add _DONE to records; null without earlier work in their stream."""
    before = work.select(*_STREAM, "called", done="end", from_place="place").sort("called")
    return records.sort("called").join_asof(before, on="called", by=_STREAM, check_sortedness=False)


def _followed(waits: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Add `begun` and `to_place` to waits: the first later work in the waiting stream; null: none yet."""
    following = work.select(*_STREAM, "called", begun="start", to_place="place").sort("called")
    return waits.sort("called").join_asof(
        following, on="called", by=_STREAM, strategy="forward", check_sortedness=False
    )


def _frames(source: Source, state: Open) -> Frames[Open]:
    """Yield calls that wait, for analysis, then lines from records to waits, and from the work before to that after."""
    wanted = source.table(schema.SYNCHRONIZATION).filter(_NAMES_EVENT)
    work = _work(source, state.work)
    records = after(state.records, _with_done(_called(source, source.table(schema.CUDA_EVENT)), work))
    called = _waits(source, wanted)
    source.tally.count(Loss.NO_WAIT_CALL, wanted.height - called.height)
    waits = matched_waits(called, records)
    source.tally.count(Loss.NO_EVENT_RECORD, called.height - waits.height)
    if source.options.wait_calls:
        by_host = source.table(schema.SYNCHRONIZATION).filter((pl.col("syncType") == EVENT_SYNCHRONIZE) & names_event())
        yield _wait_calls(source, waits, STREAM_WAIT_EVENT)
        yield _wait_calls(source, matched_waits(_waits(source, by_host), records), HOST_WAIT_EVENT)
    yield _lines(
        time=waits["called_record"],
        place=source.places.threads(waits["caller_record"]),
        received=waits["called"],
        to_place=source.places.threads(waits["caller"]),
        tag=EVENT_WAIT_TAG,
    )
    ordering = after(state.waits, waits.select(*_STREAM, "called", *_DONE).drop_nulls("done"))
    followed = _followed(ordering, work)
    order = followed.drop_nulls("begun")
    yield _lines(order["done"], order["from_place"], order["begun"], order["to_place"], STREAM_WAIT_TAG)
    return Open(
        work.unique(_STREAM, keep="last", maintain_order=True),
        records.unique(_EVENT, keep="last", maintain_order=True),
        followed.filter(pl.col("begun").is_null()).select(ordering.columns),
    )


def _wait_calls(source: Source, waits: pl.DataFrame, kind: int) -> WaitCalls:
    """Return waits with their records (see `matched_waits`) as calls that wait."""
    record = waits.select("globalPid", *(pl.col(f"{c}_record").alias(c) for c in _STREAM if c != "globalPid"))
    columns = {
        "time": waits["called"],
        "place": source.places.threads(waits["caller"]),
        "stream": source.places.streams(waits) if kind == STREAM_WAIT_EVENT else None,
        "record_time": waits["called_record"],
        "record_stream": source.places.streams(record),
    }
    made = pl.DataFrame({c: v for c, v in columns.items() if v is not None})
    absent = [pl.lit(None, t).alias(c) for c, t in WAIT_CALL.items() if c not in made.columns and c != "kind"]
    return WaitCalls(made.with_columns(pl.lit(kind, pl.UInt8).alias("kind"), *absent).select(*WAIT_CALL))


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
    state=Open,
    makes_rows=False,
    public=("cuda_events",),
    sliced=True,
    within=True,
)
