"""Imbalance within a process: one of its GPUs computes longer than the others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.changes import LEAST_SHARE
from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.imbalance import ADVICE, uneven_rank
from nsys2prv.analysis.findings.lateness import late_devices
from nsys2prv.analysis.findings.thresholds import LATE, MEDIUM


def gpu_imbalance(case: Case) -> Iterator[Finding]:
    """Yield the GPU that computes longest over the mean of its process, if equal shares gain or others wait for it.

    Where a rank computes longer than the others, that finding names its GPU.
    """
    longer = _longer_than_mean(case)
    if not longer or uneven_rank(case):
        return
    gain = case.gain("imbalance=0")
    worst, excess = max(longer.items(), key=lambda one: (one[1], -one[0]))
    net = next((one.net_ns for one in late_devices(case) if one.member == worst and one.by_compute), 0.0)
    if excess < LATE.value * case.iteration_ns or not (net or gain >= MEDIUM.value * case.iteration_ns):
        return
    device = case.run.devices[worst]
    yield Finding(
        "gpu-imbalance",
        f"GPU {device.gpu} of rank {device.rank} computes {text_ms(excess)} longer than the mean of its process, and "
        "the others wait",
        max(gain, min(excess, net)),
        f"Share the work of the process evenly: compare the kernels of that GPU with another's. {ADVICE}",
        ranks=(device.rank,),
        iterations=case.iterations,
        evidence={
            "gpu": device.gpu,
            "longer_than_mean_ns": round(excess),
            "exposed_waiting_ns": round(net),
            "load_balance": round(case.found.efficiency.load_balance, 4),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="analysis/useful_time",
    )


def _longer_than_mean(case: Case) -> dict[int, float]:
    """Return how much longer than the mean of its rank each device computes (ns of an iteration).

    Devices without a share in the work of their rank, and those that share it with none, are left out.
    """
    by_rank: dict[int, list[int]] = {}
    for number, device in enumerate(case.run.devices):
        by_rank.setdefault(device.rank, []).append(number)
    found: dict[int, float] = {}
    for devices in by_rank.values():
        most = max(case.useful[n] for n in devices)
        sharing = [n for n in devices if case.useful[n] >= LEAST_SHARE * most]
        mean = sum(case.useful[n] for n in sharing) / len(sharing)
        found |= {n: case.useful[n] - mean for n in sharing if len(sharing) > 1}
    return found
