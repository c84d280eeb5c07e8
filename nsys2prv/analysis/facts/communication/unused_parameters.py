"""The search of PyTorch's DistributedDataParallel for parameters that a step does not use."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.repeated_passes import BACKWARD
from nsys2prv.analysis.frames import COPY, NCCL, TO_DEVICE
from nsys2prv.analysis.interval_frames import whole_with_ns
from nsys2prv.analysis.text_columns import text_contains

# NCCL's kernels that add up integers. Gradients are floating-point numbers.
ADDS_INTEGERS = r"AllReduce_Sum_[iu](?:32|64)"


def advice_on_unused_parameters(case: Case) -> str:
    """Return advice where each iteration looks for unused parameters, and a blank; else an empty text.

    With find_unused_parameters=True the host walks the graph of each step, and a thread of the backward pass then adds
    up, over all ranks, which parameters are used: integers (torch/csrc/distributed/c10d/reducer.cpp). Programs reduce
    integers of their own from other threads. With static_graph=True the first step alone does so.
    """
    run = case.run
    if not case.analysis.window.iterations:
        return ""
    threads = [row for row, label in enumerate(run.row_labels) if label.startswith(BACKWARD)]
    own = whole_with_ns(run.work.filter(pl.col("caller_row").is_in(threads)), case.analysis.window.spans)
    reduces = (pl.col("kind") == NCCL) & text_contains("name", ADDS_INTEGERS)
    # What each rank used goes to the device before.
    copies = (pl.col("kind") == COPY) & (pl.col("name") == TO_DEVICE)
    of_device = own.group_by("device").agg(reductions=reduces.sum(), copies=copies.sum())
    both = of_device.select(pl.min_horizontal("reductions", "copies").max()).item()
    if not both or both < case.step_count:
        return ""
    return (
        "DistributedDataParallel looks for unused parameters in each iteration: leave out find_unused_parameters=True, "
        "or set static_graph=True where the same ones are used each time. "
    )
