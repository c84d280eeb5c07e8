"""Matrix products on tensor cores whose operands are aligned to 2 or 4 bytes: dimensions are no multiples of 8."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import UNALIGNED_GAIN
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.words import short

# Classes of such kernels end so: the number of elements to which CUTLASS aligns its operands.
UNALIGNED = r" align[12]$"


def unaligned_products(case: Case) -> Iterator[Finding]:
    """Yield the time that padded dimensions would save."""
    unaligned = pl.col("class").str.contains(UNALIGNED)
    kernels = case.analysis.kernels.filter(pl.col("rank").is_null() & unaligned)
    if kernels.is_empty():
        return
    time = case.kernel_time(float(kernels["total_ns"].sum()), unaligned)
    kernel_class = kernels["class"][0]
    yield Finding(
        "unaligned-products",
        f"Matrix products have dimensions that are no multiples of 8 (`{short(kernel_class, 40)}`): {time.text}",
        time.saved_at_most * (1 - 1 / UNALIGNED_GAIN.value),
        "Pad the dimensions to multiples of 8: hidden sizes, vocabulary, columns of a rank, batch times sequence. Then "
        "libraries take kernels that load 16 bytes at a time.",
        evidence={
            "classes": kernels["class"].unique(maintain_order=True).head(5).to_list(),
            "products_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
        },
        command="nsys2prv analyze RUN --show kernels --by class",
        cfg="analysis/kernel_time_by_class",
        at_ns=case.first_start(pl.col("class").cast(pl.String) == kernel_class),
    )
