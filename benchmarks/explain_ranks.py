"""Explain a synthetic run of many ranks and say what each stage took: `explain_ranks.py [RANKS] [OPERATIONS]`.

Each rank launches its operations ahead, in ten iterations that end with a synchronization: kernels, and after each of
them a collective, of all ranks and of the rank's node of eight by turns. Kernels take as long on all ranks, give or
take some noise, but some ranks are always slow, and each rank is late now and then. Processor time is that of all
threads; peak is the most resident memory in a stage, with what earlier ones left.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsys2prv.cli.main import LIBRARIES

# The libraries read this when they are imported.
os.environ.update(LIBRARIES)

import numpy as np
import polars as pl

from nsys2prv.analysis.communication.wait_causes import wait_causes
from nsys2prv.analysis.communication.waiting import carried, find_exchanges
from nsys2prv.analysis.frames import CALLS, KERNEL, NCCL, PART, RANGES, TEXT, WORK, AnalyzedTask, Device, Run
from nsys2prv.analysis.graph.critical_path import critical_path
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.idle.idle_causes import idle_causes
from nsys2prv.analysis.iterations.located import locate
from nsys2prv.analysis.predict.model import model_of
from nsys2prv.analysis.predict.whatif import STANDARD, predict
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import Span, Times
from nsys2prv.model.frames import COLLECTIVE

ON_NODE, STEPS, NAMES = 8, 10, 40
FAMILIES = ("GEMM", "elementwise", "attention", "normalization")
# A rank's streams, of kernels and of collectives, and its thread.
ROWS = 3
# ns.
LAUNCH_NS, GAP_NS, TRANSFER_NS, KERNEL_NS = 4_000, 2_000, 30_000, 100_000
MB = 1_000_000


def lasting(random: np.random.Generator, ranks: int, operations: int) -> Times:
    """How long each rank's kernels take (ns): a row an operation, a column a rank."""
    usual = random.integers(KERNEL_NS // 4, 2 * KERNEL_NS, operations)
    slow = 1 + 0.2 * (random.random(ranks) > 0.95)
    lengths = usual[:, None] * slow * random.normal(1, 0.02, (operations, ranks))
    late = np.where(random.random((operations, ranks)) < 1 / 50, random.exponential(KERNEL_NS, (operations, ranks)), 0)
    return np.maximum(lengths + late, 1000).astype(np.int64)


def times_of(random: np.random.Generator, ranks: int, operations: int) -> tuple[Times, Times, Times]:
    """Launch, begin and end of each operation: a row an operation, a column a rank."""
    lengths = lasting(random, ranks, operations)
    launch, begin, end = (np.empty_like(lengths) for _ in range(3))
    nodes = np.arange(0, ranks, ON_NODE)
    host, device = (random.integers(0, KERNEL_NS, ranks) for _ in range(2))
    for n in range(operations):
        if n % (operations // STEPS) == 0:
            # The host waits for its device at the end of an iteration.
            host = np.maximum(host, device) + 2 * GAP_NS
        launch[n] = host
        host = host + LAUNCH_NS
        begin[n] = device = np.maximum(device + GAP_NS, host)
        if n % 2:
            came = np.maximum.reduceat(device, nodes)
            last = np.repeat(came, ON_NODE)[:ranks] if n % 4 == 3 else np.full(ranks, came.max())
            device = last + TRANSFER_NS
        else:
            device = device + lengths[n]
        end[n] = device
    return launch, begin, end


def work_of(launch: Times, begin: Times, end: Times) -> pl.DataFrame:
    """Make WORK, with `number`, that of the operation. Rows of a rank: a stream of kernels, one of collectives."""
    operations, ranks = launch.shape
    number, task = np.repeat(np.arange(operations), ranks), np.tile(np.arange(ranks), operations)
    names = [f"kernel_{n}<float, {n % 7}>" for n in range(NAMES)]
    table = pl.DataFrame({"number": range(operations)}).with_columns(
        kind=pl.Series([(KERNEL, NCCL)[n % 2] for n in range(operations)]),
        name=pl.Series([names[n // 2 % NAMES] if n % 2 == 0 else "ncclDevKernel_AllReduce" for n in range(operations)]),
        family=pl.Series([FAMILIES[n // 2 % len(FAMILIES)] if n % 2 == 0 else "NCCL" for n in range(operations)]),
    )
    table = table.select(pl.col(c).cast(TEXT) for c in table.columns[1:])
    collective = number % 2
    known = {
        "task": task,
        "device": task,
        "row": ROWS * task + collective,
        "start": begin.ravel(),
        "end": end.ravel(),
        **{c: table[c].gather(number) for c in ("kind", "name", "family")},
        "class": table["family"].gather(number),
        "bytes": np.where(collective, 1 << 20, 0),
        "launched": launch.ravel(),
        "caller_row": ROWS * task + 2,
        "shape": number // 2 % NAMES,
        "instant": np.zeros(len(number), dtype=bool),
        "number": number,
    }
    absent = [pl.lit(None, kind).alias(c) for c, kind in WORK.items() if c not in known]
    frame = pl.DataFrame(known).with_columns(absent)
    return frame.select(*(pl.col(c).cast(t) for c, t in WORK.items()), "number").sort("start", "row")


def parts_of(work: pl.DataFrame) -> pl.DataFrame:
    """Make PART of the collectives of `work_of`."""
    of_world = pl.col("number") % 4 == 1
    node = pl.when(of_world).then(-1).otherwise(pl.col("task") // ON_NODE)
    keyed = work.filter(pl.col("kind") == NCCL).with_columns(node=node).sort("number", "node", "start", "task")
    of = pl.struct("number", "node").rle_id()
    numbered = keyed.with_columns(operation=of.cast(pl.Int64))
    last = numbered.group_by("operation", maintain_order=True).agg(
        last=pl.col("start").last(), waited_for=pl.col("task").last()
    )
    world = pl.Series(["world", *(f"node {n}" for n in range(len(work["task"].unique()) // ON_NODE + 1))], dtype=TEXT)
    found = numbered.join(last, on="operation", maintain_order="left").with_columns(
        family=pl.lit("nccl"),
        kind=pl.lit(COLLECTIVE),
        communicator=world.gather(numbered["node"] + 1),
        began="start",
        ended="end",
        awaited=pl.lit(True),
        waits=pl.lit(True),
    )
    return found.select(pl.col(c).cast(t) for c, t in PART.items())


def host_of(work: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make CALLS and RANGES: launches, and in each iteration a range around them and the synchronization at its end."""
    launches = work.select(
        "task",
        row="caller_row",
        start="launched",
        end=pl.col("launched") + LAUNCH_NS - 1000,
        kind=pl.lit("cuda"),
        name=pl.lit("cudaLaunchKernel"),
    )
    each = (int(work["number"].max()) + 1) // STEPS  # type: ignore[arg-type]
    steps = work.group_by("task", "caller_row", step=pl.col("number") // each).agg(
        begin=pl.col("launched").min() - 500, called=pl.col("launched").max() + LAUNCH_NS, done=pl.col("end").max()
    )
    until = pl.max_horizontal("called", "done") + GAP_NS
    waits = steps.select(
        "task",
        row="caller_row",
        start="called",
        end=until,
        kind=pl.lit("cuda"),
        name=pl.lit("cudaDeviceSynchronize"),
    )
    ranges = steps.select(
        "task",
        row="caller_row",
        start="begin",
        end=until + 500,
        domain=pl.lit("default"),
        text=pl.format("step {}", "step"),
    )
    calls = pl.concat([part.select(pl.col(c).cast(t) for c, t in CALLS.items()) for part in (launches, waits)])
    return calls.sort("start", "row"), ranges.select(pl.col(c).cast(t) for c, t in RANGES.items()).sort("start", "row")


def synthetic(ranks: int, operations: int) -> Run:
    """Make the run."""
    work = work_of(*times_of(np.random.default_rng(40), ranks, operations))
    calls, ranges = host_of(work)
    until = int(ranges["end"].max())  # type: ignore[arg-type]
    return Run(
        tasks=tuple(AnalyzedTask(n, f"rank {n}", f"node{n // ON_NODE}") for n in range(ranks)),
        devices=tuple(Device(f"node{n // ON_NODE}", n % ON_NODE, n) for n in range(ranks)),
        parts=parts_of(work),
        work=work.drop("number"),
        calls=calls,
        ranges=ranges,
        samples=(),
        active=Span(int(work["start"].min()), int(work["end"].max())),  # type: ignore[arg-type]
        duration=until,
        row_labels=tuple(f"{kind}{n}" for n in range(ranks) for kind in ("kernels ", "collectives ", "thread ")),
    )


def memory_mb(which: str) -> float:
    """Return what the kernel says of this process's memory: `VmRSS`, or `VmHWM`, the most since the last reset."""
    return int(re.search(rf"{which}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024 / MB  # type: ignore[index]


@contextmanager
def measured(stage: str) -> Iterator[None]:
    """Print what a stage took."""
    # Resets VmHWM.
    Path("/proc/self/clear_refs").write_text("5")
    before = resource.getrusage(resource.RUSAGE_SELF)
    yield
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{stage:16} {seconds:7.1f} s, peak {memory_mb('VmHWM'):6.0f} MB, {memory_mb('VmRSS'):6.0f} MB left", flush=True
    )


def main(ranks: int = 1024, operations: int = 1_000) -> None:
    """Print what each stage took."""
    print(f"{ranks:,} ranks, {operations:,} operations each")
    with measured("making the run"):
        run = synthetic(ranks, operations)
    with measured("iterations"):
        located = locate(run, Question())
    main, steps, window = located.main, located.steps, located.window
    del located
    with measured("graph"):
        operations_of = carried(run)
        exchanges, graph = find_exchanges(run, operations_of), dependencies(run, operations_of)
        del operations_of
    print(f"{len(graph.time):,} nodes, {len(graph.edges.kind):,} edges that cross, {exchanges.height:,} exchanges")
    with measured("critical path"):
        path = critical_path(run, graph, window.spans)
    with measured("causes"):
        causes = wait_causes(run, graph, exchanges, main, steps, window.spans)
    with measured("idle causes"):
        idle = idle_causes(run, graph, window.spans)
    del exchanges
    with measured("what if"):
        # Iterations of these ranks follow each other.
        model = model_of(run, graph, main, steps, window, by_ends=False)
        predictions = predict(model, [[change] for change in STANDARD])
    print(f"{path.height:,} pieces, {causes.height:,} causes, {idle['idle_ns'].sum():,} ns idle in spans and all")
    for one in predictions:
        print(
            f"{', '.join(one.changes)}: {one.iteration_ns:.0f} of {one.measured_ns:.0f} ns, {one.replay_error:.1%} off"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
