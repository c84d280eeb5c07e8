"""Memory pools of a GPU: their size and the bytes in use as counters, their operations as instants."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.metrics.memory_usage import GPU_COLUMNS
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import POOL_IN_USE, POOL_OPERATION, POOL_SIZE
from nsys2prv.model.frames import Samples
from nsys2prv.report import schema

# ENUM_CUDA_MEMPOOL_OPER: 1 created, 2 destroyed, 3 trimmed.
DESTROYED, UNKNOWN_OPERATION = 2, 4
SIZES = {"localMemoryPoolSize": POOL_SIZE.key, "localMemoryPoolUtilizedSize": POOL_IN_USE.key}


def _frames(source: Source, state: None) -> Frames[None]:
    operations = source.table(schema.MEMORY_POOLS)
    places = operations.select(*GPU_COLUMNS, lane=pl.lit(0, pl.Int64))
    operation = pl.col("operationType")
    yield source.intervals(
        operations.with_columns(
            source.places.devices(places, POOL_OPERATION.key).alias("place"),
            source.slot(POOL_OPERATION.key),
            end=pl.col("start") + 1,
            value=pl.when(operation.is_between(1, 3)).then(operation).otherwise(UNKNOWN_OPERATION),
        )
    )
    for _, part in _states(source, operations).group_by(GPU_COLUMNS, maintain_order=True):
        sizes = pl.concat([_over_pools(part, c, kind) for c, kind in SIZES.items()], how="align").sort("start")
        gpu = pl.DataFrame({c: pl.repeat(part[c][0], sizes.height, dtype=pl.Int64, eager=True) for c in GPU_COLUMNS})
        place = source.places.devices(gpu.with_columns(lane=pl.lit(0, pl.Int64)), FAMILY.name)
        columns = tuple(SIZES.values())
        yield Samples(sizes.select(pl.col("start").alias("time"), place.alias("place"), *columns), columns)


def _states(source: Source, operations: pl.DataFrame) -> pl.DataFrame:
    """Return sizes of a pool after each operation on it and each allocation from it: start, GPU, address, SIZES."""
    columns = ["start", *GPU_COLUMNS, "address", *SIZES]
    destroyed = pl.col("operationType") == DESTROYED
    after = operations.with_columns(pl.when(destroyed).then(0).otherwise(pl.col(c)).alias(c) for c in SIZES)
    allocations = source.table(schema.MEMORY_USAGE).with_columns(address="localMemoryPoolAddress")
    states = pl.concat([after.select(columns), allocations.drop_nulls("localMemoryPoolAddress").select(columns)])
    return states.sort("start", maintain_order=True)


def _over_pools(part: pl.DataFrame, column: str, kind: str) -> pl.DataFrame:
    """Sum a size over all pools of a GPU, each held until it changes: columns start, and the sum as `kind`."""
    of_pool = part.select("start", "address", column).unique(["start", "address"], keep="last", maintain_order=True)
    wide = of_pool.pivot(on="address", index="start", values=column, maintain_order=True)
    return wide.select("start", pl.sum_horizontal(pl.exclude("start").forward_fill()).alias(kind))


FAMILY = Family(
    name="memory_pools",
    title="Memory pools",
    draws=(schema.MEMORY_POOLS,),
    reads={
        schema.MEMORY_POOLS: ("start", *GPU_COLUMNS, "address", "operationType", *SIZES),
        schema.MEMORY_USAGE: ("start", *GPU_COLUMNS, "localMemoryPoolAddress", *SIZES),
    },
    emits=(POOL_OPERATION, POOL_SIZE, POOL_IN_USE),
    frames=_frames,
    makes_rows=False,
)
