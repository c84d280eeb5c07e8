"""The bubble of a pipeline: waiting for messages in which all of its stages wait."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.thresholds import BUBBLE
from nsys2prv.analysis.frames import NCCL


@once
def bubble(case: Case) -> float:
    """Return the exposed waiting in NCCL messages (ns of an iteration), the mean of ranks that all wait; else 0.

    In a pipeline every stage waits for another one. Ranks that only send and receive at once, as in a ring, are none.
    """
    messages = case.exposed.filter(pl.col("kind") == NCCL, pl.col("operation").str.contains("Send|Recv"))
    if not messages["operation"].is_in(["Send", "Recv"]).any():
        return 0.0
    by_rank = messages.group_by("rank").agg(pl.col("exposed_waiting_ns").sum() / case.step_count)["exposed_waiting_ns"]
    if by_rank.len() < 2 or (by_rank < BUBBLE.value * case.iteration_ns).any():
        return 0.0
    return float(by_rank.to_numpy().mean())
