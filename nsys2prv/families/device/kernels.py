"""Kernels on their streams, with every launch attribute.

NCCL's kernels are the nccl family's. Others that communicate, by the rules of kernel classes, have the event type of
NCCL's here, so that efficiencies, overlap and cfgs take all of them for communication.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import polars as pl

from nsys2prv.families.device_work import DEVICE_KEYS, NODE_KEYS, original_nodes
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source, after
from nsys2prv.intervals.classes import classify_kernels, family_of
from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.model.frames import Intervals
from nsys2prv.report import schema
from nsys2prv.report.report import Report

# ncclAllReduceRingLLKernel_* before NCCL 2.8, ncclKernel_* before 2.19, ncclDevKernel_* since, ncclSymkDevKernel_* on
# symmetric memory from 2.27 on. Not oneRankReduce, the kernel of a communicator of one rank, which waits for nobody.
NCCL_NAME = r"^(?i:nccl(?:symk?)?(?:dev)?kernel)|^nccl[A-Z][0-9A-Za-z]*Kernel_[a-z]"

# Column of the report -> event type, for attributes that are written unchanged.
ATTRIBUTES: dict[str, EventType] = {
    **{f"grid{a}": t for a, t in zip("XYZ", types.GRID, strict=True)},
    **{f"block{a}": t for a, t in zip("XYZ", types.BLOCK, strict=True)},
    "staticSharedMemory": types.STATIC_SHARED,
    "dynamicSharedMemory": types.DYNAMIC_SHARED,
    "localMemoryPerThread": types.LOCAL_MEMORY,
    "registersPerThread": types.REGISTERS,
    "correlationId": types.CORRELATION,
    "graphNodeId": types.GRAPH_NODE,
}
READS = {
    schema.KERNEL: (*DEVICE_KEYS, "shortName", "demangledName", *(c for c in ATTRIBUTES if c != "correlationId")),
    schema.GRAPH_NODE_EVENTS: NODE_KEYS,
}
EMITS = (
    types.KERNEL_FULL_NAME,
    types.KERNEL_CLASS,
    types.KERNEL_FAMILY,
    *ATTRIBUTES.values(),
    types.GRAPH_ORIGINAL,
)


def count_kernels(report: Report, nccl: bool) -> int:
    """Count NCCL's kernels of a report, or the other ones."""
    names = report.table(schema.KERNEL, ["shortName"])
    texts = names.join(report.strings, left_on="shortName", right_on="id", how="left")["text"]
    of_nccl = int(texts.str.contains(NCCL_NAME).sum())
    return of_nccl if nccl else names.height - of_nccl


def is_nccl(source: Source, kernels: pl.DataFrame) -> pl.Expr:
    """Return True for kernels that are NCCL's by their `shortName`."""
    names = kernels["shortName"].unique()
    return pl.col("shortName").is_in(names.filter(source.texts(names).str.contains(NCCL_NAME)).implode())


def chosen_kernels(source: Source, nccl: bool) -> pl.DataFrame:
    """Return NCCL's kernels, or the other ones: see Source.device_work."""
    kernels = source.device_work(schema.KERNEL)
    return kernels.filter(is_nccl(source, kernels) == nccl)


class KernelClasses(NamedTuple):
    """Classes of all kernel names so far.

    `known`: shortName, demangledName, class and family of classes (columns named by the keys of KERNEL_CLASS and
    KERNEL_FAMILY), and `communication` (Boolean). None before the first kernel.
    """

    known: pl.DataFrame | None = None

    def communicating(self) -> pl.DataFrame:
        """Return the names of kernels that communicate: shortName, demangledName."""
        assert self.known is not None
        return self.known.filter("communication").select(_NAME_COLUMNS)


def kernel_intervals(
    source: Source,
    classes: KernelClasses,
    kernels: pl.DataFrame,
    event_type: EventType,
    attributes: tuple[str, ...] = (),
) -> tuple[Intervals, KernelClasses]:
    """Return kernels as intervals of one event type, and all classes known by then.

    `attributes`: further columns beside those of the launch.
    """
    full_name = types.KERNEL_FULL_NAME.key
    frame = kernels.with_columns(
        slot=source.slot(event_type.key),
        value=source.label_ids(event_type.key, kernels["shortName"]),
        **{t.key: pl.col(c) for c, t in ATTRIBUTES.items()},
        **{full_name: source.label_ids(full_name, kernels["demangledName"])},
        **{types.GRAPH_ORIGINAL.key: original_nodes(source.table, kernels["globalPid"], kernels["graphNodeId"])},
    )
    numbers, classes = _kernel_classes(source, classes, kernels)
    named = pl.concat([frame, numbers], how="horizontal")
    launch = (t.key for t in (*ATTRIBUTES.values(), types.GRAPH_ORIGINAL))
    return source.intervals(named, (full_name, *numbers.columns, *launch, *attributes)), classes


