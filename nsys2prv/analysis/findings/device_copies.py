"""Copies within a device beside which nothing else runs there."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.frames import COPY, NCCL, OF_DEVICE
from nsys2prv.analysis.interval_frames import at_longest, covered_by, whole_with_ns
from nsys2prv.intervals.spans import difference
from nsys2prv.model.units import text_ms

_IN_PLACE = Words(
    general="Write results to where they are needed, and swap two buffers in place of copying one to the other.",
    pytorch="Write results to where they are needed (`out=`, in-place operations, views in place of .clone(), "
    ".contiguous() and .repeat()).",
    jax="Donate arrays that a step replaces (jax.jit with donate_argnums), so that XLA writes to them, and leave out "
    "jnp.array and .copy() of whole arrays in the loop.",
    cupy="Write results to where they are needed (`out=`, in-place operations), and leave out .copy() in the loop.",
    cuda="Swap two pointers in place of copying one buffer to the other (cudaMemcpyDeviceToDevice), and let kernels "
    "write results to where they are needed.",
)


def device_copies(case: Case) -> Iterator[Finding]:
    """Yield the time of copies within a device that run alone, of the device with most of it."""
    copied = pl.col("name") == OF_DEVICE
    copies = whole_with_ns(case.run.work.filter(pl.col("kind") == COPY, copied), case.analysis.window.spans)
    if copies.is_empty():
        return
    axis, window = case.device_work.axis, case.analysis.window.spans
    other = case.run.work.filter(pl.col("kind").is_in([*USEFUL_KINDS, NCCL]))
    alone = difference(covered_by(axis, copies, "device", window), covered_by(axis, other, "device"))
    by_device = axis.sums(alone)
    device = int(by_device.argmax())
    lost = int(by_device[device]) / case.step_count
    if not lost:
        return
    own = copies.filter(pl.col("device") == device)
    moved = case.analysis.memory_kinds.filter(pl.col("rank").is_null() & copied)["bytes"].sum()
    yield Finding(
        "device-copies",
        f"Copies within a device run alone {text_ms(lost)} {case.unit}",
        lost,
        _IN_PLACE.of(case.framework),
        ranks=named_ranks(case.run.rank(task) for task in own["task"].unique()),
        iterations=case.iterations,
        evidence={"bytes": round(case.of_device(int(moved)))},
        confidence="medium",
        command="nsys2prv analyze RUN --show memory-kinds,memory",
        cfg="analysis/memory_bandwidth",
        at_ns=int(own.select(at_longest("ns")).item()),
    )
