"""What crosses reports and so tells their clocks apart: collectives that all ranks leave together, and messages."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.activities.kernels import NCCL_NAME
from nsys2prv.activities.relations import PUSH_POP
from nsys2prv.report import Report, schema
from nsys2prv.report.schema import Table
from nsys2prv.timeline.frames import ANCHOR

# Collectives kept of one communicator in one report, and messages of each direction.
KEPT = 4096

# Collectives that no rank leaves before all have entered: every rank's result needs every rank's part.
NCCL_SYNCHRONOUS = r"^nccl(AllReduce|AllGather|ReduceScatter|AllToAll)$"
MPI_SYNCHRONOUS = r"(?i)^MPI_(Barrier|Allreduce|Allgatherv?|Alltoall[vw]?|Reduce_scatter(_block)?)$"
MPI_INIT = r"(?i)^MPI_Init(_thread)?$"
_SENDS = r"(?i)^MPI_(I?[bsr]?send|I?sendrecv(_replace)?)$"
_RECEIVES = r"(?i)^MPI_(I?recv|I?sendrecv(_replace)?)$"

_COMMUNICATOR = r'"NCCL communicator ID"\s*:\s*"?(\w+)"?'


def anchors(report: Report) -> pl.DataFrame:
    """ANCHOR rows of a report: a bounded sample, by a rule that picks the same operations in all reports."""
    parts = [_nccl(report), *_mpi(report)]
    whole = [p.select(pl.col(c).cast(t) for c, t in ANCHOR.items()) for p in parts if p.height]
    return _sample(pl.concat([pl.DataFrame(schema=ANCHOR), *whole]))


def _sample(rows: pl.DataFrame) -> pl.DataFrame:
    """Of each communicator every 2^n-th collective, of all messages one in 2^n: of two samples one holds the other."""
    message = pl.col("kind").is_in(["send", "recv"])
    length = pl.when(message).then(pl.len().over("kind")).otherwise((pl.col("sequence").max() + 1).over("communicator"))
    step = pl.lit(2).pow((length / KEPT).log(2).ceil().clip(lower_bound=0)).cast(pl.UInt64)
    # A pair of ranks uses many tags, each with few messages: their sequences alone cannot thin them out.
    key = pl.when(message).then(pl.struct("communicator", "sequence").hash(0)).otherwise(pl.col("sequence"))
    return rows.filter(key.cast(pl.UInt64) % step == 0)


def _nccl(report: Report) -> pl.DataFrame:
    """NCCL kernels of synchronous collectives, numbered by the launches on their communicator."""
    if not (report.has(schema.NVTX) and report.has(schema.KERNEL) and report.has(schema.RUNTIME)):
        return pl.DataFrame(schema=ANCHOR)
    calls = _nccl_calls(report)
    if calls.is_empty():
        return pl.DataFrame(schema=ANCHOR)
    kernels = report.table(schema.KERNEL, ["start", "end", "globalPid", "correlationId", "shortName"])
    kernels = kernels.filter(pl.col("shortName").is_in(_ids(report, NCCL_NAME).implode()))
    launches = report.table(schema.RUNTIME, ["start", "globalTid", "correlationId"]).select(
        "correlationId", "globalTid", process=pl.col("globalTid") // (1 << 24), launched="start"
    )
    launched = (
        kernels.with_columns(process=pl.col("globalPid") // (1 << 24))
        .join(launches, on=["process", "correlationId"], how="inner")
        .sort("launched")
        .join_asof(calls.sort("called"), left_on="launched", right_on="called", by="globalTid", check_sortedness=False)
        .filter(pl.col("launched") <= pl.col("returned"))
        .unique(["process", "correlationId"])
        .sort("launched")
    )
    return launched.select(
        kind=pl.lit("collective"),
        communicator=pl.format("nccl {}", "id"),
        sequence=pl.int_range(pl.len()).over("globalPid", "id"),
        ranks=pl.lit(None, pl.Int64),
        start="start",
        end="end",
    )


def _nccl_calls(report: Report) -> pl.DataFrame:
    """Host ranges of synchronous NCCL collectives: called, returned, globalTid, id (of the communicator)."""
    names = _ids(report, NCCL_SYNCHRONOUS)
    rows = report.table(
        schema.NVTX, ["start", "end", "eventType", "text", "textId", "globalTid", "jsonText", "jsonTextId"]
    ).filter(
        pl.col("eventType").is_in(PUSH_POP)
        & (pl.col("textId").is_in(names.implode()) | pl.col("text").str.contains(NCCL_SYNCHRONOUS))
    )
    texts = report.strings.rename({"id": "jsonTextId", "text": "registered"})
    said = rows.join(texts, on="jsonTextId", how="left").with_columns(
        id=pl.coalesce("jsonText", "registered").str.extract(_COMMUNICATOR)
    )
    return said.drop_nulls(["id", "end"]).select("globalTid", "id", called="start", returned="end")


def _ids(report: Report, pattern: str) -> pl.Series:
    """Ids of the strings that match."""
    return report.strings.filter(pl.col("text").str.contains(pattern))["id"]


def _mpi(report: Report) -> list[pl.DataFrame]:
    """MPI_Init, synchronous collectives and point-to-point messages."""
    communicators = _communicators(report)
    return [_mpi_init(report), _mpi_collectives(report, communicators), *_mpi_messages(report, communicators)]


def _mpi_init(report: Report) -> pl.DataFrame:
    rows = _named(report, schema.MPI_OTHER, ["start", "end", "globalTid", "textId"], MPI_INIT)
    return rows.sort("start").head(1).select(
        kind=pl.lit("init"), communicator=pl.lit("mpi init"), sequence=pl.lit(0), ranks=pl.lit(None, pl.Int64),
        start="start", end="end",
    )  # fmt: skip


def _mpi_collectives(report: Report, communicators: pl.DataFrame) -> pl.DataFrame:
    columns = ["start", "end", "globalTid", "textId", "commHandle"]
    rows = _named(report, schema.MPI_COLLECTIVE, columns, MPI_SYNCHRONOUS)
    return (
        rows.join(communicators, on="commHandle", how="inner")
        .sort("start")
        .select(
            kind=pl.lit("collective"),
            communicator=pl.format("mpi {}", "name"),
            sequence=pl.int_range(pl.len()).over("globalTid", "name"),
            ranks="size",
            start="start",
            end="end",
        )
    )


def _mpi_messages(report: Report, communicators: pl.DataFrame) -> list[pl.DataFrame]:
    """The begin of each send and the end of each receive (of its wait, where it has one), k-th to k-th of its kind."""
    columns = ["start", "end", "textId", "commHandle", "tag", "remoteRank", "requestHandle"]
    # A call that sends and receives is two rows of one begin: the send of no length, then the receive.
    rows = _named(report, schema.MPI_P2P, columns, "").join(communicators, on="commHandle", how="inner")
    both = pl.col("text").str.contains(r"(?i)sendrecv")
    second = pl.col("end") == pl.col("end").max().over("commHandle", "text", "start")
    sends = rows.filter(pl.col("text").str.contains(_SENDS) & ~(both & second))
    receives = rows.filter(pl.col("text").str.contains(_RECEIVES) & ~(both & ~second) & (pl.col("remoteRank") >= 0))
    waits = report.table(schema.MPI_WAIT, ["start", "end", "requestHandle"]).drop_nulls().sort("start")
    later = waits.select("requestHandle", waited="start", completed="end")
    pending = pl.col("text").str.contains("(?i)^MPI_I")
    receives = (
        receives.sort("start")
        .join_asof(later, left_on="start", right_on="waited", by="requestHandle", strategy="forward",
                   check_sortedness=False)
        .with_columns(end=pl.when(pending).then("completed").otherwise("end"))
    )  # fmt: skip
    return [
        _ends(sends, "send", pl.col("localRank"), pl.col("remoteRank")),
        _ends(receives, "recv", pl.col("remoteRank"), pl.col("localRank")).drop_nulls("end"),
    ]


def _ends(rows: pl.DataFrame, kind: str, source: pl.Expr, target: pl.Expr) -> pl.DataFrame:
    key = pl.format("mpi {} {}>{} tag {}", "name", source, target, pl.col("tag").fill_null(0))
    numbered = rows.sort("start").with_columns(communicator=key)
    return numbered.select(
        kind=pl.lit(kind),
        communicator="communicator",
        sequence=pl.int_range(pl.len()).over("communicator"),
        ranks=pl.lit(2, pl.Int64),
        start="start",
        end="end",
    )


def _named(report: Report, table: Table, columns: Sequence[str], pattern: str) -> pl.DataFrame:
    """Rows whose function name matches, with `text`."""
    rows = report.table(table, columns).drop_nulls(["start", "end"])
    texts = report.strings.rename({"id": "textId"})
    return rows.join(texts, on="textId", how="inner").filter(pl.col("text").str.contains(pattern))


def _communicators(report: Report) -> pl.DataFrame:
    """commHandle (a pointer of the process) -> name that all ranks agree on, localRank, size.

    The name is that of the parent, then the root of the group and which of the parent's children it is, in the order of
    their making: communicators are made collectively, so that order is the same on all members.
    """
    rows = report.table(schema.MPI_COMMUNICATORS).sort("timestamp").unique("commHandle", keep="first")
    names: dict[int, str] = {}
    children: dict[int, int] = {}
    for handle, parent, root in rows.sort("timestamp").select("commHandle", "parentHandle", "groupRoot").rows():
        if parent in names:
            children[parent] = children.get(parent, 0) + 1
            names[handle] = f"{names[parent]}.{children[parent]}({root})"
        else:
            names[handle] = "world"
    named = pl.DataFrame({"commHandle": list(names), "name": list(names.values())}, schema=_NAMED)
    return named.join(rows.select("commHandle", "localRank", "size"), on="commHandle", how="inner")


_NAMED = {"commHandle": pl.Int64(), "name": pl.String()}
