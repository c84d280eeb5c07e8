"""UCX calls of host threads (UCP). Calls that submit or progress a message have size and peer."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.calls import UNNAMED, on_threads
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import UCX_BYTES, UCX_CALL, UCX_PEER
from nsys2prv.report import schema

COLUMNS = ("start", "end", "globalTid", "textId")
MESSAGE_COLUMNS = (*COLUMNS, "packedSize", "peerWorkerUid")


def _frames(source: Source, state: None) -> Frames[None]:
    messages = [source.table(t).select(MESSAGE_COLUMNS) for t in (schema.UCP_SUBMIT, schema.UCP_PROGRESS)]
    calls = pl.concat([*messages, source.table(schema.UCP_OTHER).select(COLUMNS)], how="diagonal")
    calls = on_threads(source, calls)
    # Identities of workers are 64-bit numbers: too large for a value.
    peer = calls.select(pl.format("worker {}", "peerWorkerUid").alias("peer"))["peer"]
    yield source.thread_intervals(
        calls.with_columns(
            source.slot(UCX_CALL.key),
            source.label_ids(UCX_CALL.key, calls["textId"], lambda text: text.fill_null(UNNAMED)).alias("value"),
            pl.col("packedSize").alias(UCX_BYTES.key),
            source.labels.ids(UCX_PEER.key, peer).alias(UCX_PEER.key),
        ),
        (UCX_BYTES.key, UCX_PEER.key),
    )


FAMILY = Family(
    name="ucx",
    title="UCX calls",
    draws=(schema.UCP_SUBMIT, schema.UCP_PROGRESS, schema.UCP_OTHER),
    reads={schema.UCP_SUBMIT: MESSAGE_COLUMNS, schema.UCP_PROGRESS: MESSAGE_COLUMNS, schema.UCP_OTHER: COLUMNS},
    emits=(UCX_CALL, UCX_BYTES, UCX_PEER),
    frames=_frames,
    seen=False,
    sliced=True,
)
