"""Kernels that an autotuner times in the loop, for each new size."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short

ADVICE = Words(
    general="Choose between kernels once, before the loop: try them for a few rounded sizes, and keep what was found.",
    pytorch="Choose between kernels once, before the loop: leave sizes that change out of the key of triton.autotune "
    "or round them (triton.next_power_of_2), mark them as dynamic for torch.compile, or keep what was found "
    "(triton.autotune(cache_results=True)).",
)


def timed_kernels(case: Case) -> Iterator[Finding]:
    """Yield the time in which kernels are launched only to be timed."""
    found = case.timed
    if not found.launches:
        return
    launches, cost = case.of_device(found.launches), case.of_device(found.devices.total())
    yield Finding(
        "timed-kernels",
        f"Kernels such as `{short(found.name, 40)}` are launched {launches:,.0f} times {case.unit} to be timed, "
        f"as by an autotuner, {text_ms(cost)} {case.unit}",
        cost,
        ADVICE.of(case.framework),
        iterations=case.iterations,
        evidence={"kernel": found.name, "launches": round(launches), "timed_ns": round(cost)},
        command="nsys2prv analyze RUN --show kernels,launches",
        cfg="views/kernel_classes",
        at_ns=found.at,
    )
