"""Which GPU an NCCL call is for, in a process that has several: each of them is a rank of its own on a communicator.

A call does not say so; the kernels that it launches run there. Those of a group come GPU by GPU, in the reverse order
of the GPUs' first calls in it (ncclGroupCommJoin of NCCL's group.h). Of the calls of one communicator in a group each
GPU has as many as any other, and what they do is alike: they are called GPU by GPU, or all first ones first.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.activities.family import Source
from nsys2prv.activities.kernels import is_nccl
from nsys2prv.activities.nccl_calls import MESSAGES
from nsys2prv.report import schema
from nsys2prv.report.division import piece_rows
from nsys2prv.report.ids import process_of

KERNEL_KEYS = ("globalPid", "deviceId", "shortName")
_SEVERAL = "processes with nccl kernels on several gpus"


def with_several_gpus(source: Source, kernels: pl.DataFrame) -> pl.Series:
    """Processes whose NCCL kernels run on several GPUs, anywhere in the report; `kernels` are the slice's."""
    if _SEVERAL not in source.carried:
        whole = source.slice.number == 0 and source.slice.last
        used = _used(kernels) if whole else _used_by_report(source)
        several = used.group_by("process").len().filter(pl.col("len") > 1)
        source.carried[_SEVERAL] = several.select(pl.col("process").sort())
    return source.carried[_SEVERAL]["process"]


def _used_by_report(source: Source) -> pl.DataFrame:
    """As _used, of all slices; nothing where no process has contexts on several GPUs, which is quickly told."""
    contexts = source.report.identity.contexts
    if len({pid for pid, _ in contexts}) == len(set(contexts)):
        return pl.DataFrame(schema={"process": pl.Int64(), "deviceId": pl.Int64()})
    found = []
    for read in source.report.pieces(schema.KERNEL, KERNEL_KEYS, piece_rows(len(KERNEL_KEYS))):
        rows = read()
        found.append(_used(rows.filter(is_nccl(source, rows))))
    return pl.concat(found).unique()


def _used(kernels: pl.DataFrame) -> pl.DataFrame:
    return kernels.select(process=process_of(pl.col("globalPid")), deviceId="deviceId").unique()


def on_gpus(calls: pl.DataFrame, kernels: pl.DataFrame, units: pl.Series, several: pl.Series) -> pl.DataFrame:
    """Add `device` to calls (see launch_units), of processes with `several` GPUs; null: not known, or the only one.

    `units`: that of the calls which launched each kernel. Of one unit either all devices are known or none.
    """
    if several.is_empty():
        return calls.with_columns(device=pl.lit(None, pl.Int64))
    launched = kernels.select("deviceId", "called", units.alias("unit"), process=process_of(pl.col("globalPid")))
    launched = launched.filter(pl.col("process").is_in(several.implode())).drop_nulls("unit")
    gpus = launched.group_by("unit", "deviceId").agg(pl.col("called").min())
    # What a graph launches is called at once: there GPUs come in order.
    gpus = (
        gpus.sort("deviceId")
        .sort("unit", "called", descending=[False, True], maintain_order=True)
        .with_columns(place=pl.int_range(pl.len()).over("unit"), gpus=pl.len().over("unit").cast(pl.Int64))
    )
    operations = calls.with_row_index("row").filter(pl.col("operation").is_not_null())
    shared = operations.join(gpus.select("unit", "gpus").unique(), on="unit", maintain_order="left")
    found = _placed(shared).join(gpus.select("unit", "place", "deviceId"), on=["unit", "place"])
    of_call = operations.select("row", "unit").join(found.select("row", "deviceId"), on="row", how="left")
    known = of_call.filter(pl.col("deviceId").is_not_null().all().over("unit")).select("row", device="deviceId")
    return calls.with_row_index("row").join(known, on="row", how="left", maintain_order="left").drop("row")


def _placed(operations: pl.DataFrame) -> pl.DataFrame:
    """Operations with the `place` of their GPU among the `gpus` of their unit; null where it cannot be told."""
    group = ("unit", "communicator")
    # Sizes of messages may differ; all GPUs give a collective the same ones.
    of_collective = (pl.when(~pl.col("operation").is_in(MESSAGES)).then(c) for c in ("bytes", "reduction", "root"))
    counted = operations.with_columns(
        what=pl.struct("operation", *of_collective).rank("dense"),
        nth=pl.int_range(pl.len()).over(group),
        count=pl.len().over(group).cast(pl.Int64),
    )
    each, gpus = pl.col("count") // pl.col("gpus"), pl.col("gpus")
    turns = counted.with_columns(by_gpu=pl.col("nth") % each, in_turns=pl.col("nth") // gpus)
    alike = turns.with_columns(
        (pl.col("what").n_unique().over(*group, c) == 1).alias(c) for c in ("by_gpu", "in_turns")
    )
    whole = alike.with_columns(pl.col("by_gpu", "in_turns").all().over(group))
    by_gpu = pl.when(pl.col("by_gpu") | (each == 1)).then(pl.col("nth") // each)
    in_turns = pl.when("in_turns").then(pl.col("nth") % gpus)
    return whole.with_columns(place=pl.when(pl.col("count") % gpus == 0).then(pl.coalesce(by_gpu, in_turns)))


def gpus_of(kernels: pl.DataFrame, units: pl.Series, calls: pl.DataFrame) -> pl.Series:
    """The `device` of each kernel, where that of the calls which launched it is known; else null."""
    known = calls.filter(pl.col("device").is_not_null())["unit"].unique()
    return kernels.select(device=pl.when(units.is_in(known.implode())).then("deviceId")).to_series()
