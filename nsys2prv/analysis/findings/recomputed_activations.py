"""Activations that the backward pass computes again, as activation checkpointing does to save memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.repeated_passes import BACKWARD, OPTIMIZER
from nsys2prv.analysis.facts.kernel_families import PRODUCTS
from nsys2prv.analysis.facts.thresholds import LOW, MEDIUM
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.graph.critical_path import HOST
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.intervals.spans import time_in
from nsys2prv.model.units import text_ms

# What the layers of a model compute; casts, copies and elementwise kernels are alike in both passes.
LAYERS = f"{PRODUCTS}|^normalization"
# Kernels over lists of tensors, of optimizers and of parameters that FSDP gathers in both passes.
OVER_LISTS = f"{OPTIMIZER}|split_with_sizes_copy"
# A kernel as it is told from others, and the iteration of a process.
_KERNEL = ["name", "class", "shape", "resources"]
_STEP = ["task", "repeat", "number"]


def recomputed_activations(case: Case) -> Iterator[Finding]:
    """Yield the time of forward kernels that backward passes launch again.

    It is medium at most: who computes activations again has chosen so, to save memory.
    """
    found = _recomputed(case)
    total = float(found["ns"].sum())
    time = case.kernel_time(total, pl.col("work").is_in(found["work"].implode()))
    if time.device_ns < max(LOW.value * case.iteration_ns, 1):
        return
    launching = _launching_on_path(case, found)
    cost = max(time.saved_at_most, launching)
    slow_hosts = cost > time.saved_at_most
    how_long = (
        f"{text_ms(time.device_ns)} {case.unit}, and launching it takes {text_ms(launching)} of the critical path"
    )
    yield Finding(
        "recomputed-activations",
        f"The backward pass computes activations again: {100 * case.share_of_compute(total):.0f} % of compute, "
        f"{how_long if slow_hosts else time.text}",
        cost,
        f"This trades time for memory. If memory allows{_filled(case)}, keep some activations: checkpoint fewer layers "
        "(every second one), or keep the results of products and attention (torch.utils.checkpoint with "
        "create_selective_checkpoint_contexts). Smaller microbatches leave more room for that.",
        iterations=case.iterations,
        evidence={
            "recomputed_ns": round(time.device_ns),
            "on_critical_path_ns": round(time.path_ns),
            "launching_on_critical_path_ns": round(launching),
            "kernels": round(case.of_device(found.height)),
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show kernels,iterations",
        cfg="analysis/kernel_time_by_class",
        at_ns=int(found.select(at_longest("ns")).item()),
        severity="medium" if cost >= MEDIUM.value * case.iteration_ns else "low",
    )


def _launching_on_path(case: Case, found: pl.DataFrame) -> float:
    """Return how long the critical path is in hosts from the launch before each kernel of its process to its own.

    `found`: see _recomputed. The time is ns of an iteration.
    """
    rows, axis, key = case.launchers.rows, case.launchers.axis, ["caller_row", "launched"]
    every = case.run.work.select("task", *key).drop_nulls().unique().sort("task", "launched", "caller_row")
    since = every.with_columns(before=pl.col("launched").shift(1).over("task")).drop_nulls()
    launches = found.select(key).unique().join(since, on=key)
    threads = np.searchsorted(rows, launches["caller_row"].to_numpy())
    launching = axis.union(threads, *(launches[c].to_numpy() for c in ("before", "launched")))
    path = case.analysis.explanation.path.filter(
        pl.col("kind") == HOST, pl.col("row").is_in(pl.Series(rows).implode()), pl.col("end") > pl.col("start")
    )
    on_thread = np.searchsorted(rows, path["row"].to_numpy())
    start, end = (axis.at(on_thread, path[c].to_numpy()) for c in ("start", "end"))
    return float((time_in(launching, end) - time_in(launching, start)).sum()) / case.step_count


def _filled(case: Case) -> str:
    """Return how full the memory of the fullest GPU was, in brackets; an empty text where reports do not say."""
    known = [one for one in case.run.hardware if one.memory_peaks and one.capacity.memory]
    filled = max((one.memory_peaks[0] / one.capacity.memory for one in known), default=0.0)
    return f" (a process holds at most {100 * filled:.0f} % of a GPU's)" if known else ""


def _recomputed(case: Case) -> pl.DataFrame:
    """Return the kernels (`ordered` of a case) that threads of backward passes launch as the forward pass did.

    Those are rows of three different kernels or more (name, class, grid and resources) that occur in the iteration
    among the launches of other threads of the process, too, there at least as often, with a layer's work among them.
    Kernels over lists of tensors do not count.
    """
    run, every = case.run, case.ordered
    threads = [row for row, label in enumerate(run.row_labels) if label.startswith(BACKWARD)]
    if not threads or not case.analysis.window.iterations:
        return every.clear()
    ordered = (
        every.drop_nulls(["caller_row", "launched", "number", "shape"])
        .filter(~text_contains("name", OVER_LISTS))
        .sort("task", "caller_row", "launched")
    )
    distinct = ordered.select(_KERNEL).unique(maintain_order=True).with_row_index("kernel")
    ordered = ordered.join(distinct, on=_KERNEL, nulls_equal=True, maintain_order="left").with_row_index("position")
    ordered = ordered.with_columns(
        thread=pl.struct("caller_row", *_STEP).rle_id(), backward=pl.col("caller_row").is_in(threads)
    )
    second, third = (pl.col("kernel").shift(-n) for n in (1, 2))
    threes = ordered.with_columns(second=second, third=third).filter(
        pl.col("thread") == pl.col("thread").shift(-2),
        pl.col("kernel") != pl.col("second"),
        pl.col("second") != pl.col("third"),
        pl.col("third") != pl.col("kernel"),
    )
    key = [*_STEP, "kernel", "second", "third"]
    counted = threes.group_by(key).agg(again=pl.col("backward").sum(), forward=(~pl.col("backward")).sum())
    again = counted.filter(pl.col("again") > 0, pl.col("again") <= pl.col("forward"))
    begins = threes.filter("backward").join(again, on=key, how="semi")["position"]
    positions = pl.concat([begins + n for n in range(3)]).unique()
    found = ordered.filter(pl.col("position").is_in(positions.implode()))
    # Two rows of kernels are apart in position or thread.
    apart = (pl.col("position").diff() != 1) | (pl.col("thread").diff() != 0)
    rows = found.with_columns(run=apart.fill_null(False).cum_sum())
    of_layers = pl.col("family").cast(pl.String).str.contains(LAYERS).any() & (pl.col("name").n_unique() > 1)
    return rows.filter(of_layers.over("run"))
