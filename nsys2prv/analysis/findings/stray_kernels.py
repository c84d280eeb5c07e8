"""Ranks that work on the GPU of another rank, besides their own."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.ranks.stray_work import OWN_DEVICE, stray_work
from nsys2prv.analysis.findings.finding import Finding, named_ranks, severity_of
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import few_ranks


def stray_kernels(case: Case) -> Iterator[Finding]:
    """Yield the GPU on which ranks work that have another one, with what the critical path takes there."""
    if (found := stray_work(case)) is None:
        return
    gpu, one = case.run.devices[found.device], len(found.ranks) == 1
    kernels = "a kernel" if round(found.kernels) == 1 else f"{found.kernels:,.0f} kernels"
    waits = f": {text_ms(found.path_ns)} on the critical path, with copies between GPUs" if found.path_ns else ""
    # At home the same work takes a part of that time, and hosts may take another.
    cost = found.path_ns / 2
    yield Finding(
        "stray-kernels",
        f"{few_ranks(found.ranks).capitalize()} {'launches' if one else 'launch'} {kernels} {case.unit} on GPU "
        f"{gpu.gpu} of {gpu.host}, which is rank {found.owner}'s{waits}",
        cost,
        OWN_DEVICE.of(case.framework),
        ranks=named_ranks(found.ranks),
        iterations=case.iterations,
        evidence={
            "kernels": round(found.kernels, 1),
            "owner": found.owner,
            "on_critical_path_ns": round(found.path_ns),
        },
        command="nsys2prv analyze RUN --show devices,memory",
        cfg="views/streams",
        at_ns=found.at,
        # Also where it costs nothing yet, it takes memory and time of a GPU that another rank uses.
        severity=severity_of(cost / case.iteration_ns) or "low",
    )
