"""CUDA synchronization of the calling thread: the thing it waits for. Records may name streams without work."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.device_work import CALL_KEYS, callers
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import SYNCHRONIZATION
from nsys2prv.model.frames import HOST_WAIT_CONTEXT, HOST_WAIT_STREAM, WAIT_CALL, WaitCalls
from nsys2prv.model.global_ids import main_thread_of
from nsys2prv.report import schema

# ENUM_CUPTI_SYNC_TYPE; eventId and eventSyncId of a record that names no event.
EVENT_SYNCHRONIZE, STREAM_WAIT, STREAM_SYNCHRONIZE, CONTEXT_SYNCHRONIZE, NO_EVENT = 1, 2, 3, 4, 2**32 - 1
UNKNOWN_SYNC = 5
# Columns that `sync_records` reads.
RECORD = ("start", "end", "globalPid", "correlationId", "syncType", "eventId", "eventSyncId")
# The stream of a record.
STREAM = ("deviceId", "contextId", "streamId")


def sync_records(source: Source) -> pl.DataFrame:
    """Return records of synchronization with `globalTid`, the thread of their call, and `kind`, their syncType.

    CUPTI gives cudaStreamSynchronize the type of a stream that waits, but without an event: there the host waits. A
    record without its call in the report belongs to the main thread, whose id is the process'.
    """
    records = source.table(schema.SYNCHRONIZATION).with_columns(pl.col("globalPid").fill_null(0))
    calling = callers(records, source.table(schema.RUNTIME))
    main_thread = main_thread_of(pl.col("globalPid"))
    without = (pl.col("syncType") == STREAM_WAIT) & ~names_event()
    return pl.concat([records, calling], how="horizontal").with_columns(
        globalTid=pl.coalesce("caller", main_thread),
        kind=pl.when(without).then(STREAM_SYNCHRONIZE).otherwise("syncType"),
    )


def names_event() -> pl.Expr:
    """Return True for records of an event (null: the report does not say)."""
    return pl.coalesce("eventSyncId", "eventId") != NO_EVENT


def _wait_calls(source: Source, records: pl.DataFrame) -> WaitCalls:
    """Return the records in which a host thread waits for a stream or a context."""
    kinds = {STREAM_SYNCHRONIZE: HOST_WAIT_STREAM, CONTEXT_SYNCHRONIZE: HOST_WAIT_CONTEXT}
    waits = records.filter(pl.col("kind").is_in(list(kinds)))
    placed = waits.with_columns(
        source.places.threads(waits["globalTid"]).alias("place"), source.places.streams(waits).alias("stream")
    )
    return WaitCalls(
        placed.select(
            kind=pl.col("kind").replace_strict(kinds, return_dtype=pl.UInt8),
            time=pl.coalesce("called", "start"),
            place="place",
            stream="stream",
            **{c: pl.lit(None, WAIT_CALL[c]) for c in ("record_time", "record_stream")},
        )
    )


def _frames(source: Source, state: None) -> Frames[None]:
    kind, records = pl.col("kind"), sync_records(source)
    if source.options.wait_calls:
        yield _wait_calls(source, records)
    frame = records.with_columns(
        slot=source.slot(SYNCHRONIZATION.key),
        value=pl.when(kind.is_between(1, 4)).then(kind).otherwise(UNKNOWN_SYNC),
    )
    yield source.thread_intervals(frame)


FAMILY = Family(
    name="synchronization",
    title="CUDA synchronization",
    draws=(schema.SYNCHRONIZATION,),
    reads={
        schema.SYNCHRONIZATION: (*RECORD, *STREAM),
        schema.RUNTIME: CALL_KEYS,
    },
    emits=(SYNCHRONIZATION,),
    frames=_frames,
    sliced=True,
    calls="synchronization",
)
