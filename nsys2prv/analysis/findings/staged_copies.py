"""Copies between GPUs that go through the host, as their GPUs cannot reach each other's memory."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.staged_copies import STAGED_COPY, waits_for_staged
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.thresholds import STAGED_SAVED
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.spans import difference
from nsys2prv.model.units import text_ms

_REACH = "where `nvidia-smi topo -p2p r` says OK"
_DIRECT = Words(
    general=f"Let the GPUs reach each other's memory ({_REACH}), so that copies between them go directly: peer access "
    "of the runtime, or NCCL.",
    pytorch=f"PyTorch copies directly between GPUs that can reach each other ({_REACH}): see what forbids it, as a "
    "container, IOMMU or ACS; else send less between GPUs.",
    cuda=f"Call cudaDeviceEnablePeerAccess for each pair of GPUs in both directions ({_REACH}) before the first copy: "
    "copies between them then go directly.",
)


def staged_copies(case: Case) -> Iterator[Finding]:
    """Yield the time in which devices wait for copies between GPUs that go through the host, and take part in them.

    The driver records only the last part of such a copy: most of it is idle time before that.
    """
    work, covered = case.run.work, kept_time(case.analysis)
    staged = work.filter(STAGED_COPY)
    if staged.is_empty():
        return
    axis, waits = waits_for_staged(case, covered)
    copying, other = (covered_by(axis, own, "device", covered) for own in (staged, work.filter(~STAGED_COPY)))
    waiting = axis.sums(waits) / case.step_count
    by_device = waiting + axis.sums(difference(copying, other)) / case.step_count
    device = int(by_device.argmax())
    lost = float(by_device[device])
    if not lost:
        return
    yield Finding(
        "staged-copies",
        f"Copies between GPUs go through the host: a device waits for them and copies for {text_ms(lost)} {case.unit}",
        STAGED_SAVED.value * lost,
        _DIRECT.of(case.framework),
        ranks=named_ranks(case.run.rank(task) for task in staged["task"].unique()),
        iterations=case.iterations,
        evidence={
            "staged_ns": round(lost),
            "waiting_ns": round(float(waiting[device])),
        },
        command="nsys2prv analyze RUN --show memory-kinds,idle",
        cfg="analysis/memory_bandwidth",
        at_ns=case.first_start(STAGED_COPY),
    )
