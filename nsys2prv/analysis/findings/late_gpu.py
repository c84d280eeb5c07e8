"""A late GPU: other GPUs of its process wait for it, and its kernels are not the reason."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.critical_path import HOST
from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.lateness import chief_cause, interpreter_lock, late_devices
from nsys2prv.analysis.host_labels import LAUNCHING
from nsys2prv.errors import short


def late_gpu(case: Case) -> Iterator[Finding]:
    """Yield the GPU that other GPUs of its process wait for the longest though it computes no longer."""
    late = next((one for one in late_devices(case) if not one.by_compute), None)
    if late is None:
        return
    device = case.run.devices[late.member]
    cause = chief_cause(case, device.rank)
    name = cause.name if cause and cause.kind == HOST else ""
    whom = (
        f"{len(late.waiting)} other GPUs" if len(late.waiting) > 1 else f"GPU {case.run.devices[late.waiting[0]].gpu}"
    )
    after = f", after {_work(name)}" if name else ""
    # The GPUs wait for no longer than their host has to spare.
    cost = min(late.net_ns, case.slack((device.rank,)))
    yield Finding(
        "late-gpu",
        f"GPU {device.gpu} of rank {device.rank} delays {whom} of its process by {text_ms(late.net_ns)} "
        f"{case.unit}{after}",
        cost,
        interpreter_lock(case, (device.rank,), name)
        or f"See what the host of rank {device.rank} does before it launches the work of GPU {device.gpu}: sleeps, "
        "locks, data, or launches for other GPUs first. A thread or a process for each GPU launches side by side.",
        ranks=(device.rank,),
        iterations=case.iterations,
        evidence={
            "gpu": device.gpu,
            "cause": name or None,
            "waiting_gpus": [case.run.devices[n].gpu for n in late.waiting],
            "exposed_waiting_ns": round(late.net_ns),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show waiting,causes",
        cfg="views/collective_arrival",
        at_ns=late.at,
    )


def _work(name: str) -> str:
    """Return the words for a cause by its name."""
    if name.startswith(LAUNCHING):
        return f"host work before `{short(name.removeprefix(LAUNCHING), 40)}`"
    return f"`{short(name, 40)}`"
