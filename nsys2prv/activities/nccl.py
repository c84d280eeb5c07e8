"""NCCL: its calls on host threads and its kernels, apart from the others since they are communication.

Both carry the payload: communicator, bytes, operation, reduction, root, peer, and the sequence number by which the
same collective is found on every rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.family import Family, Source
from nsys2prv.activities.kernels import EMITS, READS, chosen_kernels, count_kernels, kernel_intervals
from nsys2prv.activities.nccl_calls import (
    RECV,
    SEND,
    SEND_RECV,
    SEVERAL,
    count_calls,
    launched_by,
    members_of,
    nccl_calls,
)
from nsys2prv.activities.payloads import PAYLOAD_KEYS, PAYLOAD_READS
from nsys2prv.activities.relations import CALL_KEYS, NVTX_KEYS
from nsys2prv.paraver import event_types as types
from nsys2prv.report import Report, schema
from nsys2prv.timeline.frames import Intervals

NO_CALL = "kernels without their NCCL call in the report (drawn without payload)"

PAYLOAD = {
    types.NCCL_COMMUNICATOR.key: "communicator",
    types.NCCL_BYTES.key: "bytes",
    types.NCCL_OPERATION.key: "operation",
    types.NCCL_REDUCTION.key: "reduction",
    types.NCCL_ROOT.key: "root",
    types.NCCL_PEER.key: "peer",
    types.NCCL_SEQUENCE.key: "sequence",
}
ON_KERNELS = (*PAYLOAD, types.NCCL_MEMBERS.key)


def _frames(source: Source) -> Iterator[Intervals]:
    calls = nccl_calls(source)
    yield _host_calls(source, calls)
    kernels = chosen_kernels(source, nccl=True)
    carried = carried_payloads(source, kernels, calls)
    missing = int(carried["operation"].is_null().sum())
    source.tally.drop(NO_CALL, missing if calls.height else 0)
    frame = pl.concat([kernels, _attributes(source, carried), carried.select(types.NCCL_MEMBERS.key)], how="horizontal")
    yield kernel_intervals(source, frame, types.NCCL_KERNEL, ON_KERNELS)


def _host_calls(source: Source, calls: pl.DataFrame) -> Intervals:
    frame = pl.concat([calls.select("start", "end", "globalTid"), _attributes(source, calls)], how="horizontal")
    key = types.NCCL_CALL.key
    numbered = frame.with_columns(slot=pl.lit(source.slots.number(key)), value=source.labels.ids(key, calls["text"]))
    return source.thread_intervals(numbered, tuple(PAYLOAD))


def _attributes(source: Source, frame: pl.DataFrame) -> pl.DataFrame:
    """Payload columns as values of their event types."""
    communicator = types.NCCL_COMMUNICATOR.key
    ids = source.labels.ids(communicator, frame["communicator"]).alias(communicator)
    numbers = {
        k: pl.col(c) + 1 if c in ("root", "peer") else pl.col(c) for k, c in PAYLOAD.items() if k != communicator
    }
    return frame.select(ids, **numbers)


def carried_payloads(source: Source, kernels: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Payload of each NCCL kernel: the columns of calls where all that it carries agree, bytes summed, and members."""
    named = kernels.select("caller", "called", "start", name=source.texts(kernels["shortName"]))
    members = members_of(named.with_columns(unit=launched_by(kernels, calls)), calls)
    each = members.join(calls.with_row_index("call"), on="call", maintain_order="left")
    agreed = [
        pl.when(pl.col(c).n_unique() == 1).then(pl.col(c).first()).alias(c)
        for c in ("communicator", "operation", "reduction", "root", "peer")
    ]
    some_send_receive = pl.col("operation").is_in([SEND, RECV]).all()
    summed = each.group_by("kernel").agg(
        *agreed,
        bytes=pl.col("bytes").filter("counts").sum(),
        sequence=pl.col("sequence").drop_nulls().first(),
        mixed=pl.when(some_send_receive).then(SEND_RECV).otherwise(SEVERAL),
        members=pl.len().cast(pl.Int64),
    )
    rows = pl.DataFrame({"kernel": pl.Series(range(kernels.height), dtype=pl.UInt32)})
    return rows.join(summed, on="kernel", how="left", maintain_order="left").with_columns(
        operation=pl.coalesce("operation", "mixed"), **{types.NCCL_MEMBERS.key: pl.col("members")}
    )


def _count(report: Report) -> int:
    """NCCL kernels and calls."""
    return count_kernels(report, nccl=True) + count_calls(report)


FAMILY = Family(
    name="nccl",
    title="NCCL calls and kernels",
    draws=(schema.KERNEL, schema.NVTX),
    reads={**READS, schema.RUNTIME: CALL_KEYS, schema.NVTX: (*NVTX_KEYS, *PAYLOAD_KEYS), **PAYLOAD_READS},
    emits=(types.NCCL_KERNEL, types.NCCL_CALL, *(types.EVENT_TYPES[k] for k in ON_KERNELS), *EMITS),
    frames=_frames,
    count=_count,
    public="nccl",
)
