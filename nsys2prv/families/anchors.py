"""Operations that cross reports and so tell their clocks apart: collectives that ranks leave together, and messages."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.families.device.kernels import is_nccl
from nsys2prv.families.family import Source, after
from nsys2prv.families.mpi.mpi import FAMILY as MPI
from nsys2prv.families.mpi.mpi import rows_and_communicators
from nsys2prv.families.mpi.mpi_communicators import on_communicators
from nsys2prv.families.mpi.mpi_messages import message_ends
from nsys2prv.families.nccl.nccl_calls import OPERATIONS, call_events, members_of, nccl_calls
from nsys2prv.families.nccl.nccl_launches import Unsettled, settle
from nsys2prv.families.nccl.payloads import PAYLOAD_KEYS, PAYLOAD_READS
from nsys2prv.families.relations import CALL_KEYS, NODE_KEYS, NVTX_KEYS, callers
from nsys2prv.model.frames import ANCHOR, SEND
from nsys2prv.model.interning import UNKNOWN_GPU
from nsys2prv.report import schema

# Collectives kept of one communicator in one report, and messages of each direction.
KEPT = 4096

# Collectives that no rank leaves before all have entered: every rank's result needs every rank's part.
NCCL_SYNCHRONOUS = [OPERATIONS[f"nccl{name}"] for name in ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll")]
MPI_SYNCHRONOUS = r"(?i)^MPI_(Barrier|Allreduce|Allgatherv?|Alltoall[vw]?|Reduce_scatter(_block)?)$"
MPI_INIT = r"(?i)^MPI_Init(_thread)?$"

READS = {
    schema.NVTX: (*NVTX_KEYS, *PAYLOAD_KEYS),
    schema.KERNEL: ("start", "end", "globalPid", "deviceId", "correlationId", "shortName", "graphNodeId"),
    schema.RUNTIME: CALL_KEYS,
    schema.GRAPH_NODE_EVENTS: NODE_KEYS,
    **PAYLOAD_READS,
    **MPI.reads,
}
_NONE = pl.DataFrame(schema=ANCHOR)


class Collectives(NamedTuple):
    """NCCL collectives of the slices so far: what is not settled yet, and ANCHOR rows of a sample."""

    unsettled: Unsettled = Unsettled()
    sample: pl.DataFrame = _NONE


def anchors(source: Source, state: Collectives) -> tuple[pl.DataFrame, Collectives]:
    """Return ANCHOR rows of a report with its last slice, none before; and the state for the next slice.

    A bounded sample of the whole report, whichever families and times are translated, by a rule that picks the same
    operations in all reports.
    """
    nccl, after_this = _nccl(source, state)
    if not source.slice.last:
        return _NONE, after_this
    parts = [nccl, *_mpi(source)]
    return pl.concat(map(_known, parts)).filter(_in_sample()), after_this


def _known(rows: pl.DataFrame) -> pl.DataFrame:
    whole = rows.select(pl.col(c).cast(t) for c, t in ANCHOR.items())
    return whole.drop_nulls(["communicator", "sequence", "start", "end"])


def _in_sample() -> pl.Expr:
    """Return True for every 2^n-th collective of a communicator and one in 2^n messages: one sample holds the other."""
    message = pl.col("kind").is_in(["send", "recv"])
    length = pl.when(message).then(pl.len().over("kind")).otherwise((pl.col("sequence").max() + 1).over("communicator"))
    step = pl.lit(2).pow((length / KEPT).log(2).ceil().clip(lower_bound=0)).cast(pl.UInt64)
    # A pair of ranks uses many tags, each with few messages: their sequences alone cannot thin them out.
    key = pl.when(message).then(pl.struct("communicator", "sequence").hash(0)).otherwise(pl.col("sequence"))
    return key.cast(pl.UInt64) % step == 0


def _nccl(source: Source, state: Collectives) -> tuple[pl.DataFrame, Collectives]:
    """Return kernels of synchronous NCCL collectives so far, by communicator and number; and the new state."""
    if not all(source.report.has(t) for t in (schema.NVTX, schema.KERNEL, schema.RUNTIME)):
        return _NONE, state
    calls = nccl_calls(source, call_events(source))
    settled, unsettled = settle(source, state.unsettled, _nccl_kernels(source), calls)
    kernels, calls = settled.kernels, settled.calls
    numbered = pl.col("number").is_not_null() & (pl.col("device").fill_null(0) != UNKNOWN_GPU)
    synchronous = pl.col("operation").is_in(NCCL_SYNCHRONOUS) & numbered
    operations = calls.with_row_index("call").filter(synchronous)
    named = kernels.select("caller", "called", "start", name=source.texts(kernels["shortName"]))
    carrying = members_of(named.with_columns(unit=settled.units, device=settled.devices), calls).filter("counts")
    work = kernels.select(began="start", ended="end").with_row_index("kernel")
    found = operations.join(carrying.select("call", "kernel"), on="call").join(work, on="kernel").select(
        kind=pl.lit("collective"),
        communicator=pl.format("nccl {}", "communicator"),
        sequence="sequence",
        ranks=pl.lit(None, pl.Int64),
        start="began",
        end="ended",
    )  # fmt: skip
    every = after(state.sample, _known(found))
    # The last of a communicator tells how many there are: of fewer of them the sample is the same.
    last = pl.col("sequence") == pl.col("sequence").max().over("communicator")
    return every, Collectives(unsettled, every.filter(_in_sample() | last))


def _nccl_kernels(source: Source) -> pl.DataFrame:
    """Return NCCL kernels with the thread and time of their calls."""
    kernels = source.table(schema.KERNEL)
    kernels = kernels.filter(is_nccl(source, kernels)).select(READS[schema.KERNEL])
    return pl.concat([kernels, callers(kernels, source.table(schema.RUNTIME))], how="horizontal")


def _mpi(source: Source) -> list[pl.DataFrame]:
    """Return MPI_Init, synchronous collectives, and ends of messages."""
    if not any(source.report.has(t) for t in MPI.draws):
        return []
    rows, known = rows_and_communicators(source)
    collectives = rows[schema.MPI_COLLECTIVE.name]
    on_known = on_communicators(collectives, known)
    messages = on_communicators(rows[schema.MPI_P2P.name], known)
    ends = message_ends(source, messages, rows[schema.MPI_WAIT.name], collectives).data
    members = source.members.table.select("communicator", "rank", member="id")
    return [
        _init(rows[schema.MPI_OTHER.name]),
        _collectives(on_known.filter(pl.col("text").str.contains(MPI_SYNCHRONOUS))),
        _messages(ends.join(members, on="member")),
    ]


def _init(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("text").str.contains(MPI_INIT)).sort("start").head(1).select(
        kind=pl.lit("init"), communicator=pl.lit("mpi init"), sequence=pl.lit(0), ranks=pl.lit(None, pl.Int64),
        start="start", end="end",
    )  # fmt: skip


def _collectives(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort("start").select(
        kind=pl.lit("collective"),
        communicator=pl.format("mpi {}", "communicator"),
        sequence=pl.int_range(pl.len()).over("process", "communicator"),
        ranks="ranks",
        start="start",
        end="end",
    )


def _messages(ends: pl.DataFrame) -> pl.DataFrame:
    """Return ends of messages, as instants; both ends of one have the same communicator, ranks, tag and number."""
    sent = pl.col("kind") == SEND
    source, target = (pl.when(sent).then(a).otherwise(b) for a, b in (("rank", "peer"), ("peer", "rank")))
    return ends.select(
        kind=pl.when(sent).then(pl.lit("send")).otherwise(pl.lit("recv")),
        communicator=pl.format("mpi {} {}>{} tag {}", "communicator", source, target, "tag"),
        sequence="sequence",
        ranks=pl.lit(2, pl.Int64),
        start="time",
        end="time",
    )
