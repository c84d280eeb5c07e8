"""Waits of hosts for their devices: how often in an iteration, and whether one rank waits far more than others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Framework, Words
from nsys2prv.analysis.facts.gaps import kept_time
from nsys2prv.analysis.facts.hosts.launcher_waits import launching_threads, waits_of_launchers
from nsys2prv.analysis.facts.thresholds import (
    DATA_COPIES,
    NAMED_WAIT,
    NEARLY_ALL,
    RECURS,
    VALUE_BYTES,
    WAITS_IN_GRAPH,
    WAITS_MORE,
)
from nsys2prv.analysis.frames import COPY, TO_HOST
from nsys2prv.analysis.graph.device_waits import DEVICE_WIDE
from nsys2prv.intervals.spans import Spans
from nsys2prv.model.words import few

# Code that waits for the device as a whole, and for a stream or a copy. A program of CUDA makes the calls itself.
_FOR_DEVICE = Words(
    general="`synchronize()`",
    pytorch="`torch.cuda.synchronize()`",
    jax="`jax.block_until_ready`",
)
_FOR_VALUES = Words(
    general="values that it reads, copies to the host",
    pytorch="`.item()`, masks as indices, `torch.tensor` of lists, copies to the host",
    jax="`float(x)`, `np.asarray(x)`, `jax.block_until_ready`",
    cupy="`.get()`, `.item()`, `copy_to_host()`",
)
COPY_BESIDE = Words(
    general="Copy to and from pinned memory on a stream of its own, and write from another thread or process.",
    pytorch="Copy to and from pinned memory with non_blocking=True on a stream of its own, and write from another "
    "thread or process (torch.distributed.checkpoint.async_save).",
    jax="Begin the copy early (copy_to_host_async), and write from another thread or process (Orbax's "
    "AsyncCheckpointer).",
    cuda="Copy by cudaMemcpyAsync to and from pinned memory on a stream of its own, and write from another thread or "
    "process.",
)
# What one rank may copy to its host for all: in some iterations, or in each.
CHECKPOINT = Words(
    general="a checkpoint",
    pytorch="a checkpoint (`torch.save`, `.cpu()`)",
    jax="a checkpoint (`np.asarray` of the parameters)",
)
OUTPUTS = Words(
    general="outputs or metrics",
    pytorch="outputs or metrics (`.cpu()`, `.numpy()`)",
    jax="outputs or metrics (`np.asarray`)",
)
COPY_LESS = Words(
    general="Reduce them on the device, copy what is left to pinned memory on a stream of its own, and read it an "
    "iteration later.",
    pytorch="Reduce them on the device, copy what is left to pinned memory (non_blocking=True) on a stream of its own, "
    "and read it an iteration later.",
    jax="Reduce them on the device, begin the copy of what is left early (copy_to_host_async), and read it an "
    "iteration later.",
)


def waits_by_rank(case: Case, usually: bool = False) -> dict[int, float]:
    """Return how often the threads that launch kernels of a rank wait for its devices: an iteration, or in the window.

    `usually`: in an iteration that is not long, as those with a checkpoint are.
    """
    waits, steps = _waits_in_window(case, usually)
    counts = dict(waits.group_by("task").len().rows())
    return {
        case.run.rank(task): counts.get(task, 0) / steps for task in launching_threads(case)["task"].unique().sort()
    }


def _waits_in_window(case: Case, usually: bool) -> tuple[pl.DataFrame, int]:
    """Return the waits of launching threads in the window, and its number of iterations; `usually`: of no long ones."""
    steps = max(case.step_count - usually * case.long_steps.found.height, 1)
    return case.cut(waits_of_launchers(case), _covered(case, usually)), steps


def _covered(case: Case, usually: bool) -> Spans:
    """Return the time of the window (ns of the trace), without its long iterations if `usually`.

    Of iterations that are left out none count, even where there are no others: their waits are no usual ones.
    """
    return case.usual_time() if usually else kept_time(case.analysis)


def code_that_waits(case: Case, ranks: Iterable[int], usually: bool = False) -> str:
    """Return what waits for the device in the window: calls of CUDA, the most frequent first, and code that makes them.

    Calls that recur on no rank, such as that before an epoch, are left out; without iterations those that are few among
    the waits of each rank. `ranks`: whose hosts count; `usually`: in iterations that are not long.
    """
    waits, steps = _waits_in_window(case, usually)
    own = waits.filter(pl.col("task").is_in([case.run.task_by_rank[rank] for rank in ranks]))
    by_task = own.group_by("task", pl.col("call").cast(pl.String)).len()
    number, each = pl.col("len"), bool(case.analysis.window.iterations)
    share = number / number.sum().over("task")
    recurs = number >= RECURS.value * steps if each else share > NAMED_WAIT.value
    counts = by_task.with_columns(recurs=recurs).drop_nulls("call").group_by("call")
    recurring = counts.agg(pl.col("len").sum(), pl.col("recurs").any()).filter("recurs")
    names = recurring.sort("len", "call", descending=[True, False])["call"].to_list()
    calls = few([f"`{name}`" for name in names])
    if names and case.framework is Framework.CUDA:
        return calls
    wide = any(name in DEVICE_WIDE for name in names)
    others = not names or any(name not in DEVICE_WIDE for name in names)
    kinds = ((_FOR_VALUES, others), (_FOR_DEVICE, wide or not names))
    code = ", ".join(words.of(case.framework) for words, seen in kinds if seen)
    return f"{calls}: {code}" if names else code


def waits_more(waits: Mapping[int, float], rank: int) -> tuple[float, float] | None:
    """Return how often the host of a rank waits, and those of others (the median), if it waits far more often.

    `waits`: see `waits_by_rank`.
    """
    own = waits.get(rank, 0.0)
    others = median([waits[other] for other in waits if other != rank] or [own])
    return (own, others) if own >= max(WAITS_IN_GRAPH.value, WAITS_MORE.value * others) else None


def copies_data(case: Case, rank: int, usually: bool = False) -> bool:
    """Return True if many copies of a rank to its host are of data, and not of single values.

    `usually`: those in iterations that are not long.
    """
    own = case.run.work.filter(pl.col("kind") == COPY, task=case.run.task_by_rank[rank])
    to_host = own.filter(pl.col("name") == TO_HOST)
    of_data = (case.cut(to_host, _covered(case, usually))["bytes"] > VALUE_BYTES.value).mean()
    return isinstance(of_data, float) and of_data >= DATA_COPIES.value


def advice_on_waits(case: Case, rank: int) -> str:
    """Return what to do about a host that waits for its device far more often than others; else an empty text."""
    more = waits_more(waits_by_rank(case), rank) if case.analysis.window.iterations else None
    if more is None:
        return ""
    if copies_data(case, rank):
        each = _iterations_with_copies(case, rank) >= NEARLY_ALL.value * case.step_count
        what, remedy = (OUTPUTS, COPY_LESS) if each else (CHECKPOINT, COPY_BESIDE)
        return (
            f"The host of rank {rank} waits {times_text(more[0])} an iteration on average for copies of data from its "
            f"device, as of {what.of(case.framework)}, and others {times_text(more[1])}. {remedy.of(case.framework)}"
        )
    return (
        f"The host of rank {rank} waits {times_text(more[0])} an iteration for its device, those of others "
        f"{times_text(more[1])}. Let it wait less often ({code_that_waits(case, [rank])}), or fetch all values in one "
        "copy."
    )


def _iterations_with_copies(case: Case, rank: int) -> int:
    """Return in how many iterations of the window a rank copies data to its host."""
    data = (pl.col("kind") == COPY) & (pl.col("bytes") > VALUE_BYTES.value)
    own = case.run.work.filter(data, task=case.run.task_by_rank[rank])
    copies = own.filter(pl.col("name") == TO_HOST).select("start").sort("start")
    placed = copies.join_asof(case.begins, left_on="start", right_on="begin", strategy="backward")
    return placed.drop_nulls("number").filter("steady").select("repeat", "number").n_unique()


def times_text(number: float) -> str:
    """Return how many times, in words: `never`, `hardly ever`, `once`, `12 times`."""
    return {0: "hardly ever" if number else "never", 1: "once"}.get(round(number), f"{number:.0f} times")
