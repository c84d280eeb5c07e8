"""Imbalance within a process: one of its GPUs computes longer than the others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.ranks.latecomers import latecomer_devices
from nsys2prv.analysis.facts.ranks.longer_kernels import advice_on_longer
from nsys2prv.analysis.facts.ranks.uneven_ranks import uneven_rank
from nsys2prv.analysis.facts.thresholds import LATE, MEDIUM, NEAR
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms

HOSTS_KEPT = (
    "That gain keeps the pauses of hosts: where these wait for this GPU, as at a barrier of threads, equal shares gain "
    "up to {}."
)


def gpu_imbalance(case: Case) -> Iterator[Finding]:
    """Yield the GPU that computes longest over the mean of its process, if equal shares gain or others wait for it.

    Where a rank computes longer than the others, the finding `imbalance` names its GPU instead.
    """
    longer = _longer_than_mean(case)
    if not longer or uneven_rank(case):
        return
    gain = case.gain("imbalance=0")
    worst, excess = max(longer.items(), key=lambda one: (one[1], -one[0]))
    net = next((one.net_ns for one in latecomer_devices(case) if one.member == worst and one.by_compute), 0.0)
    if excess < LATE.value * case.iteration_ns or not (net or gain >= MEDIUM.value * case.iteration_ns):
        return
    device = case.run.devices[worst]
    cost = max(gain, min(excess, net))
    less = cost < (1 - NEAR.value) * excess
    # Threads of one process may wait for each other in ways that a report does not have.
    kept = f" {HOSTS_KEPT.format(text_ms(excess))}" if less and not net else ""
    others = [other for other in shared_compute(case)[device.rank] if other != worst]
    yield Finding(
        "gpu-imbalance",
        f"GPU {device.gpu} of rank {device.rank} computes {text_ms(excess)} longer than the mean of its process"
        f"{case.in_window}{', and the others wait' if net else ''}{f': equal shares gain {text_ms(cost)}' * less}",
        cost,
        f"{advice_on_longer(case, worst, others, excess)}{kept}",
        ranks=(device.rank,),
        iterations=case.iterations,
        evidence={
            "gpu": device.gpu,
            "longer_than_mean_ns": round(excess),
            "exposed_waiting_ns": round(net),
            "load_balance": round(case.analysis.efficiency.load_balance, 4),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="analysis/useful_time",
        at_ns=case.first_start(pl.col("device") == worst),
    )


def _longer_than_mean(case: Case) -> dict[int, float]:
    """Return how much longer than the mean of its rank each device computes (ns of an iteration).

    Devices of ranks that share their work over one device only are left out.
    """
    several = [own for own in shared_compute(case).values() if len(own) > 1]
    return {n: time - sum(own.values()) / len(own) for own in several for n, time in own.items()}
