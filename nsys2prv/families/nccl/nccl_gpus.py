"""The GPU of each NCCL call of a process with several GPUs: each is a rank of its own on a communicator.

A call does not name its GPU; the kernels that it launches run there. The GPUs of a communicator are known from groups
with calls on it alone (by their kernels) and from calls that make or end it (by their payloads); else the kernels of
shared groups tell them. Kernels of a group come GPU by GPU, in the reverse order of the GPUs' first calls in it
(ncclGroupCommJoin of NCCL's group.h). In a group, each GPU of a communicator has as many calls on it as any other GPU.
These calls come GPU by GPU, or in turns: the first call of every GPU, then the second of every GPU.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.families.device.kernels import is_nccl
from nsys2prv.families.nccl.nccl_calls import MESSAGE_CALLS, OF_PARENT, SEND_CALL
from nsys2prv.families.source import Source, after
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.interning import UNKNOWN_GPU
from nsys2prv.report import schema

# A GPU (deviceId) on which a process has NCCL kernels.
_USED = {"process": pl.Int64(), "device": pl.Int64()}
_KERNEL_COLUMNS = ("start", "end", "globalPid", "deviceId", "streamId", "shortName")
_OF_UNIT = ("unit", "communicator")
_OF_PROCESS = ("process", "communicator")


def with_several_gpus(source: Source, kernels: pl.DataFrame) -> pl.Series:
    """Return the processes with NCCL kernels on several GPUs, anywhere in the report. `kernels`: of the slice.

    With several slices this reads the kernels once more: call it in the first slice only.
    """
    whole = source.slice.number == 0 and source.slice.last
    pieces = (
        [kernels] if whole else (p.filter(is_nccl(source, p)) for p in source.pieces(schema.KERNEL, _KERNEL_COLUMNS))
    )
    used = pl.concat([pl.DataFrame(schema=_USED), *map(_used, pieces)]).unique()
    return used.group_by("process").len().filter(pl.col("len") > 1)["process"].sort()


def _used(kernels: pl.DataFrame) -> pl.DataFrame:
    rows = kernels.select(process=process_of(pl.col("globalPid")), device="deviceId").unique()
    return rows.drop_nulls("process").filter(pl.col("device") >= 0)


def until_last(
    source: Source, kept: pl.DataFrame | None, rows: pl.DataFrame, process: pl.Expr, several: pl.Series
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the rows to settle now, and the rows of `several` processes to keep for the last slice.

    The GPUs of the latter are known only with the last slice. `kept`: their rows in earlier slices.
    """
    if several.is_empty():
        return rows, None
    theirs = process.is_in(several.implode()).fill_null(False)
    held = after(kept, rows.filter(theirs))
    others = rows.filter(~theirs)
    return (pl.concat([others, held]), None) if source.slice.last else (others, held)


def on_gpus(calls: pl.DataFrame, kernels: pl.DataFrame, units: pl.Series, several: pl.Series) -> pl.DataFrame:
    """Add `device` to calls (see Settled.calls): for operations of `several` processes, UNKNOWN_GPU if unknown.

    `units`: the unit of the calls that launched each kernel. Of one unit either all devices are known or none. A call
    that a graph repeats is left out if the launch has no kernel on its GPU: it belongs to another GPU's graph.
    """
    if several.is_empty():
        return calls.with_columns(device=pl.lit(None, pl.Int64))
    rows = calls.with_row_index("row").with_columns(process=process_of(pl.col("globalTid")))
    theirs = rows.filter(pl.col("process").is_in(several.implode()))
    operations = theirs.filter(pl.col("operation").is_not_null())
    launched = kernels.select("called", "start", units.alias("unit"), device="deviceId")
    launched = launched.filter(pl.col("unit").is_in(operations["unit"].implode()) & (pl.col("device") >= 0))
    homes = _homes(theirs, operations, launched)
    gpus = _in_order(operations, launched, homes)
    found = _placed(operations, gpus).join(
        gpus.select(*_OF_UNIT, "place", "device"), on=[*_OF_UNIT, "place"], how="left", nulls_equal=True
    )
    known = pl.col("device").is_not_null().all().over("unit")
    found = found.with_columns(device=pl.when(known).then("device").otherwise(UNKNOWN_GPU))
    elsewhere = found.filter(pl.col("repeated") & (pl.col("device") != UNKNOWN_GPU)).join(
        launched, on=["unit", "device"], how="anti"
    )
    whole = rows.join(found.select("row", "device"), on="row", how="left", maintain_order="left")
    return whole.filter(~pl.col("row").is_in(elsewhere["row"].implode())).drop("row", "process")


