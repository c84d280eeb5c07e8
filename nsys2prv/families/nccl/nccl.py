"""NCCL: its calls on host threads and its kernels, apart from other kernels since they communicate.

Both carry the payload: communicator, bytes, operation, reduction, root, peer, and the sequence number by which the
same collective is found on every rank.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.families.device.kernels import (
    EMITS,
    READS,
    KernelClasses,
    chosen_kernels,
    count_kernels,
    kernel_intervals,
)
from nsys2prv.families.device_work import CALL_KEYS
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.nccl.nccl_anchors import collective_anchors
from nsys2prv.families.nccl.nccl_calls import (
    OF_PARENT,
    RECV_CALL,
    SEND_CALL,
    SEND_RECV,
    SEVERAL,
    call_events,
    members_of,
    nccl_calls,
)
from nsys2prv.families.nccl.nccl_launches import Unsettled, settle
from nsys2prv.families.nvtx_counts import nvtx_counts
from nsys2prv.families.nvtx_events import NVTX_READS
from nsys2prv.families.source import Source
from nsys2prv.intervals.shortest import end_of
from nsys2prv.model import event_types as types
from nsys2prv.model import frames
from nsys2prv.model.frames import Intervals, OperationEnds
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.interning import FROM_CALLS, UNKNOWN_GPU
from nsys2prv.model.line_tags import NCCL_TAG
from nsys2prv.model.losses import Loss
from nsys2prv.model.schemas import to_schema
from nsys2prv.report import schema

PAYLOAD = {
    types.NCCL_COMMUNICATOR.key: "communicator",
    types.NCCL_BYTES.key: "bytes",
    types.NCCL_OPERATION.key: "operation",
    types.NCCL_REDUCTION.key: "reduction",
    types.NCCL_ROOT.key: "root",
    types.NCCL_PEER.key: "peer",
    types.NCCL_SEQUENCE.key: "sequence",
}
# Both bandwidths are size over time, all that a report alone can give, until the number of ranks is known.
_OF_KERNEL = (types.NCCL_MEMBERS.key, types.NCCL_ALGORITHM_BANDWIDTH.key, types.NCCL_BUS_BANDWIDTH.key)
ON_KERNELS = (*PAYLOAD, *_OF_KERNEL)


class NcclState(NamedTuple):
    """State for the next slice: see Unsettled, KernelClasses and SliceFacts."""

    unsettled: Unsettled = Unsettled()
    classes: KernelClasses = KernelClasses()
    facts: SliceFacts | None = None


class SliceFacts(NamedTuple):
    """Facts of all slices so far that are used with the last slice.

    `callers`: threads of NCCL calls (globalTid); `alone`: number of kernels without the payload of their call, by
    caller; `ranks`: what calls say of the rank and the number of ranks on a communicator.
    """

    callers: pl.DataFrame
    alone: pl.DataFrame
    ranks: pl.DataFrame

    def after(self, earlier: SliceFacts | None) -> SliceFacts:
        """Return the facts of earlier slices, then these."""
        if earlier is None:
            return self
        alone = pl.concat([earlier.alone, self.alone]).group_by("caller").agg(pl.col("kernels").sum())
        callers, ranks = (
            pl.concat(both).unique(maintain_order=True)
            for both in ((earlier.callers, self.callers), (earlier.ranks, self.ranks))
        )
        return SliceFacts(callers, alone, ranks)


def _frames(source: Source, state: NcclState) -> Frames[NcclState]:
    """Yield calls, kernels with the payload of their call, the ends of operations, and anchors."""
    kernels, events = chosen_kernels(source, nccl=True), call_events(source)
    # Computing with empty frames takes a sixth of the time of a small report.
    if kernels.is_empty() and events.is_empty() and not state.unsettled.begun:
        return state
    settled, unsettled = settle(source, state.unsettled, kernels, nccl_calls(source, events))
    kernels, calls = settled.kernels, settled.calls
    yield _host_calls(source, settled.begun)
    named = kernels.select("caller", "called", "start", name=source.texts(kernels["shortName"]))
    members = members_of(named.with_columns(unit=settled.units, device=settled.devices), calls)
    carried = carried_payloads(kernels, calls, members)
    facts = _slice_facts(kernels, carried, calls, settled.begun).after(state.facts)
    of_unknown = calls.filter((pl.col("device") == UNKNOWN_GPU) & pl.col("number").is_not_null())
    source.tally.count(Loss.OF_UNKNOWN_GPU, of_unknown.height)
    if source.slice.last:
        _count_alone(source, facts)
        _take_ranks(source, facts.ranks, settled.several)
    frame = pl.concat([kernels, _attributes(source, carried), carried.select(*_OF_KERNEL)], how="horizontal")
    intervals, classes = kernel_intervals(source, state.classes, frame, types.NCCL_KERNEL, ON_KERNELS)
    yield intervals
    yield _ends(source, kernels, calls, members)
    if source.options.anchors:
        yield collective_anchors(kernels, calls, members)
    return NcclState(unsettled, classes, facts)


def _slice_facts(kernels: pl.DataFrame, carried: pl.DataFrame, calls: pl.DataFrame, begun: pl.DataFrame) -> SliceFacts:
    """Return the facts of one slice. Calls that are no operations, such as ncclCommInitRank, give ranks."""
    ranks = begun.filter(~pl.col("text").is_in(OF_PARENT)).select(
        "communicator", "rank", "ranks", "gpu", process=process_of(pl.col("globalTid"))
    )
    return SliceFacts(
        callers=calls.select("globalTid").unique(),
        alone=kernels.filter(carried["communicator"].is_null() & carried["bytes"].is_null())
        .group_by("caller")
        .agg(kernels=pl.len()),
        ranks=ranks.drop_nulls(["communicator", "rank", "ranks"]).unique(maintain_order=True),
    )


def _count_alone(source: Source, facts: SliceFacts) -> None:
    """Count kernels without the payload of their call, in a report that has NCCL calls."""
    if facts.callers.is_empty():
        return
    elsewhere = int(facts.alone.filter(~pl.col("caller").is_in(facts.callers["globalTid"].implode()))["kernels"].sum())
    source.tally.count(Loss.OTHER_NCCL_THREAD, elsewhere)
    source.tally.count(Loss.NO_NCCL_CALL, int(facts.alone["kernels"].sum()) - elsewhere)


def _take_ranks(source: Source, ranks: pl.DataFrame, several: pl.Series) -> None:
    """Number the processes on communicators whose rank a call gives."""
    each = ranks.group_by("process", "communicator", "rank", "ranks", maintain_order=True).agg(pl.col("gpu").max())
    # Kernels of a process' other GPUs may be in another report.
    shared = pl.col("process").is_in(several.implode()) | (pl.len().over("process", "communicator") > 1)
    each = each.with_columns(shared=shared).with_columns(device=pl.when("shared").then("gpu"))
    # A member without a GPU, or with two ranks, gets no rank.
    alone = pl.len().over("process", "communicator", "device") == 1
    one = each.filter(alone & (~pl.col("shared") | (pl.col("device") >= 0)))
    source.members.ids(one)


def _host_calls(source: Source, calls: pl.DataFrame) -> Intervals:
    frame = pl.concat([calls.select("start", "end", "globalTid"), _attributes(source, calls)], how="horizontal")
    key = types.NCCL_CALL.key
    numbered = frame.with_columns(slot=source.slot(key), value=source.labels.ids(key, calls["text"]))
    return source.thread_intervals(numbered, tuple(PAYLOAD))


def _attributes(source: Source, frame: pl.DataFrame) -> pl.DataFrame:
    """Return payload columns as values of their event types."""
    communicator = types.NCCL_COMMUNICATOR.key
    ids = source.labels.ids(communicator, frame["communicator"]).alias(communicator)
    numbers = {
        k: pl.col(c) + 1 if c in ("root", "peer") else pl.col(c) for k, c in PAYLOAD.items() if k != communicator
    }
    return frame.select(ids, **numbers)


def carried_payloads(kernels: pl.DataFrame, calls: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Return the payload of each kernel: columns in which all its calls agree, bytes summed, and _OF_KERNEL.

    `members` comes from members_of.
    """
    each = members.join(calls.with_row_index("call"), on="call", maintain_order="left")
    agreed = [
        pl.when(pl.col(c).n_unique() == 1).then(pl.col(c).first()).alias(c)
        for c in ("communicator", "operation", "reduction", "root", "peer")
    ]
    counted = pl.col("bytes").filter("counts")
    sent, received = (
        pl.col("bytes").filter(pl.col("counts") & (pl.col("operation") == o)).sum() for o in (SEND_CALL, RECV_CALL)
    )
    summed = each.group_by("kernel").agg(
        *agreed,
        bytes=pl.when(pl.col("bytes").is_not_null().any()).then(counted.sum()),
        sequence=pl.col("sequence").drop_nulls().first(),
        mixed=pl.when(pl.col("operation").is_in([SEND_CALL, RECV_CALL]).all()).then(SEND_RECV).otherwise(SEVERAL),
        # A send and a receive at once count once, as in NCCL's own tests.
        moved=pl.max_horizontal(counted.sum() - sent - received, sent, received),
        members=pl.len().cast(pl.Int64),
    )
    rows = kernels.select("start", "end").with_row_index("kernel")
    joined = rows.join(summed, on="kernel", how="left", maintain_order="left")
    seconds = pl.max_horizontal(pl.col("end") - pl.col("start"), 1) / 1e9
    return joined.with_columns(
        operation=pl.coalesce("operation", "mixed"),
        **{
            types.NCCL_MEMBERS.key: pl.col("members"),
            **dict.fromkeys(_OF_KERNEL[1:], (pl.col("moved") / seconds).round().cast(pl.Int64, strict=False)),
        },
    )


