"""Waiting and transfer: the time of collectives and messages before and after the last rank has come.

See run.matching.arrivals for the rules. The events of a trace follow the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.analysis.communication.computed import computed_until
from nsys2prv.analysis.frames import MPI, NCCL, TEXT, Run
from nsys2prv.analysis.interval_frames import known_sum
from nsys2prv.analysis.iterations.window import recordings
from nsys2prv.intervals.spans import Spans, Times, time_in
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.matching.arrivals import ARRIVAL, ROLES, latest_arrivals

# The operation of rows that have the sums of all operations.
ALL_OPERATIONS = "all"

# One activity that carries operations: NCCL kernels, and MPI calls. `index`: its row in Run.work (NCCL) or Run.calls
# (MPI); `last`: when the last rank came (null: no other rank's part is known); `waited_for`: the task that came last,
# null unless the activity waits; `ready`: end of the waiting.
EXCHANGE = {
    "kind": TEXT,
    "index": pl.Int64(),
    "task": pl.Int64(),
    "device": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "ready": pl.Int64(),
    "end": pl.Int64(),
    "communicator": pl.String(),
    "operation": pl.String(),
    "bytes": pl.Int64(),
    "last": pl.Int64(),
    "waited_for": pl.Int64(),
}
# Operations that an activity carries: `operation`, `part` (kind), communicator, bytes, roles and arrival of PART; the
# rest is of the activity.
CARRIED = {
    "operation": pl.Int64(),
    "kind": TEXT,
    "part": pl.UInt8(),
    "index": pl.Int64(),
    "task": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "communicator": TEXT,
    "bytes": pl.Int64(),
    **ROLES,
    **ARRIVAL,
}
# `bytes`: the known ones, null where none are; `ns`: time of the activities inside the window, each counted by itself;
# `overlapped_ns`: the part while their devices compute; `unmatched_ns`: time of activities whose other ranks are not
# known: it counts as transfer.
# `uncertain_ns`: waiting for ranks of other clocks that is shorter than the error of the clocks, or whose error nothing
# tells. `hosts`: null if the communicator is not known, or operations are of both kinds.
COMMUNICATION = {
    "rank": pl.Int64(),
    "communicator": pl.String(),
    "operation": pl.String(),
    "activities": pl.Int64(),
    "bytes": pl.Int64(),
    "ns": pl.Int64(),
    "waiting_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "overlapped_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "unmatched_ns": pl.Int64(),
    "uncertain_ns": pl.Int64(),
    "hosts": pl.String(),
}
# Time that ranks waited for others (ns): `rank` for `waited_for`; `uncertain_ns` as above.
WAITING_MATRIX = {
    "rank": pl.Int64(),
    "waited_for": pl.Int64(),
    "activities": pl.Int64(),
    "waiting_ns": pl.Int64(),
    "uncertain_ns": pl.Int64(),
}


def carried(run: Run) -> pl.DataFrame:
    """Return CARRIED: the operations of each NCCL kernel and MPI call."""
    # Activities are cut at the begin of a chosen time.
    begin = run.chosen[0] if run.chosen else 0
    nccl = run.work.with_row_index("index").filter(pl.col("kind") == NCCL)
    mpi = run.calls.with_row_index("index").filter(pl.col("kind") == MPI)
    parts = [pl.DataFrame(schema=CARRIED)]
    for family, activities in (("nccl", nccl), ("mpi", mpi)):
        own = run.parts.filter(pl.col("family") == family, pl.col("ended") > begin).select(
            *("operation", "row", "communicator", "bytes"),
            *ROLES,
            *ARRIVAL,
            start=pl.col("began").clip(lower_bound=begin),
            part="kind",
        )
        found = own.join(activities.select("kind", "index", "task", "row", "start", "end"), on=["row", "start"])
        parts.append(to_schema(found, CARRIED))
    return pl.concat(parts)


def find_exchanges(run: Run, operations: pl.DataFrame) -> pl.DataFrame:
    """Return EXCHANGE of all NCCL kernels, and of the MPI calls that carry operations, in order of start.

    `operations`: CARRIED.
    """
    by_class = pl.col("class").cast(pl.String).str.strip_prefix("NCCL ")
    kernels = run.work.with_row_index("index").filter(pl.col("kind") == NCCL)
    kernels = kernels.with_columns(operation=pl.coalesce(pl.col("operation").cast(pl.String), by_class))
    calls = run.calls.with_row_index("index").filter(pl.col("kind") == MPI)
    described = operations.group_by("kind", "index").agg(
        pl.col("communicator").cast(pl.String).first(),
        known_sum("bytes"),
        several=pl.col("communicator").n_unique() > 1,
    )
    kernels = _told_by_operations(kernels, described.filter(pl.col("kind") == NCCL, ~pl.col("several")))
    calls = calls.join(described.filter(pl.col("kind") == MPI).drop("kind"), on="index", maintain_order="left")
    calls = calls.with_columns(operation=pl.col("name"), device=pl.lit(None, pl.Int64))
    own = {c: t for c, t in EXCHANGE.items() if c not in ("ready", "last", "waited_for")}
    both = pl.concat([to_schema(frame, own) for frame in (kernels, calls)])
    arrivals = latest_arrivals(operations, ["kind", "index"])
    found = both.join(arrivals, on=["kind", "index"], how="left", maintain_order="left")
    found = found.with_columns(ready=pl.coalesce("last", "start").clip(pl.col("start"), pl.col("end")))
    waits = pl.col("ready") > pl.col("start")
    found = found.with_columns(waited_for=pl.when(waits).then("waited_for"))
    return to_schema(found, EXCHANGE).sort("start", "row", maintain_order=True)


def with_last(waits: pl.DataFrame, found: pl.DataFrame, **columns: str) -> pl.DataFrame:
    """Add to rows of EXCHANGE columns of the activity that came last, null where nothing waits for one.

    `columns`: those of `found`, EXCHANGE with more, by their new names. Of several activities of the task waited for
    that begin at once, the first in `found` counts.
    """
    key = ["kind", "waited_for", "last"]
    came = found.select("kind", waited_for="task", last="start", **columns)
    came = came.unique(key, keep="first", maintain_order=True)
    return waits.join(came, on=key, how="left", maintain_order="left")


def since_recorded(run: Run, exchanges: pl.DataFrame) -> pl.DataFrame:
    """Add `since` to EXCHANGE: from when on waiting is due to the rank waited for, not before that began to record.

    What a rank did before that, and whether it was late, is not known.
    """
    began = {task: span.start for task, span in recordings(run).items()}
    late = pl.col("waited_for").replace_strict(began, default=None, return_dtype=pl.Int64)
    return exchanges.with_columns(since=pl.coalesce(late, "start").clip(pl.col("start"), pl.col("ready")))


def _told_by_operations(kernels: pl.DataFrame, described: pl.DataFrame) -> pl.DataFrame:
    """Return NCCL kernels with communicator and bytes of their operations, where they lack those of calls."""
    told = described.select("index", told="communicator", size="bytes").drop_nulls("told")
    joined = kernels.join(told, on="index", how="left", maintain_order="left")
    lacking = pl.col("communicator").is_null() & pl.col("told").is_not_null()
    return joined.with_columns(
        communicator=pl.when(lacking).then("told").otherwise(pl.col("communicator").cast(pl.String)),
        bytes=pl.when(lacking).then("size").otherwise("bytes"),
    ).drop("told", "size")


def communication(run: Run, exchanges: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Return COMMUNICATION by rank, communicator and operation; the rows of operation `all` have the sums of a rank.

    `exchanges`: EXCHANGE. An activity at a border counts with its time inside.
    """
    start, ready, end = (time_in(window, exchanges[c].to_numpy()) for c in ("start", "ready", "end"))
    hidden = _overlapped(run, exchanges, window)
    timed = exchanges.with_columns(
        rank=run.rank_of("task"),
        hosts=_hosts(run, exchanges),
        ns=pl.Series(end - start),
        waiting_ns=pl.Series(ready - start),
        transfer_ns=pl.Series(end - ready),
        overlapped_ns=pl.Series(hidden),
    ).filter(pl.col("ns") > 0)
    timed = timed.with_columns(
        exposed_ns=pl.col("ns") - pl.col("overlapped_ns"),
        unmatched_ns=pl.when(pl.col("last").is_null()).then("ns").otherwise(0),
        uncertain_ns=pl.when(_uncertain(run)).then("waiting_ns").otherwise(0),
    )
    sums = [known_sum("bytes"), *(pl.col(c).sum() for c in COMMUNICATION if c.endswith("ns"))]
    # Of operations of both kinds together neither is true.
    alike = pl.when(pl.col("hosts").n_unique() == 1).then(pl.col("hosts").first()).alias("hosts")
    by_operation = timed.group_by("rank", "communicator", "operation").agg(pl.len().alias("activities"), *sums, alike)
    every = (
        timed.group_by("rank")
        .agg(pl.len().alias("activities"), *sums, alike)
        .with_columns(communicator=pl.lit(None, pl.String), operation=pl.lit(ALL_OPERATIONS))
    )
    both = pl.concat([to_schema(part, COMMUNICATION) for part in (every, by_operation)])
    return both.sort(pl.col("operation") != ALL_OPERATIONS, "rank", "communicator", "operation", nulls_last=True)


