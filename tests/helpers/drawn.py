"""What a trace shows, as frames of the same form as the oracle's: from records and labels alone."""

from __future__ import annotations

import re

import oracle
import polars as pl

from nsys2prv import Trace

KINDS = {
    63000000: "api",
    63000001: "memory",
    63000006: "kernel",
    63000007: "nccl kernel",
    63000008: "graph",
    70000003: "os call",
    70000004: "sync",
    70000005: "nvtx mark",
    **dict.fromkeys((70000006, *range(70000241, 70000247)), "openmp"),
    9004: "nvtx range",
    # NCCL's calls are ranges of its domain, under a type of their own.
    9500: "NVTX NCCL",
    **dict.fromkeys(range(50000001, 50000006), "mpi"),
}
# NVTX domains, a hundred numbers each; metrics.
NVTX, METRICS = range(9600, 20000, 100), range(9400, 9500)
# Types whose value is held until the next one: metrics, memory in use, sizes of memory pools.
HELD = (*METRICS, 70000121, 70000403, *range(70000310, 70000322))


def places(trace: Trace) -> pl.DataFrame:
    """task, thread, host, pid, place of every row, by the labels and the header."""
    rows = []
    names = iter(trace.names["THREAD"])
    for task, (threads, node) in enumerate(trace.header.tasks, start=1):
        pid = re.search(r":(\d+)$", trace.names["TASK"][task - 1])
        for thread in range(1, threads + 1):
            label = next(names)
            tid = re.search(r" (\d+)$", label)
            place = label if re.match(r"CUDA-D|Metrics GPU", label) else f"thread {tid[1] if tid else label}"
            rows.append((task, thread, trace.names["NODE"][node - 1], int(pid[1]) if pid else None, place))
    schema = {"task": pl.Int64, "thread": pl.Int64, "host": pl.String, "pid": pl.Int64, "place": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def kind_of(trace: Trace, number: int) -> str | None:
    """What the oracle calls an event type; None for attributes, metrics and types that it does not know."""
    return trace.types[number] if number in NVTX else KINDS.get(number)


def intervals(trace: Trace) -> pl.DataFrame:
    """Everything that lasts (oracle.DRAWN), trace time."""
    found = [
        trace.intervals(number).with_columns(kind=pl.lit(kind))
        for number in trace.types
        if (kind := kind_of(trace, number)) is not None
    ]
    rows = pl.concat(found).join(places(trace), on=["task", "thread"], how="left")
    return rows.select(pl.col(name).cast(dtype) for name, dtype in oracle.DRAWN.items())


def attributes(trace: Trace, number: int) -> pl.DataFrame:
    """One row a begin of an event type: task, thread, time, value, and `a<type>` for what else its line says."""
    lines = trace.events.filter((pl.col("type") == number) & (pl.col("value") != 0)).select("line")
    pairs = trace.events.join(lines, on="line", how="semi")
    wide = pairs.pivot(on="type", index=["line", "task", "thread", "time"], values="value").drop("line")
    return wide.rename({c: f"a{c}" for c in wide.columns if c.isdecimal()})


def metrics(trace: Trace) -> pl.DataFrame:
    """Every value of a GPU metric in the trace: host, pid, place, metric, time, value."""
    names = pl.DataFrame(
        [(n, t) for n, t in trace.types.items() if n in METRICS],
        schema={"type": pl.Int64, "metric": pl.String},
        orient="row",
    )
    found = trace.events.join(names, on="type", how="inner").join(places(trace), on=["task", "thread"], how="left")
    return found.select("host", "pid", "place", "metric", "time", "value")