def _ends(source: Source, kernels: pl.DataFrame, calls: pl.DataFrame, members: pl.DataFrame) -> OperationEnds:
    """Return a rank's part of each operation: on the first kernel that carries it, else on its call (no activity)."""
    operations = calls.with_row_index("call").filter(pl.col("number").is_not_null())
    carrying = members.filter("counts").select("call", "kernel")
    work = kernels.select("place", began="start", ended="end", ran_on="deviceId").with_row_index("kernel")
    ends = operations.join(carrying.join(work, on="kernel"), on="call", how="left", maintain_order="left")
    ends = ends.with_columns(
        process=process_of(pl.col("globalTid")),
        kind=pl.when(pl.col("operation") == SEND_CALL)
        .then(frames.SEND)
        .when(pl.col("operation") == RECV_CALL)
        .then(frames.RECEIVE)
        .otherwise(frames.COLLECTIVE),
        place=pl.coalesce("place", source.places.threads(ends["globalTid"])),
        size="bytes",
        tag=pl.lit(NCCL_TAG),
    )
    members_rows = ends.with_columns(
        highest=pl.max_horizontal("peer", "root"), gpu="ran_on", called=pl.lit(FROM_CALLS, pl.Int64)
    )
    ends = ends.with_columns(source.members.ids(members_rows)).with_columns(
        sequence="number",
        peer=pl.when(pl.col("kind") == frames.COLLECTIVE).then("root").otherwise("peer"),
        time=pl.when(pl.col("kind") == frames.RECEIVE)
        .then(pl.coalesce("ended", "end"))
        .otherwise(pl.coalesce("began", "start")),
        ended=end_of("ended", "began"),
    )
    return OperationEnds(to_schema(ends, frames.OPERATION_END))


FAMILY = Family(
    name="nccl",
    title="NCCL calls and kernels",
    draws=(schema.KERNEL, schema.NVTX),
    reads={**READS, schema.RUNTIME: CALL_KEYS, **NVTX_READS},
    emits=(
        types.NCCL_KERNEL,
        types.NCCL_CALL,
        *(types.EVENT_TYPES[k] for k in ON_KERNELS),
        *EMITS,
    ),
    frames=_frames,
    state=NcclState,
    count=lambda report: count_kernels(report, nccl=True) + nvtx_counts(report).calls,
    public=("nccl",),
    sliced=True,
    anchors=True,
    work="nccl",
)
