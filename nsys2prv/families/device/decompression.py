"""Decompression of memory by the GPU's own engine, on the stream that asked for it."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.device_work import DEVICE_KEYS
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import DECOMPRESSED_BYTES, DECOMPRESSION
from nsys2prv.report import schema


def _frames(source: Source, state: None) -> Frames[None]:
    batches = source.table(schema.DECOMPRESSION)
    frame = batches.with_columns(
        source.places.streams(batches).alias("place"),
        pl.col("sourceBytes").alias(DECOMPRESSED_BYTES.key),
        slot=source.slot(DECOMPRESSION.key),
        # 0 ends an event.
        value=pl.col("NumberOfOperations").clip(lower_bound=1),
    )
    yield source.stream_intervals(frame, (DECOMPRESSED_BYTES.key,))


FAMILY = Family(
    name="decompression",
    title="Memory decompression",
    draws=(schema.DECOMPRESSION,),
    reads={schema.DECOMPRESSION: (*DEVICE_KEYS, "sourceBytes", "NumberOfOperations")},
    emits=(DECOMPRESSION, DECOMPRESSED_BYTES),
    frames=_frames,
    seen=False,
    sliced=True,
)
