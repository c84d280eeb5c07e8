"""Gathers and scatters: kernels that read or add rows by index take much of compute."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.kernel_families import GATHERS
from nsys2prv.analysis.facts.thresholds import GATHERED, GATHERS_SAVED, MOSTLY_SORTED
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.model.words import short

# PyTorch's kernels that add the rows of each sorted index one by one (aten/src/ATen/native/cuda/Indexing.cu): others
# have names with `_small_stride` and the like at their end.
SORTED = "indexing_backward_kernel"
ADVICE = Words(
    general="Gather and add at once: a product with a sparse matrix, or a sum over sorted indices, writes no row of "
    "each index in between. Sort indices, so that rows near each other are read together.",
    pytorch="Gather and add at once: a product with a sparse matrix (torch.sparse.mm, CSR), or a sum over sorted "
    "indices (torch.segment_reduce, torch_scatter's segment_csr), writes no row of each index in between. Sort "
    "indices, so that rows near each other are read together.",
    jax="Gather and add at once: a product with a sparse matrix (jax.experimental.sparse), or jax.ops.segment_sum with "
    "indices_are_sorted=True, which needs no atomic additions.",
    cupy="Gather and add at once: a product with a sparse matrix (cupyx.scipy.sparse), or one kernel of your own, "
    "writes no row of each index in between.",
)
ADVICE_ON_SORTED = (
    f"Most of it is in `{SORTED}`, which adds the rows of equal indices one after another: PyTorch launches it in the "
    "backward pass of `x[index]`, and for index_add_, embeddings and others under torch.use_deterministic_algorithms. "
    "Gather by index_select or an embedding, leave determinism to tests, or make equal indices fewer."
)


def gathers(case: Case) -> Iterator[Finding]:
    """Yield what could be saved of gathers and scatters, where they take much of compute."""
    kernels = case.kernels.filter(pl.col("family") == GATHERS)
    total = int(kernels["ns"].sum())
    share = case.share_of_compute(total)
    if share < GATHERED.value:
        return
    time = case.kernel_time(total, pl.col("family") == GATHERS)
    by_name = kernels.group_by(pl.col("name").cast(pl.String)).agg(pl.col("ns").sum()).sort(-pl.col("ns"), "name")
    of_sorted = int(by_name.filter(pl.col("name").str.starts_with(SORTED))["ns"].sum()) >= MOSTLY_SORTED.value * total
    yield Finding(
        "gathers",
        f"Gathers and scatters (`{short(by_name['name'][0], 40)}`) take {100 * share:.0f} % of compute, {time.text}; "
        "about half can be saved",
        GATHERS_SAVED.value * time.saved_at_most,
        ADVICE_ON_SORTED if of_sorted else ADVICE.of(case.framework),
        evidence={
            "gathers_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
            "kernels": by_name["name"].head(5).to_list(),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels,classes",
        cfg="analysis/kernel_time_by_class",
        at_ns=int(kernels.select(at_longest("ns")).item()),
    )
