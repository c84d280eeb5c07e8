"""Backward passes of one step of the optimizer that all reduce the same gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.communication.nccl_transfers import nccl_transfers
from nsys2prv.analysis.facts.long_steps import steps_of_ranks
from nsys2prv.analysis.facts.thresholds import LOW, OF_FORWARD, SAME_REDUCTION
from nsys2prv.analysis.frames import GRAPH, KERNEL
from nsys2prv.analysis.interval_frames import at_longest, parts_by
from nsys2prv.analysis.text_columns import text_contains

# PyTorch's threads of backward passes, in which DistributedDataParallel reduces gradients.
BACKWARD = "pt_autograd"
# Kernels of PyTorch's optimizers that update many tensors at once, of Apex, and of scaling and clipping before it.
OPTIMIZER = r"multi_tensor_apply|(?i)fused_?(?:adam|sgd|lamb)"
_STEP = ["task", "repeat", "number"]


class Repeated(NamedTuple):
    """Reductions of gradients that one pass could do.

    `passes`: backward passes of an iteration; `reductions`: of each. Times in ns of an iteration and a device:
    `exposed_ns`, the exposed transfer of all passes but the last, `saved_ns` what of it is gained without them.
    `at`: begin of the longest of these transfers.
    """

    passes: int
    reductions: int
    exposed_ns: float
    saved_ns: float
    at: int


def saved_by_reducing_once(case: Case) -> float:
    """Return the time (ns of an iteration) that reducing gradients once gains, 0 if that is little."""
    found = find_repeated(case)
    return found.saved_ns if found and found.saved_ns >= LOW.value * case.iteration_ns else 0.0


@once
def find_repeated(case: Case) -> Repeated | None:
    """Find reductions of the same gradients in several passes of each iteration; None where they are not certain.

    Those are the all-reduces that threads of backward passes launch, in each pass the same ones in order: of equal
    bytes, grid and communicator, without bytes in the report of like transfer times. A pass begins where the thread
    that launches most others launches, as in a forward pass. Kernels of an optimizer run only outside of them, and
    other threads all-reduce hardly anything: that of activations repeats, too.
    """
    run = case.run
    threads = [row for row, label in enumerate(run.row_labels) if label.startswith(BACKWARD)]
    if not threads or not case.analysis.window.iterations:
        return None
    every = nccl_transfers(case).filter(pl.col("operation") == "AllReduce")
    backward = pl.col("caller_row").is_in(threads).fill_null(False)
    own = every.filter(backward)
    if int(every.filter(~backward)["transfer_ns"].sum()) > OF_FORWARD.value * int(own["transfer_ns"].sum()):
        return None
    passes = _with_passes(case, own, ~backward)
    if passes.is_empty():
        return None
    by_step = passes.group_by(_STEP).agg(
        pl.col("pass").n_unique(), first=pl.col("launched").min(), last=pl.col("launched").max()
    )
    count, per_pass = int(by_step["pass"][0]), passes.group_by(*_STEP, "pass").len()["len"]
    if count < 2 or by_step["pass"].n_unique() > 1 or per_pass.n_unique() > 1:
        return None
    if not _same_in_each_pass(passes) or not _one_optimizer(case, by_step):
        return None
    early = passes.filter(pl.col("pass") < pl.col("pass").max().over(_STEP), pl.col("last").is_not_null())
    exposed = case.of_device(float(early["exposed_ns"].sum()))
    at = early.select(at_longest("exposed_ns", "ready")).item()
    return Repeated(count, int(per_pass[0]), exposed, min(exposed, case.gain("transfer=0")), at)


def _same_in_each_pass(passes: pl.DataFrame) -> bool:
    """Return True if the reductions at one position of all passes may be of the same gradients."""
    alike = passes.group_by("task", "position").agg(pl.col("bytes", "shape", "communicator").n_unique())
    if not alike.select(pl.all_horizontal(pl.col("bytes", "shape", "communicator") == 1).all()).item():
        return False
    nth = pl.col("pass").rank("dense").over(_STEP)
    # Several parts without bytes sum up to 0.
    unknown = passes.filter(pl.col("bytes").fill_null(0) == 0)
    times = unknown.group_by("task", "position", nth).agg(pl.col("transfer_ns").median())
    spread = times.group_by("task", "position").agg(least=pl.col("transfer_ns").min(), most=pl.col("transfer_ns").max())
    return bool((spread["most"] <= SAME_REDUCTION.value * spread["least"]).all())


def _with_passes(case: Case, own: pl.DataFrame, forward: pl.Expr) -> pl.DataFrame:
    """Add the iteration (task, repeat, number) of steady ones, the `pass` in it, and the `position` in that.

    `forward`: True for the launches between two passes.
    """
    steps = steps_of_ranks(case.run, case.analysis.iterations).filter("steady").sort("start")
    ordered = own.sort("launched").join_asof(
        steps.select(*_STEP, begin="start", until="end"),
        left_on="launched",
        right_on="begin",
        by="task",
        strategy="backward",
        check_sortedness=False,
    )
    ordered = ordered.filter(pl.col("launched") < pl.col("until"))
    known = case.run.work.select("task", "caller_row", "launched", "kind").drop_nulls("launched")
    launches = known.filter(pl.col("kind").is_in([KERNEL, GRAPH]), forward)
    by_task, parts = parts_by(launches, "task"), []
    for (task,), part in ordered.group_by("task", maintain_order=True):
        others = by_task.get(task, launches.clear())
        # Of several threads the one with most launches: others may prepare data all along.
        most = others["caller_row"].mode().sort().head(1)
        times = others.filter(pl.col("caller_row").is_in(most.implode()))["launched"].sort().to_numpy()
        parts.append(part.with_columns(**{"pass": pl.Series(np.searchsorted(times, part["launched"].to_numpy()))}))
    numbered = pl.concat(parts) if parts else ordered.with_columns(**{"pass": pl.lit(0)})
    return numbered.with_columns(position=pl.int_range(pl.len()).over(*_STEP, "pass"))


def _one_optimizer(case: Case, by_step: pl.DataFrame) -> bool:
    """Return True if kernels of an optimizer run in each iteration, and none between its backward passes."""
    named = case.run.work.filter(text_contains("name", OPTIMIZER))
    launched = named.select("task", "launched").drop_nulls()
    by_task = parts_by(launched, "task")
    for (task,), steps in by_step.group_by("task"):
        times = by_task.get(task, launched.clear())["launched"].sort().to_numpy()
        first, last = (np.searchsorted(times, steps[c].sort().to_numpy()) for c in ("first", "last"))
        # Between the last pass of each iteration and the first one of the next.
        if (first < last).any() or (last[:-1] >= first[1:]).any() or not len(times):
            return False
    return not by_step.is_empty()
