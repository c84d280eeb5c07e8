"""Gradients that are reduced several times for one step of the optimizer, as in accumulation without no_sync."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.repeated_passes import find_repeated
from nsys2prv.analysis.facts.thresholds import LOW, MEDIUM
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms


def repeated_reductions(case: Case) -> Iterator[Finding]:
    """Yield what it costs to reduce gradients in each of several backward passes for one step of the optimizer."""
    if (found := find_repeated(case)) is None:
        return
    slow_hosts = found.saved_ns < LOW.value * case.iteration_ns <= MEDIUM.value * case.iteration_ns <= found.exposed_ns
    yield Finding(
        "repeated-reductions",
        f"Gradients are reduced in each of {found.passes} backward passes {case.unit}, for one step of the optimizer: "
        f"{text_ms(found.exposed_ns)} of transfers that are not hidden",
        found.saved_ns,
        "Reduce them in the last pass alone: put the others into `with model.no_sync():` (DistributedDataParallel), "
        "forward and backward. Then ranks wait for each other once, too"
        + (". The hosts are the slower part here; they launch less then, too." if slow_hosts else "."),
        iterations=case.iterations,
        evidence={
            "passes": found.passes,
            "reductions_a_pass": found.reductions,
            "exposed_transfer_ns": round(found.exposed_ns),
            "gain_without_transfers_ns": round(case.gain("transfer=0")),
        },
        command="nsys2prv analyze RUN --show overlap,communication",
        cfg="analysis/overlap_of_window",
        at_ns=found.at,
        severity="medium" if slow_hosts else None,
    )
