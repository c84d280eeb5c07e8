"""CUDA graphs that a program instantiates in its loop, though one can be launched again and again."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.long_calls import calls_meanwhile
from nsys2prv.analysis.facts.thresholds import MANY_GRAPHS, PART_PLACE, RECURS
from nsys2prv.analysis.text_columns import text_contains

INSTANTIATES = text_contains("name", r"^cu(?:da)?GraphInstantiate")
KEEP = Words(
    general="Launch one again, and change it by cudaGraphExecUpdate.",
    pytorch="Launch one again (replay()), and copy new input into the tensors that it reads.",
    jax="XLA makes one for each function that it compiles: call jax.jit once, before the loop.",
)


def advice_on_graphs(case: Case) -> str:
    """Return advice if each rank instantiates graphs in half of the iterations or more, or many in the window."""
    count = case.kept_calls(case.run.calls.filter(pl.col("kind") == "cuda", INSTANTIATES)).height
    of_rank = count / max(case.run.rank_count, 1)
    if of_rank < (RECURS.value * case.step_count if case.analysis.window.iterations else MANY_GRAPHS.value):
        return ""
    return f"First keep CUDA graphs: {count:,} are instantiated in the window. {KEEP.of(case.framework)} "


def graphs_meanwhile(case: Case, idle: float) -> str:
    """Return the end of a title if hosts instantiate graphs for a good part of an idle time (ns of an iteration)."""
    own = calls_meanwhile(case, (pl.col("kind") == "cuda") & INSTANTIATES)
    filled = not own.is_empty() and float(own["each_ns"].sum()) >= PART_PLACE.value * idle
    return ", while CUDA graphs are instantiated" if filled else ""
