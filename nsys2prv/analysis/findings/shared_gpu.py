"""A GPU that another process uses, too: kernels of any kind now and then pause for a time slice."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.devices.time_slices import TimeSlices, time_slices
from nsys2prv.analysis.facts.ranks.uneven_ranks import excess_by_step, uneven_rank
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import few_ranks


def shared_gpu(case: Case) -> Iterator[Finding]:
    """Yield the GPU whose kernels lose most time in pauses for another process."""
    found = time_slices(case)
    if found is None:
        return
    device, several = found.device, len(found.ranks) > 1
    cost = _cost(case, found)
    saved = f", of which {text_ms(cost)} can be saved" if cost < found.lost_ns else ""
    who = f"{few_ranks(found.ranks).capitalize()} share" if several else "Another process shares"
    lost = f"{'of which one loses' if several else 'in all'} {text_ms(found.lost_ns)} {case.unit}"
    whose = "their kernels" if several else f"the kernels of rank {found.ranks[0]}"
    yield Finding(
        "shared-gpu",
        f"{who} GPU {device.gpu} of {device.host} in time slices: {whose} pause "
        f"{_often(case, found.pauses)}, most for {text_ms(found.slice_ns)}, {lost}{saved}",
        cost,
        "Give each process a GPU of its own (CUDA_VISIBLE_DEVICES, the scheduler's binding), or let them run at one "
        "time by MPS; nvidia-smi lists the processes on a GPU.",
        ranks=named_ranks(found.ranks),
        iterations=case.iterations,
        evidence={
            "pauses": found.pauses,
            "kernels": found.kernels,
            "slice_ns": round(found.slice_ns),
            "lost_ns": round(found.lost_ns),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels",
        cfg="analysis/kernel_duration",
        at_ns=found.at,
    )


def _often(case: Case, pauses: int) -> str:
    """Return how often kernels pause, in words: `2.5 times an iteration`, `once in 4 iterations`."""
    if not case.analysis.window.iterations:
        return f"{pauses} times {case.unit}"
    if pauses >= case.step_count:
        return f"{pauses / case.step_count:.1f} times {case.unit}"
    every = round(case.step_count / pauses)
    return f"once in {every} iterations" if every > 1 else f"{pauses} times in {case.step_count} iterations"


def _cost(case: Case, found: TimeSlices) -> float:
    """Return what a GPU of its own gains (ns of an iteration).

    Where others wait for the rank and its only GPU, it is as much as the rank computes longer than the mean, or as
    equal shares gain: then others are as late.
    """
    worst = uneven_rank(case)
    if worst is None or found.ranks != (worst.member,) or len(shared_compute(case)[worst.member]) > 1:
        return found.lost_ns
    longer = float(excess_by_step(case, worst.member)["excess"].clip(lower_bound=0).sum()) / case.step_count
    return min(found.lost_ns, max(case.gain("imbalance=0"), longer))
