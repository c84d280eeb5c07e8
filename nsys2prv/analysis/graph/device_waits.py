"""Calls in which a host thread waits for its device. All analysis takes those of device_waits, but for five places:

- blocking_calls also takes copies, frees and launches that return only when device work is done. It looks for
  all work for which a host waits.
- Case.host_waits of facts also takes MPI, other calls named Synchronize and long CUDA calls. It looks for all time
  that a host has to spare.
- Facts on idle devices also take waits for values in calls of the system, see facts.value_waits.
- Facts on waits that no CUDA graph can hold also take copies to hosts that block, see facts.waits_of_hosts.
- Delays take only records of synchronization: a wait without a record is work of the host there, see delays._waiting.
"""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.graph.polling import outside

# The synchronization in which a stream waits on the device while the host goes on.
STREAM_WAIT = "Stream wait event"
# Calls that wait for all work of the device. nsys 2025.3 has no record of synchronization for them.
DEVICE_WIDE = ("cudaDeviceSynchronize", "cudaThreadSynchronize", "cuCtxSynchronize")


def device_waits(calls: pl.DataFrame, polling: pl.DataFrame) -> pl.DataFrame:
    """Return the calls (CALLS) in which a host thread waits for its device.

    Those are records of synchronization, DEVICE_WIDE calls without a record, and the series of polling among the calls
    (`polling`, see polling.polls), each once, without the records within.
    """
    recorded = outside(calls.filter(recorded_wait()), polling)
    return pl.concat([recorded, unrecorded_waits(calls, recorded), polling])


def recorded_wait() -> pl.Expr:
    """Return True for the records of synchronization (CALLS) in which a host thread waits for its device."""
    return (pl.col("kind") == "synchronization") & (pl.col("name") != STREAM_WAIT)


def unrecorded_waits(calls: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Return the DEVICE_WIDE calls (CALLS) in which none of the records of synchronization (row, start) begins."""
    wide = calls.filter(pl.col("kind") == "cuda", pl.col("name").is_in(DEVICE_WIDE)).sort("start")
    begins = records.select("row", at="start").sort("at")
    followed = wide.join_asof(
        begins, left_on="start", right_on="at", by="row", strategy="forward", check_sortedness=False
    )
    return followed.filter((pl.col("at") >= pl.col("end")).fill_null(True)).select(calls.columns)
