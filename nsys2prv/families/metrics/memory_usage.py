"""Memory that a process holds on a GPU, by kind, as counters on its metrics row: allocated less freed."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source, after
from nsys2prv.model.event_types import MEMORY_IN_USE
from nsys2prv.model.frames import Samples
from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

# ENUM_CUDA_DEV_MEM_EVENT_OPER; ENUM_CUDA_MEM_KIND of memory of a kind that the profiler does not know.
ALLOCATED, UNKNOWN_KIND = 0, 7
# Kinds of static variables (device, managed): the profiler also states them for devices that the process does not use.
STATIC = (5, 6)
GPU_COLUMNS = ("globalPid", "deviceId")
# A device by the number that the process of an id gives it.
_DEVICE = {"pid": pl.Int64(), "deviceId": pl.Int64()}
_PID = pid_of(pl.col("globalPid")).alias("pid")
_USE = dict.fromkeys([*GPU_COLUMNS, "kind", "used"], pl.Int64())


class Allocated(NamedTuple):
    """Memory in use after a slice: the allocations of blocks that were not freed, and bytes by GPU and kind.

    `touched`: see _touched; None: not looked for yet.
    """

    blocks: pl.DataFrame | None = None
    in_use: pl.DataFrame = pl.DataFrame(schema=_USE)
    touched: pl.DataFrame | None = None


def _frames(source: Source, state: Allocated) -> Frames[Allocated]:
    """Yield the bytes in use by kind, for each GPU of a process."""
    touched = _touched(source) if state.touched is None else state.touched
    changes, blocks = _changes(source, state.blocks, touched)
    in_use = _after(state.in_use, changes)
    changes = changes.join(state.in_use, on=[*GPU_COLUMNS, "kind"], how="left", maintain_order="left")
    for _, part in changes.group_by(GPU_COLUMNS, maintain_order=True):
        kinds = sorted(part["kind"].unique())
        columns = [MEMORY_IN_USE[kind].key for kind in kinds]
        sums = [
            pl.when(pl.col("kind") == kind)
            .then(pl.when(pl.col("kind") == kind).then("change").otherwise(0).cum_sum() + pl.col("used").fill_null(0))
            .alias(MEMORY_IN_USE[kind].key)
            for kind in kinds
        ]
        # Of several changes at one time, the value after the last one counts.
        by_time = part.with_columns(sums).group_by("start", maintain_order=True)
        samples = by_time.agg(pl.col(columns).drop_nulls().last(), pl.col(GPU_COLUMNS).first())
        places = samples.select(*GPU_COLUMNS, lane=pl.lit(0, pl.Int64))
        yield Samples(
            samples.select(
                pl.col("start").alias("time"), source.places.devices(places, FAMILY.name).alias("place"), *columns
            ),
            tuple(columns),
        )
    return Allocated(blocks, in_use, touched)


def _touched(source: Source) -> pl.DataFrame:
    """Return (pid, deviceId), each once: devices on which a process has a context, or memory that is not static."""
    contexts = pl.DataFrame(source.report.identity.contexts, schema=_DEVICE, orient="row")
    pieces = source.pieces(schema.MEMORY_USAGE, (*GPU_COLUMNS, "memKind"))
    others = (p.filter(~pl.col("memKind").is_in(STATIC)).select(_PID, "deviceId") for p in pieces)
    return pl.concat([contexts, *others]).unique()


def _of_touched(source: Source, events: pl.DataFrame, touched: pl.DataFrame) -> pl.DataFrame:
    """Leave out and count static variables on devices that their process, which uses others, does not use."""
    devices = events.select(*GPU_COLUMNS, _PID).unique()
    idle = devices.join(touched, on=list(_DEVICE), how="anti").join(touched, on="pid", how="semi")
    kept = events.join(idle, on=GPU_COLUMNS, how="anti", maintain_order="left") if idle.height else events
    source.tally.count(Loss.STATIC_ELSEWHERE, events.height - kept.height)
    return kept


def _changes(source: Source, blocks: pl.DataFrame | None, touched: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return allocations and frees in time order with `kind` and `change` (bytes), and the blocks left to later slices.

    A free subtracts the bytes of its allocation, which may be among the `blocks` of earlier slices.
    """
    own = _of_touched(source, source.table(schema.MEMORY_USAGE), touched)
    events = own.sort("start", maintain_order=True).with_columns(here=pl.lit(True))
    given = pl.col("memoryOperationType") == ALLOCATED
    block = [*GPU_COLUMNS, "address"]
    events = after(blocks, events)
    # Blocks that a later slice may free: their last event is an allocation.
    last = events.unique(block, keep="last", maintain_order=True).filter(given)
    left = last.with_columns(here=pl.lit(False))
    paired = events.with_columns(
        given=given,
        # Allocations and frees of one address alternate.
        pairs=given.shift(1).over(block).fill_null(False),
        bytes=pl.when(given).then("bytes").otherwise(pl.col("bytes").shift(1).over(block)),
        kind=pl.when(given).then("memKind").otherwise(pl.col("memKind").shift(1).over(block)),
    )
    paired = paired.filter("here")
    known = paired.filter(pl.col("given") | pl.col("pairs"))
    source.tally.count(Loss.ALLOCATED_BEFORE, paired.height - known.height)
    changes = known.with_columns(
        pl.when(pl.col("kind").is_between(0, UNKNOWN_KIND)).then("kind").otherwise(UNKNOWN_KIND).alias("kind"),
        change=pl.when("given").then("bytes").otherwise(-pl.col("bytes")),
    )
    return changes, left


def _after(in_use: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Return the bytes in use after some changes."""
    more = changes.select(*GPU_COLUMNS, "kind", used="change")
    return pl.concat([in_use, more]).group_by(*GPU_COLUMNS, "kind").agg(pl.col("used").sum())


FAMILY = Family(
    name="memory_usage",
    title="Device memory in use",
    draws=(schema.MEMORY_USAGE,),
    reads={schema.MEMORY_USAGE: ("start", *GPU_COLUMNS, "address", "bytes", "memKind", "memoryOperationType")},
    emits=MEMORY_IN_USE,
    frames=_frames,
    state=Allocated,
    makes_rows=False,
    public=("memory_usage",),
    sliced=True,
)