def gpus_of(kernels: pl.DataFrame, units: pl.Series, calls: pl.DataFrame) -> pl.Series:
    """Return the `device` of the calls that launched each kernel: null, UNKNOWN_GPU, or the kernel's own."""
    told = calls.drop_nulls("device").group_by("unit").agg(unknown=(pl.col("device") == UNKNOWN_GPU).any())
    of_unit = kernels.select("deviceId", units.alias("unit")).join(told, on="unit", how="left", maintain_order="left")
    device = pl.when("unknown").then(UNKNOWN_GPU).when(~pl.col("unknown")).then("deviceId")
    return of_unit.select(device=device).to_series()


def _homes(calls: pl.DataFrame, operations: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """Return GPUs of each communicator: process, communicator, device, and its rank there (null: not known)."""
    says = pl.col("operation").is_null() & (pl.col("gpu") >= 0) & ~pl.col("text").is_in(OF_PARENT)
    told = calls.filter(says).select(*_OF_PROCESS, "rank", device="gpu")
    told = told.drop_nulls(["communicator", "rank"]).unique([*_OF_PROCESS, "device"], keep="last", maintain_order=True)
    together = operations.select("unit", *_OF_PROCESS).unique().with_columns(several=pl.len().over("unit"))
    alone = launched.join(together.filter(pl.col("several") == 1), on="unit")
    sure = pl.concat([told.select(*_OF_PROCESS, "device"), alone.select(*_OF_PROCESS, "device")]).unique()
    never_alone = together.join(sure, on=_OF_PROCESS, how="anti", nulls_equal=True)
    shared = together.filter(pl.col("unit").is_in(never_alone["unit"].implode()))
    guessed = _of_shared_units(shared, launched).join(never_alone.select(_OF_PROCESS).unique(), on=_OF_PROCESS)
    homes = pl.concat([sure, guessed.select(sure.columns)]).unique().sort("process", "communicator", "device")
    homes = homes.join(told, on=[*_OF_PROCESS, "device"], how="left", nulls_equal=True, maintain_order="left")
    nobody = pl.col("rank").is_null().all().over(_OF_PROCESS)
    return homes.with_columns(rank=pl.when(nobody).then(pl.int_range(pl.len()).over(_OF_PROCESS)).otherwise("rank"))


def _of_shared_units(together: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """Return GPUs of communicators from units with several of them (`together`): process, communicator, device.

    With as many kernels as communicators each communicator has its own kernel, in the order of NCCL's numbers. If each
    GPU has that many kernels, all communicators are on all GPUs.
    """
    number = pl.col("communicator").cast(pl.UInt64, strict=False)
    turns = together.sort("unit", number).with_columns(turn=pl.int_range(pl.len()).over("unit"))
    kernels = launched.sort("unit", "called", "start").with_columns(
        turn=pl.int_range(pl.len()).over("unit"),
        kernels=pl.len().over("unit"),
        of_gpu=pl.len().over("unit", "device"),
    )
    kernels = kernels.with_columns(least=pl.col("of_gpu").min().over("unit"))
    one_each = turns.join(kernels, on=["unit", "turn"]).filter(pl.col("kernels") == pl.col("several"))
    everywhere = turns.join(kernels.unique(["unit", "device"]), on="unit").filter(
        (pl.col("kernels") != pl.col("several")) & (pl.col("least") >= pl.col("several"))
    )
    columns = [*_OF_PROCESS, "device"]
    return pl.concat([one_each.select(columns), everywhere.select(columns)]).unique()


def _in_order(operations: pl.DataFrame, launched: pl.DataFrame, homes: pl.DataFrame) -> pl.DataFrame:
    """Return GPUs of each unit and communicator, by their first calls: unit, communicator, device, rank, place, gpus.

    If kernels of the unit are missing or come from a graph, another unit gives the order, or else the kernels there
    are.
    """
    units = operations.group_by("unit", "origin", *_OF_PROCESS).agg(pl.col("repeated").any())
    first = launched.group_by("unit", "device").agg(pl.col("called").min())
    # A graph of one GPU repeats calls for several GPUs: the launches of all graphs of these calls show its own.
    ran = units.select("unit", "origin").unique().join(first, on="unit").select("origin", "device").unique()
    every = units.join(homes, on=_OF_PROCESS, nulls_equal=True).join(ran, on=["origin", "device"], how="semi")
    every = every.join(first, on=["unit", "device"], how="left")
    tells = pl.col("called").is_not_null().all().over(_OF_UNIT) & ~pl.col("repeated")
    every = every.with_columns(called=pl.when(tells).then("called"))
    usual = every.drop_nulls("called").filter(pl.col("unit") == pl.col("unit").min().over(_OF_PROCESS))
    every = every.join(
        usual.select(*_OF_PROCESS, "device", usually="called"),
        on=[*_OF_PROCESS, "device"],
        how="left",
        nulls_equal=True,
    )
    late = pl.coalesce("called", "usually", 0)
    return every.sort("unit", "communicator", late, "device", descending=[False, False, True, False]).select(
        *_OF_UNIT,
        "device",
        "rank",
        place=pl.int_range(pl.len()).over(_OF_UNIT),
        gpus=pl.len().over(_OF_UNIT).cast(pl.Int64),
    )


def _placed(operations: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """Add `place` to operations: the position of their GPU on their communicator; null if unknown."""
    counts = gpus.select(*_OF_UNIT, "gpus").unique()
    counted = operations.join(counts, on=_OF_UNIT, how="left", nulls_equal=True, maintain_order="left").with_columns(
        message=pl.col("operation").is_in(MESSAGE_CALLS),
        nth=pl.int_range(pl.len()).over(_OF_UNIT),
        count=pl.len().over(_OF_UNIT).cast(pl.Int64),
    )
    # Sizes of messages may differ; all GPUs give a collective the same ones.
    of_collective = (pl.when(~pl.col("message")).then(c) for c in ("bytes", "reduction", "root"))
    each, number = pl.col("count") // pl.col("gpus"), pl.col("gpus")
    counted = counted.with_columns(
        what=pl.struct("operation", *of_collective).rank("dense"),
        by_gpu=pl.col("nth") // each,
        in_turns=pl.col("nth") % number,
        nth_of_gpu=pl.col("nth") % each,
        turn=pl.col("nth") // number,
    )
    fitting = [_fits(counted, gpus, *how) for how in (("by_gpu", "nth_of_gpu"), ("in_turns", "turn"))]
    chosen = pl.when(pl.lit(fitting[0]) | (each == 1)).then("by_gpu").when(pl.lit(fitting[1])).then("in_turns")
    return counted.with_columns(place=pl.when(pl.col("count") % number == 0).then(chosen))


def _fits(counted: pl.DataFrame, gpus: pl.DataFrame, place: str, turn: str) -> pl.Series:
    """Return True if all GPUs of a unit have equal operations when `place` and `turn` assign operations to GPUs.

    For messages among the unit's own GPUs: return True if each is sent as often as it is received.
    """
    ranks = gpus.select(*_OF_UNIT, pl.col("place").alias(place), own="rank")
    ours = counted.join(ranks, on=[*_OF_UNIT, place], how="left", nulls_equal=True, maintain_order="left")
    peers = gpus.select(*_OF_UNIT, peer="rank", here=True).drop_nulls("peer").unique([*_OF_UNIT, "peer"])
    ours = ours.join(peers, on=[*_OF_UNIT, "peer"], how="left", nulls_equal=True, maintain_order="left")
    sends = pl.col("operation") == SEND_CALL
    told = pl.col("here").fill_null(False) & pl.col("own").is_not_null()
    paired = ours.with_columns(
        here=told.filter("message").all().over(_OF_UNIT),
        source=pl.when(sends).then("own").otherwise("peer"),
        target=pl.when(sends).then("peer").otherwise("own"),
        alike=pl.col("what").n_unique().over(*_OF_UNIT, turn) == 1,
    )
    received = pl.when(sends).then(1).otherwise(-1).sum().over(*_OF_UNIT, "message", "source", "target") == 0
    checked = paired.with_columns(fits=pl.when(pl.col("message") & pl.col("here")).then(received).otherwise("alike"))
    return checked.select(pl.col("fits").all().over(_OF_UNIT)).to_series()
