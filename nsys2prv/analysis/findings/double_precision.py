"""Matrix products in double precision, which take several times as long as in single precision."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.thresholds import DOUBLE
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.words import short

# cuBLAS and CUTLASS: dgemm and zgemm, d884gemm and the like for tensor cores, and the data types of each operand.
DOUBLE_NAMES = r"(?i)(?:^|_)[dz](?:\d+)?gemm|f64f64_"


def double_precision(case: Case) -> Iterator[Finding]:
    """Yield products in double precision that take much of compute. Whether they need it is not known: no cost."""
    chosen = pl.col("class").str.starts_with("GEMM") & pl.col("name").str.contains(DOUBLE_NAMES)
    double = case.analysis.kernels.filter(pl.col("rank").is_null() & chosen)
    total = float(double["total_ns"].sum())
    share = case.share_of_compute(total)
    if double.is_empty() or share < DOUBLE.value:
        return
    time, name = case.kernel_time(total, chosen), double["name"][0]
    yield Finding(
        "double-precision",
        f"Matrix products in double precision (`{short(name, 40)}`) take {100 * share:.0f} % of compute, {time.text}",
        0.0,
        "Where the result allows it, compute in FP32 with TF32, or refine a result of lower precision (cuSOLVER's "
        "iterative refinement): tensor cores are several times as fast then.",
        evidence={
            "kernels": double["name"].head(5).to_list(),
            "products_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
        },
        command="nsys2prv analyze RUN --show kernels",
        cfg="analysis/kernel_time_by_class",
        at_ns=case.first_start(pl.col("name").cast(pl.String) == name),
        severity="medium",
    )
