"""Exposed waiting and transfer: time in communication while the devices of a rank compute nothing."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.communication.computed import computed_until
from nsys2prv.analysis.communication.waiting import since_recorded, with_last
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.interval_frames import at_longest, known_sum
from nsys2prv.intervals.spans import Spans, time_in
from nsys2prv.model.schemas import to_schema

# Time inside the window (ns) of NCCL kernels and MPI calls, each by itself. `kind`: nccl or mpi; `waited_for`: the rank
# that came last (null: none). `device`, `late_device`: of an NCCL kernel of a rank with several devices, the device
# that waits, and the device of the same rank that came last; else null. `waits_at`, `transfers_at`: begin of the
# longest exposed wait and transfer. Waiting for a rank before that began to record is `unrecorded_ns` and nothing else.
EXPOSED = {
    "rank": pl.Int64(),
    "waited_for": pl.Int64(),
    "device": pl.Int64(),
    "late_device": pl.Int64(),
    "kind": pl.String(),
    "operation": pl.String(),
    "activities": pl.Int64(),
    "bytes": pl.Int64(),
    "waiting_ns": pl.Int64(),
    "exposed_waiting_ns": pl.Int64(),
    "unrecorded_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "exposed_transfer_ns": pl.Int64(),
    "waits_at": pl.Int64(),
    "transfers_at": pl.Int64(),
}
# Time (ns) that GPUs of one rank wait for each other in NCCL kernels: `gpu` waits for `gpu_waited_for`, numbers on
# their host.
WAITING_OF_GPUS = {
    "rank": pl.Int64(),
    "gpu": pl.Int64(),
    "gpu_waited_for": pl.Int64(),
    "activities": pl.Int64(),
    "waiting_ns": pl.Int64(),
    "exposed_waiting_ns": pl.Int64(),
}


def exposed_waits(run: Run, exchanges: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Return EXPOSED by rank, rank waited for, their devices, kind and operation. `exchanges`: EXCHANGE."""
    parts = _late_devices(_parts(run, since_recorded(run, exchanges), window)).with_columns(
        rank=run.rank_of("task"), waited_for=run.rank_of("waited_for")
    )
    parts = parts.filter(pl.sum_horizontal("waiting_ns", "unrecorded_ns", "transfer_ns") > 0)
    sums = [known_sum("bytes"), *(pl.col(c).sum() for c in EXPOSED if c.endswith("_ns"))]
    key = ("rank", "waited_for", "device", "late_device")
    by_pair = parts.group_by(*key, pl.col("kind").cast(pl.String), "operation").agg(
        pl.len().alias("activities"),
        *sums,
        waits_at=at_longest("exposed_waiting_ns", "since"),
        transfers_at=at_longest("exposed_transfer_ns", "ready"),
    )
    return to_schema(by_pair, EXPOSED).sort(*key, "kind", "operation", nulls_last=True)


def _parts(run: Run, exchanges: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Add the parts of each exchange inside the window, as EXPOSED has them (ns). `exchanges`: see since_recorded.

    `unrecorded_ns` comes first, until `since`, then waiting, until `ready`, then transfer.
    """
    times = ("start", "since", "ready", "end")
    inside = {c: time_in(window, exchanges[c].to_numpy()) for c in times}
    computed = dict(zip(times, computed_until(run, exchanges, window, times), strict=True))
    waiting, transfer = inside["ready"] - inside["since"], inside["end"] - inside["ready"]
    parts = {
        "unrecorded_ns": inside["since"] - inside["start"],
        "waiting_ns": waiting,
        "exposed_waiting_ns": waiting - (computed["ready"] - computed["since"]),
        "transfer_ns": transfer,
        "exposed_transfer_ns": transfer - (computed["end"] - computed["ready"]),
    }
    return exchanges.with_columns(pl.Series(name, ns, dtype=pl.Int64) for name, ns in parts.items())


def _late_devices(exchanges: pl.DataFrame) -> pl.DataFrame:
    """Add `late_device` to EXCHANGE, and clear `device` for ranks with one device."""
    several = exchanges.filter(
        pl.col("device").drop_nulls().n_unique().over("task") > 1, pl.col("device").is_not_null()
    )
    joined = with_last(exchanges, several, late_device="device")
    of_several = pl.col("task").is_in(several["task"].unique().implode())
    own = of_several & (pl.col("waited_for") == pl.col("task"))
    return joined.with_columns(device=pl.when(of_several).then("device"), late_device=pl.when(own).then("late_device"))


def waiting_of_gpus(run: Run, exposed: pl.DataFrame) -> pl.DataFrame:
    """Return WAITING_OF_GPUS: which GPU of a rank waited for which other one. `exposed`: EXPOSED."""
    gpus = {number: device.gpu for number, device in enumerate(run.devices)}
    sums = exposed.filter(pl.col("late_device") != pl.col("device")).group_by("rank", "device", "late_device")
    named = sums.agg(pl.col("activities", "waiting_ns", "exposed_waiting_ns").sum()).with_columns(
        gpu=pl.col("device").replace_strict(gpus, return_dtype=pl.Int64),
        gpu_waited_for=pl.col("late_device").replace_strict(gpus, return_dtype=pl.Int64),
    )
    waits = to_schema(named.filter(pl.col("waiting_ns") > 0), WAITING_OF_GPUS)
    return waits.sort("rank", "gpu", "gpu_waited_for")