def _kernel_classes(
    source: Source, classes: KernelClasses, kernels: pl.DataFrame
) -> tuple[pl.DataFrame, KernelClasses]:
    """Return label numbers of each kernel's class and family of classes, named by their event types."""
    if kernels.is_empty():
        return pl.DataFrame(schema={t.key: pl.Int64() for t in _CLASS_TYPES}), classes
    distinct = kernels.select(_NAME_COLUMNS).unique(maintain_order=True)
    known = _classed(source, classes.known, distinct)
    named = distinct.join(known, on=_NAME_COLUMNS, how="left", nulls_equal=True, maintain_order="left")
    numbered = named.with_columns(source.labels.ids(t.key, named[t.key]).alias(t.key) for t in _CLASS_TYPES)
    joined = kernels.select(_NAME_COLUMNS).join(
        numbered, on=_NAME_COLUMNS, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.drop(*_NAME_COLUMNS, "communication"), KernelClasses(known)


_NAME_COLUMNS = ["shortName", "demangledName"]
_CLASS_TYPES = (types.KERNEL_CLASS, types.KERNEL_FAMILY)


def _classed(source: Source, known: pl.DataFrame | None, drawn: pl.DataFrame) -> pl.DataFrame:
    """Return KernelClasses.known with the names of all kernels so far, and of the `drawn` ones of earlier slices.

    Rules take some 13 ms to try, whatever the number of names: they are tried once a slice, and only on new names.
    """
    distinct = pl.concat([source.device_work(schema.KERNEL).select(_NAME_COLUMNS), drawn]).unique(maintain_order=True)
    fresh = distinct if known is None else distinct.join(known, on=_NAME_COLUMNS, how="anti", nulls_equal=True)
    if fresh.height:
        classed = fresh.with_columns(_classes(source, fresh))
        known = after(known, classed)
    assert known is not None
    return known


def _classes(source: Source, distinct: pl.DataFrame) -> list[pl.Series]:
    """Return class, family and `communication` of kernels by their names' ids."""
    names = pl.DataFrame({"short": source.texts(distinct["shortName"])})
    demangled = source.texts(distinct["demangledName"])
    found = classify_kernels(names.with_columns(demangled=demangled), source.options.rules)
    families = pl.Series([family_of(c, source.options.rules) for c in found["class"]], dtype=pl.String)
    texts = zip(_CLASS_TYPES, (found["class"], families), strict=True)
    return [*(one.alias(event_type.key) for event_type, one in texts), found["communication"]]


def is_communication(source: Source, kernels: pl.DataFrame) -> pl.Series:
    """Return True for kernels that communicate, NCCL's among them."""
    distinct = kernels.select(_NAME_COLUMNS).unique(maintain_order=True)
    communication = _classes(source, distinct)[-1].alias("communication")
    told = kernels.select(_NAME_COLUMNS).join(
        distinct.with_columns(communication), on=_NAME_COLUMNS, how="left", nulls_equal=True, maintain_order="left"
    )
    of_nccl = kernels.select(is_nccl(source, kernels).alias("nccl"))["nccl"]
    return told["communication"] | of_nccl


def _frames(source: Source, state: KernelClasses) -> Frames[KernelClasses]:
    kernels = chosen_kernels(source, nccl=False)
    moves = kernels.clear()
    if kernels.height:
        state = KernelClasses(_classed(source, state.known, kernels.select(_NAME_COLUMNS).unique(maintain_order=True)))
        moves = kernels.join(
            state.communicating(), on=_NAME_COLUMNS, how="semi", nulls_equal=True, maintain_order="left"
        )
    if moves.height:
        kernels = kernels.join(
            state.communicating(), on=_NAME_COLUMNS, how="anti", nulls_equal=True, maintain_order="left"
        )
        intervals, state = kernel_intervals(source, state, moves, types.NCCL_KERNEL)
        yield intervals
    intervals, state = kernel_intervals(source, state, kernels, types.KERNEL)
    yield intervals
    return state


FAMILY = Family(
    name="kernels",
    title="Kernels",
    draws=(schema.KERNEL,),
    reads=READS,
    emits=(types.KERNEL, types.NCCL_KERNEL, *EMITS),
    frames=_frames,
    state=KernelClasses,
    count=partial(count_kernels, nccl=False),
    public=("cuda_gpu_trace", "cuda_api_trace", "kernels"),
    sliced=True,
    work="kernel",
)
