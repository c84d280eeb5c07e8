"""A late GPU: other GPUs of its process wait for it, and its kernels are not the reason."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.ranks.chief_cause import chief_cause, host_work
from nsys2prv.analysis.facts.ranks.latecomers import Latecomer, latecomer_devices
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.graph.critical_path import HOST
from nsys2prv.model.units import text_ms


def late_gpu(case: Case) -> Iterator[Finding]:
    """Yield the GPU that other GPUs of its process wait for the longest though it computes no longer."""
    late = next((one for one in latecomer_devices(case) if not one.by_compute), None)
    if late is None:
        return
    device = case.run.devices[late.member]
    cause = chief_cause(case, device.rank)
    name = cause.name if cause and cause.kind == HOST else ""
    whom = (
        f"{len(late.waiting)} other GPUs" if len(late.waiting) > 1 else f"GPU {case.run.devices[late.waiting[0]].gpu}"
    )
    why = f", because of {host_work(name)}" if name else ""
    # No more can be gained than the time that the host itself waits.
    cost = min(late.net_ns, case.slack((device.rank,)))
    yield Finding(
        "late-gpu",
        f"GPU {device.gpu} of rank {device.rank} delays {whom} of its process by {text_ms(late.net_ns)} "
        f"{case.unit}{why}",
        cost,
        _advice(case, late),
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


def _advice(case: Case, late: Latecomer) -> str:
    """Return what to do, by whether a thread launches for several GPUs."""
    launches = case.run.work.select("device", "caller_row").filter(pl.col("caller_row").is_not_null()).unique()
    own = launches.filter(pl.col("device") == late.member)["caller_row"]
    others = launches.filter(pl.col("device").is_in(late.waiting))["caller_row"]
    gpu = case.run.devices[late.member].gpu
    if own.is_in(others.implode()).any():
        return (
            f"The thread that launches for GPU {gpu} launches for the other GPUs first. A process for each GPU "
            "launches side by side; CUDA graphs and fused kernels launch less."
        )
    return (
        f"See what the thread that launches for GPU {gpu} does before: sleeps, locks, data. Python's threads wait for "
        "one interpreter lock; with a process for each GPU they do not."
    )