def _uncertain(run: Run) -> pl.Expr:
    """Return True for waits for ranks of other clocks, if they are below the error of the clocks or none is known."""

    def differs(of_task: Sequence[int]) -> pl.Expr:
        own, other = (
            pl.col(c).replace_strict(dict(enumerate(of_task)), default=None, return_dtype=pl.Int64)
            for c in ("task", "waited_for")
        )
        return (own != other).fill_null(False)

    within = True if run.clocks.error is None else pl.col("ready") - pl.col("start") < run.clocks.error
    return (differs(run.clocks.of_task) & within) | differs(run.clocks.component_of_task)


def _hosts(run: Run, exchanges: pl.DataFrame) -> pl.Expr:
    """Return `between hosts` for the communicators whose tasks are on several hosts, else `within a host`.

    It is null where the communicator is not known, in a run of several hosts.
    """
    host = pl.col("task").replace_strict(dict(enumerate(t.host for t in run.tasks)), return_dtype=pl.String)
    several = (
        exchanges.with_columns(host=host)
        .group_by("communicator")
        .agg(pl.col("host").n_unique())
        .filter(pl.col("host") > 1)
    )
    between = pl.col("communicator").is_in(several["communicator"].drop_nulls().implode()).fill_null(False)
    known = pl.col("communicator").is_not_null() | (len({task.host for task in run.tasks}) == 1)
    return pl.when(between).then(pl.lit("between hosts")).when(known).then(pl.lit("within a host"))


def _overlapped(run: Run, exchanges: pl.DataFrame, window: Spans) -> Times:
    """Return the time inside the window in which each activity's devices compute: its own, or for MPI its task's."""
    start, end = computed_until(run, exchanges, window, ("start", "end"))
    return end - start


def waiting_matrix(run: Run, exchanges: pl.DataFrame, window: Spans) -> pl.DataFrame:
    """Return WAITING_MATRIX: who waited for whom inside the window, and how long. `exchanges`: EXCHANGE.

    `waited_for` is null for ranks that were not chosen.
    """
    waits = exchanges.filter(pl.col("ready") > pl.col("start"))
    start, ready = (time_in(window, waits[c].to_numpy()) for c in ("start", "ready"))
    timed = waits.select(
        rank=run.rank_of("task"),
        waited_for=run.rank_of("waited_for"),
        uncertain=_uncertain(run),
        ns=pl.Series(ready - start),
    ).filter(pl.col("ns") > 0)
    sums = timed.group_by("rank", "waited_for").agg(
        activities=pl.len(), waiting_ns=pl.sum("ns"), uncertain_ns=pl.col("ns").filter("uncertain").sum()
    )
    return to_schema(sums, WAITING_MATRIX).sort("rank", "waited_for")
