"""CUDA graphs that a program instantiates in its loop, though one can be launched again and again."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import MANY_GRAPHS, RECURS

INSTANTIATES = r"^cu(?:da)?GraphInstantiate"
KEEP = Words(
    general="Launch one again, and change it by cudaGraphExecUpdate.",
    pytorch="Launch one again (replay()), and copy new input into the tensors that it reads.",
    jax="XLA makes one for each function that it compiles: call jax.jit once, before the loop.",
)


def advice_on_graphs(case: Case) -> str:
    """Return advice if each rank instantiates graphs in half of the iterations or more, or many in the window."""
    names = pl.col("name").cast(pl.String)
    count = case.kept_calls(case.run.calls.filter(pl.col("kind") == "cuda", names.str.contains(INSTANTIATES))).height
    of_rank = count / max(case.run.rank_count, 1)
    if of_rank < (RECURS.value * case.step_count if case.analysis.window.iterations else MANY_GRAPHS.value):
        return ""
    return f"First keep CUDA graphs: {count:,} are instantiated in the window. {KEEP.of(case.framework)} "
