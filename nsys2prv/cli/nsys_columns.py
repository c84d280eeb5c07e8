"""Tables of sums under the columns of `nsys stats`, in its order, for scripts that read its CSV."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.sums_by_name import NVIDIA


class _Report(NamedTuple):
    """A report of `nsys stats`: its name, and its columns for the number of rows and for their name."""

    name: str
    rows: str
    named: str


# By section. The columns were taken from the scripts of nsys 2023.4.4.
REPORTS = {
    "kernels": _Report("cuda_gpu_kern_sum", "Instances", "Name"),
    "api": _Report("cuda_api_sum", "Num Calls", "Name"),
    "memory": _Report("cuda_gpu_mem_time_sum", "Count", "Operation"),
    "nvtx": _Report("nvtx_pushpop_sum", "Instances", "Range"),
}
_SUMS = ("Time (%)", "Total Time (ns)", "", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")


def as_nsys(section: str, table: pl.DataFrame) -> pl.DataFrame:
    """Return the sums over all ranks of a section of REPORTS under nsys's columns; ours that nsys lacks follow."""
    report = REPORTS[section]
    own = table.filter(pl.col("rank").is_null())
    if section == "api":
        own = own.filter(pl.col("kind") == "cuda")
    if section == "memory":
        memset = pl.col("name") == "memset"
        own = own.with_columns(
            name=pl.when(memset).then(pl.lit("[CUDA memset]")).otherwise(pl.format("[CUDA memcpy {}]", "name"))
        )
    names = dict(zip(NVIDIA, (name or report.rows for name in _SUMS), strict=True))
    further = [c for c in own.columns if c not in (*NVIDIA, "name", "rank")]
    return own.select(pl.col(list(NVIDIA)), "name", *further).rename({**names, "name": report.named})
