"""Transfers of single NCCL kernels: how long each takes, and how long its device computes nothing meanwhile."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.communication.computed import computed_until
from nsys2prv.analysis.communication.waiting import EXCHANGE
from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.kernel_families import COPIES
from nsys2prv.analysis.frames import NCCL, WORK
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.intervals.spans import time_in
from nsys2prv.model.schemas import to_schema

# NCCL kernels, with when and by which thread they were launched, and their grid. Times in ns: `transfer_ns` from when
# the last rank came (see EXCHANGE) to the end, `exposed_ns` the part in which the device computes nothing, and
# `between_ns` how long it computed since the end of the NCCL kernel before, and `packing_ns` the part of that in which
# it cast or copied.
NCCL_TRANSFER = {
    **EXCHANGE,
    **{name: WORK[name] for name in ("launched", "caller_row", "shape")},
    "transfer_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "between_ns": pl.Int64(),
    "packing_ns": pl.Int64(),
}
# Kernels that pack what is sent, and unpack what has come.
_PACKS = text_contains("family", f"^{COPIES}$")


@once
def nccl_transfers(case: Case) -> pl.DataFrame:
    """Return NCCL_TRANSFER of the NCCL kernels that the window holds whole, by device in order of start."""
    run, spans = case.run, case.analysis.window.spans
    known = case.analysis.explanation.exchanges.filter(
        pl.col("kind").cast(pl.String) == NCCL, pl.col("device").is_not_null()
    )
    known = known.with_columns(run.work[name].gather(known["index"]) for name in ("launched", "caller_row", "shape"))
    known = known.sort("device", "start", "row")
    before = pl.col("end").shift(1).over("device").clip(upper_bound=pl.col("start"))
    known = known.with_columns(before=before.fill_null(pl.col("start")))
    times = ("before", "start", "ready", "end")
    until = computed_until(run, known, spans, times)
    computed = {name: pl.Series(ns, dtype=pl.Int64) for name, ns in zip(times, until, strict=True)}
    # Time of these few kernels alone: that of all others would take as long to find as that of all.
    packed_before, packed = computed_until(run, known, spans, ("before", "start"), _PACKS)
    inside = time_in(spans, known["end"].to_numpy()) - time_in(spans, known["start"].to_numpy())
    transfer = pl.col("end") - pl.col("ready")
    timed = known.with_columns(
        transfer_ns=transfer,
        exposed_ns=transfer - (computed["end"] - computed["ready"]),
        between_ns=computed["start"] - computed["before"],
        packing_ns=pl.Series(packed - packed_before, dtype=pl.Int64),
    ).filter(pl.Series(inside, dtype=pl.Int64) == pl.col("end") - pl.col("start"))
    return to_schema(timed, NCCL_TRANSFER)
