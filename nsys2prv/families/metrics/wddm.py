"""Packets of the queues by which Windows gives work to a GPU (WDDM), and its paging, on the GPU's metrics row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import TableColumns
from nsys2prv.model.event_types import WDDM_DMA, WDDM_ENGINE, WDDM_PAGING, WDDM_QUEUE
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema
from nsys2prv.report.declaration import Table

QUEUED = ("gpu", "context", "submitSequence")
PAGED = ("gpu", "pagingQueue", "pagingQueuePacket", "sequenceId")
# ENUM_WDDM_VIDMM_OP_TYPE, those that move memory; others are named by their number.
OPERATIONS = {
    112: "Evict and flush", 116: "Page in device", 200: "Close allocation", 206: "Make resident", 207: "Evict",
    208: "Lock in aperture", 209: "Init context allocation", 210: "Reclaim allocation", 211: "Discard allocation",
}  # fmt: skip
# One more than the highest number of ENUM_WDDM_PACKET_TYPE and ENUM_WDDM_ENGINE_TYPE.
PACKETS, ENGINES = 8, 9


def _queues(source: Source, state: None) -> Frames[None]:
    for tables, event_type in ((schema.WDDM_QUEUE, WDDM_QUEUE), (schema.WDDM_DMA, WDDM_DMA)):
        packets = _packets(source, tables, QUEUED)
        frame = packets.with_columns(
            source.places.gpus(packets["gpu"], event_type.key).alias("place"),
            _from_one("engineType", ENGINES).alias(WDDM_ENGINE.key),
            slot=source.slot(event_type.key),
            value=_from_one("packetType", PACKETS),
        )
        yield source.stream_intervals(frame, (WDDM_ENGINE.key,))


def _paging(source: Source, state: None) -> Frames[None]:
    packets = _packets(source, schema.WDDM_PAGING, PAGED)
    number = pl.col("vidMmOpType")
    unknown = pl.format("operation {}", number.fill_null(0))
    name = pl.coalesce(number.replace_strict(OPERATIONS, default=None, return_dtype=pl.String), unknown)
    frame = packets.with_columns(
        source.places.gpus(packets["gpu"], WDDM_PAGING.key).alias("place"),
        slot=source.slot(WDDM_PAGING.key),
        value=source.labels.ids(WDDM_PAGING.key, packets.select(name).to_series()),
    )
    yield source.stream_intervals(frame, ())


def _packets(source: Source, tables: Mapping[str, Table], key: Sequence[str]) -> pl.DataFrame:
    """Pair the start of each packet with its stop: the columns of the start, and `end`.

    Of several with one key the n-th start has the n-th stop. Without its stop a packet lasts to the last event.
    """
    nth = pl.int_range(pl.len()).over(key).alias("nth")
    starts, stops = (source.table(tables[side]).sort("start").with_columns(nth) for side in ("START", "STOP"))
    ends = stops.select(*key, "nth", end="start")
    paired = starts.join(ends, on=[*key, "nth"], how="left", maintain_order="left")
    source.tally.count(Loss.NO_START, stops.height - (paired.height - paired["end"].null_count()))
    source.tally.count(Loss.STILL_OPEN, paired["end"].null_count())
    if not paired["end"].null_count():
        return paired
    return paired.with_columns(pl.col("end").fill_null(pl.max_horizontal("start", pl.lit(source.last))))


def _from_one(column: str, count: int) -> pl.Expr:
    """Return the numbers of an enumeration plus 1, since 0 ends an event; unknown ones are above all others."""
    known = pl.col(column).is_between(0, count - 1)
    return pl.when(known).then(pl.col(column) + 1).otherwise(count + 1)


def _reads(kinds: Sequence[Mapping[str, Table]], key: Sequence[str], more: Sequence[str]) -> TableColumns:
    return {t: ("start", *key, *(more if side == "START" else ())) for kind in kinds for side, t in kind.items()}


QUEUES_FAMILY = Family(
    name="wddm_queues",
    title="WDDM queues",
    draws=(*schema.WDDM_QUEUE.values(), *schema.WDDM_DMA.values()),
    reads=_reads((schema.WDDM_QUEUE, schema.WDDM_DMA), QUEUED, ("packetType", "engineType")),
    emits=(WDDM_QUEUE, WDDM_DMA, WDDM_ENGINE),
    frames=_queues,
    makes_rows=False,
    default=False,
    seen=False,
)
PAGING_FAMILY = Family(
    name="wddm_paging",
    title="WDDM paging",
    draws=tuple(schema.WDDM_PAGING.values()),
    reads=_reads((schema.WDDM_PAGING,), PAGED, ("vidMmOpType",)),
    emits=(WDDM_PAGING,),
    frames=_paging,
    makes_rows=False,
    default=False,
    seen=False,
)
