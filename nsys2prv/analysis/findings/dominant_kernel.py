"""A kernel that takes most of compute and is no product: whoever wants a faster run begins with it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.devices.attention_scores import kernels_on_scores
from nsys2prv.analysis.facts.kernel_families import GATHERS, PRODUCTS
from nsys2prv.analysis.facts.thresholds import DOMINANT
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short

# Names of kernels that sort: of CUB, Thrust and PyTorch.
SORTS = r"(?i)sort"
# cuFFT's kernels for lengths with a large prime factor. On an H200 length 8,191 takes 4.8 times as long as 8,192.
BLUESTEIN = r"(?i)bluestein"
_PAD = (
    "These transforms have a length with a large prime factor, for which cuFFT takes Bluestein's algorithm: pad to a "
    "length of factors 2, 3, 5 and 7 (8192 in place of 8191), which takes a fraction of the time. "
)


def dominant_kernel(case: Case) -> Iterator[Finding]:
    """Yield the kernel that takes most of compute and of the critical path. What it could save is not known.

    GPUs are made for products, and a program that mostly computes them has no fault. Gathers, and kernels on scores
    of attention, have findings of theirs.
    """
    of_scores = pl.col("work").is_in(kernels_on_scores(case)["work"].implode())
    by_name = case.kernels.filter(~of_scores).group_by("name", "family").agg(pl.col("ns").sum(), count=pl.len())
    by_name = by_name.with_columns(pl.col("name", "family").cast(pl.String))
    if by_name.is_empty():
        return
    name, family, total, count = by_name.sort("ns", "name").row(-1)
    share, time = case.share_of_compute(total), case.kernel_time(total, pl.col("name") == name)
    on_path = time.path_ns / case.iteration_ns if case.iteration_ns else 0.0
    if min(share, on_path) < DOMINANT.value or family == GATHERS or re.match(PRODUCTS, family):
        return
    pad = _PAD if re.search(BLUESTEIN, name) else ""
    less = ", top-k in place of a sort" if re.search(SORTS, name) else ""
    launches = max(round(case.of_device(count)), 1)
    often = f"{launches:,} launches of {text_ms(total / count)}" if launches > 1 else "one launch"
    yield Finding(
        "dominant-kernel",
        f"`{short(name, 40)}` takes {100 * share:.0f} % of compute, {time.text} ({often})",
        0.0,
        f"{pad}Begin here: see whether it can do less (a smaller type, fewer elements{less}), whether a library does "
        "it faster, and what limits it: ncu --set full -k NAME, then nsys2prv analyze RUN --ncu FILE. Look there for "
        "blocks that take much longer than others, accesses that are not coalesced, and memory that lies on the host.",
        evidence={
            "kernel": name,
            "launches": round(count / case.step_count),
            "kernel_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
        },
        command="nsys2prv analyze RUN --show kernels",
        cfg="analysis/kernel_time_by_class",
        at_ns=case.first_start(pl.col("name") == name),
        severity="medium",
    )
