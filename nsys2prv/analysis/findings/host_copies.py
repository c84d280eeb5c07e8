"""Copies between host and device beside which nothing else runs: of pageable memory, and of other memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.chief_cause import ChiefCause
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.findings.framework import Words
from nsys2prv.analysis.findings.thresholds import ATTAINABLE, PINNED_SAVED, SAME_BYTES
from nsys2prv.analysis.frames import COPY, NCCL
from nsys2prv.analysis.graph.critical_path import COPYING
from nsys2prv.analysis.graph.host_labels import call_of
from nsys2prv.analysis.interval_frames import at_longest, covered_by, whole_with_ns
from nsys2prv.families.host.cuda_api import LAUNCHING
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, difference
from nsys2prv.model.device_kinds import DeviceKind

_PAGEABLE = pl.col("memory").cast(pl.String).str.contains("Pageable").fill_null(False)
_FROM_PAGEABLE = pl.col("memory").cast(pl.String).str.starts_with("Pageable").fill_null(False)
_WITH_HOST = pl.col("name").cast(pl.String).is_in(["Host-to-Device", "Device-to-Host"])

PIN = Words(
    general="Allocate host buffers as pinned memory (cudaMallocHost; PyTorch: pin_memory=True), and copy "
    "asynchronously on a stream of their own.",
    pytorch="Allocate host buffers as pinned memory (pin_memory=True) and copy asynchronously on a stream of their own "
    "(non_blocking=True).",
    jax="Put arrays on the device ahead of time, few and large (jax.device_put does not wait), and keep them there "
    "from step to step: memory of NumPy is pageable.",
    cupy="Allocate host buffers as pinned memory (cupyx.empty_pinned, numba.cuda.pinned_array), and copy on a stream "
    "of their own (stream=).",
    cuda="Allocate host buffers as pinned memory (cudaMallocHost, cudaHostAlloc), and copy by cudaMemcpyAsync on a "
    "stream of their own.",
)
BESIDE_KERNELS = Words(
    general="Keep on the device what is needed again (recompute rather than offload), copy on a stream of their own "
    "while kernels run, fetch before use, and send fewer bytes.",
    cuda="Keep on the device what is needed again, copy by cudaMemcpyAsync on a stream of their own while kernels run, "
    "and send fewer bytes; with a CUDA-aware MPI messages need no copy.",
)
KEPT = Words(
    general="arrays of the device rather than of NumPy, data regions of OpenACC and OpenMP",
    pytorch="an optimizer on the GPU, activations that are computed again",
    jax="arrays of jax.numpy rather than of NumPy",
    cupy="numba.cuda.to_device, cupy.asarray",
    cuda="data regions of OpenACC and OpenMP, buffers of the device that are allocated once",
)


def host_copies(case: Case) -> Iterator[Finding]:
    """Yield the time of copies of pageable memory, which the driver copies twice, and of others, as of offloading."""
    copies = case.run.work.filter((pl.col("kind") == COPY) & (_PAGEABLE | _WITH_HOST))
    if copies.is_empty():
        return
    other = case.run.work.filter(pl.col("kind").is_in([*USEFUL_KINDS, NCCL]))
    busy = covered_by(axis_over(case.analysis.window.spans, len(case.run.devices)), other, "device")
    for chosen, name, title, saved, advice in (
        (
            _PAGEABLE,
            "pageable-copies",
            "Copies of pageable memory",
            PINNED_SAVED.value,
            f"{_of_round_trips(case)}{PIN.of(case.framework)}",
        ),
        (
            _WITH_HOST & ~_PAGEABLE,
            "exposed-copies",
            "Copies between host and device",
            ATTAINABLE.value,
            BESIDE_KERNELS.of(case.framework),
        ),
    ):
        own = whole_with_ns(copies.filter(chosen), case.analysis.window.spans)
        if lost := _exposed(case, own, busy):
            yield Finding(
                name,
                f"{title} run alone {text_ms(lost)} {case.unit}, of which {text_ms(saved * lost)} can be saved",
                saved * lost,
                advice,
                ranks=named_ranks(case.run.rank(task) for task in own["task"].unique()),
                evidence={"exposed_copies_ns": round(lost), **_amounts(case, chosen)},
                command="nsys2prv analyze RUN --show memory-kinds",
                cfg="analysis/memory_bandwidth",
                at_ns=int(own.select(at_longest("ns")).item()),
            )


def advice_on_pageable(case: Case, rank: int, cause: ChiefCause | None) -> str:
    """Return what to do about a rank that is late as it copies pageable memory to its device; else "".

    Its copies on the device take half of the delay or more: the host waits for each of them.
    """
    if cause is None or not (cause.kind == COPYING or re.match(LAUNCHING[DeviceKind.COPY], call_of(cause.name))):
        return ""
    copies = case.run.work.filter(pl.col("kind") == COPY, _FROM_PAGEABLE, task=case.run.task_by_rank[rank])
    ns = int(whole_with_ns(copies, case.analysis.window.spans)["ns"].sum()) / case.step_count
    if not ns or 2 * ns < cause.ns:
        return ""
    return (
        f"Rank {rank} copies pageable memory, {text_ms(ns)} {case.unit}, and its host waits for each copy. "
        f"{PIN.of(case.framework)}"
    )


def _exposed(case: Case, copies: pl.DataFrame, busy: Spans) -> float:
    """Return the time (ns of an iteration) of copies, in WORK, outside `busy`, on the device with most of it."""
    axis = axis_over(case.analysis.window.spans, len(case.run.devices))
    copying = covered_by(axis, copies, "device", case.analysis.window.spans)
    return int(axis.sums(difference(copying, busy)).max(initial=0)) / case.step_count


def _of_round_trips(case: Case) -> str:
    """Return advice where as many bytes of pageable memory come back from devices as go there; else an empty text."""
    kinds = case.analysis.memory_kinds.filter(pl.col("rank").is_null() & _PAGEABLE)
    to_device, to_host = (
        int(kinds.filter(pl.col("name") == name)["bytes"].sum()) for name in ("Host-to-Device", "Device-to-Host")
    )
    if not to_device or abs(to_device - to_host) > SAME_BYTES.value * max(to_device, to_host):
        return ""
    return (
        "As many bytes come back from the device as go there: keep on it what is needed again "
        f"({KEPT.of(case.framework)}). "
    )


def _amounts(case: Case, chosen: pl.Expr) -> dict[str, object]:
    """Return bytes (of a device in an iteration, the mean), GB/s and kinds of memory of copies."""
    kinds = case.analysis.memory_kinds.filter(pl.col("rank").is_null() & chosen)
    size, time = int(kinds["bytes"].sum()), int(kinds["total_ns"].sum())
    moved = round(size / case.step_count / max(len(case.run.devices), 1))
    return {"bytes": moved, "gb_s": round(size / time, 3) if time else None, "kinds": kinds["memory"].to_list()}
