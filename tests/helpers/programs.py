"""Programs of a few ranks that repeat an iteration, drawn as text, and their findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.conclude import with_findings
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import CALLS, PART, RANGES, WAIT, WORK, AnalyzedTask, Device, Run, RunClocks
from nsys2prv.analysis.gather.host_samples import HOST_SAMPLE
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import Span
from nsys2prv.model.frames import COLLECTIVE, HOST_WAIT_CONTEXT

UNIT = 10_000
KINDS = {"k": "kernel", "n": "nccl", "s": "nccl", "x": "nccl", "c": "copy"}
# Rows of a rank: its thread, the stream of kernels, that of communication.
ROWS = 3
WAITS = (("cuda", "cudaDeviceSynchronize"), ("synchronization", "Device synchronize"))
# Units are 10 us: an iteration takes 10 ms, and the devices compute nearly all of it.
GOOD = """
0| k:a:GEMM @0 2-500, k:a:GEMM @10 500-990, n @20 990-995
1| k:a:GEMM @0 2-500, k:a:GEMM @10 500-990, n @20 990-995
"""
# The host of rank 0 needs 7.1 ms for 2.8 ms of compute, and that of rank 1 2.8 ms more.
ALL_BUSY = """
0| k @0 5-200, n @190 205-905, k @700 905-990, wait 710-990
1| k @0 5-100, k @400 405-450, n @890 895-905, k @900 905-990
"""

# Function, file, and the times of each iteration (units) in which a thread has samples in it.
Sampled = tuple[str, str, Iterable[int]]


class Generous(Case):
    """A case in which each change gains 9 ms."""

    def gain(self, change: str) -> float:
        return 9e6


def program(
    picture: str, steps: int = 6, every: int = 1000, longer: Mapping[int, int] | None = None, **changed: str
) -> Run:
    """Return a run that repeats a picture (units of 10 us): a line a rank, with items apart by commas.

    `k @0 10-30`: a kernel that is launched at 0 and runs from 10 to 30; `n`: the rank's part of an AllReduce
    (`n:AllGather`: of that), `s`: of a message, `x`: of an exchange, all counted; `c`: a copy. `k:name:class` and
    `c:name:kinds of memory` name them. `load 0-10` is a range, `cuda:cudaMalloc 3-5` a call, `wait 5-9` one that waits
    for the device, and in `poll 5-90` the host asks for an event in each unit. `changed`: the line of a rank in a step,
    as `step2_rank0="..."`. `longer`: how much later (units) the step after one begins.
    """
    work: list[dict[str, object]] = []
    calls: list[tuple[object, ...]] = []
    ranges: list[tuple[object, ...]] = []
    parts: list[tuple[object, ...]] = []
    waits: list[tuple[object, ...]] = []
    lines = {int(line.split("|")[0]): line.split("|")[1] for line in picture.strip().splitlines()}
    lengths = [every + (longer or {}).get(step, 0) for step in range(steps)]
    for step in range(steps):
        for rank, line in lines.items():
            begin, host = sum(lengths[:step]) * UNIT, ROWS * rank
            ranges.append((rank, host, begin, begin + lengths[step] * UNIT - 1, "default", f"step {step}"))
            number = 0
            for item in changed.get(f"step{step}_rank{rank}", line).split(","):
                what, *launch, span = item.split()
                start, end = (begin + round(float(t) * UNIT) for t in span.split("-"))
                if launch:
                    row = host + (2 if what[0] in "nsx" else 1)
                    work.append(_work(what, rank, row, start, end, begin, launch[0]))
                    if what[0] in "nsx":
                        known = (100 * step + number, "nccl", COLLECTIVE, rank, row, "world", 1_000_000)
                        parts.append((*known, start, end, True, True, None, None))
                        number += 1
                    continue
                kind, _, name = what.partition(":")
                if what == "wait":
                    calls += [(rank, host, start, end, *call) for call in WAITS]
                    waits.append((HOST_WAIT_CONTEXT, rank, host, start, -1, None, None))
                elif what == "poll":
                    asked = range(start + UNIT // 2, end, UNIT)
                    calls += [(rank, host, t, t + UNIT // 2, "cuda", "cudaEventQuery") for t in asked]
                elif name:
                    calls.append((rank, host, start, end, kind, name))
                else:
                    ranges.append((rank, host, start, end, "default", what))
    frame = pl.DataFrame(work, schema=WORK).sort("start", "row")
    return Run(
        tasks=tuple(AnalyzedTask(n, f"rank {n}", "host") for n in lines),
        devices=tuple(Device("host", n, n) for n in lines),
        work=frame,
        calls=pl.DataFrame(calls, schema=CALLS, orient="row").sort("start"),
        ranges=pl.DataFrame(ranges, schema=RANGES, orient="row").sort("start"),
        samples=(),
        active=Span(int(frame["start"].min()), int(frame["end"].max())),  # type: ignore[arg-type]
        duration=sum(lengths) * UNIT,
        clocks=RunClocks(of_task=(0,) * len(lines)),
        row_labels=tuple(f"row {n}" for n in range(ROWS * len(lines))),
        parts=_arrived(pl.DataFrame(parts, schema=PART, orient="row")),
        waits=pl.DataFrame(waits, schema=WAIT, orient="row"),
    )


def of_processes(run: Run, devices: int) -> Run:
    """Return a run whose processes have some devices each, in order of rank."""
    task = pl.col("task") // devices
    parts = run.parts.with_columns(task, waited_for=pl.col("waited_for") // devices)
    frames = {name: getattr(run, name).with_columns(task) for name in ("work", "calls", "ranges")}
    kept = frames["ranges"].unique(["task", "text", "start"], keep="first", maintain_order=True)
    ranks = {task.rank: run.tasks[n // devices * devices].rank for n, task in enumerate(run.tasks)}
    gpus = tuple(one._replace(rank=ranks[one.rank]) for one in run.devices)
    return run._replace(**(frames | {"ranges": kept}), parts=parts, tasks=run.tasks[::devices], devices=gpus)


def ending_with_calls(run: Run) -> Run:
    """Return a run whose hosts have nothing to do after their last call: the last range of each ends with that."""
    last = run.calls.group_by("task").agg(last=pl.col("end").max())
    ranges = run.ranges.join(last, on="task", maintain_order="left")
    return run._replace(ranges=ranges.with_columns(pl.min_horizontal("end", "last").alias("end")).drop("last"))


def with_samples(
    run: Run,
    *each: Sampled,
    family: str = "cpu_samples",
    row: int = 0,
    task: int = 0,
    steps: Iterable[int] = range(6),
    every: int = 1000,
) -> Run:
    """Return a run whose reports hold more samples of a thread, in some steps of `every` units."""
    rows = [
        (task, row, (every * step + at) * UNIT, family, function, file)
        for step in steps
        for function, file, times in each
        for at in times
    ]
    held = [] if run.host_samples is None else [run.host_samples()]
    samples = pl.concat([*held, pl.DataFrame(rows, schema=HOST_SAMPLE, orient="row")])
    return run._replace(host_samples=lambda: samples, recorded_families=frozenset({family, *run.recorded_families}))


def _work(what: str, rank: int, row: int, start: int, end: int, begin: int, launched: str) -> dict[str, object]:
    kind, name, more = [*what.split(":"), "", ""][:3]
    known = {"n": f"NCCL {name or 'AllReduce'}", "s": "NCCL Send/Recv", "x": "NCCL Send/Recv"}.get(kind)
    is_copy = kind == "c"
    label = known or (name or KINDS[kind]).replace("_", " ")
    return {
        "task": rank,
        "device": rank,
        "row": row,
        "start": start,
        "end": end,
        "kind": KINDS[kind],
        "name": label,
        "class": known or ("" if is_copy else more.replace("_", " ")) or label,
        "family": known or ("" if is_copy else more.replace("_", " ")) or label,
        "bytes": 1_000_000 if kind in "nsxc" else None,
        "operation": {"n": name or "AllReduce", "s": "Send", "x": "Send and Recv"}.get(kind),
        "launched": begin + round(float(launched.removeprefix("@")) * UNIT),
        "memory": more.replace("_", " ") or None if is_copy else None,
        "caller_row": ROWS * rank,
        "shape": None if is_copy else 1,
        "instant": False,
        "whole_ns": end - start,
    }


def _arrived(parts: pl.DataFrame) -> pl.DataFrame:
    """Add the rank that came last to each operation, and when."""
    last, waited_for = (pl.col(c).sort_by("began", "task").last().over("operation") for c in ("began", "task"))
    return parts.with_columns(last=last, waited_for=waited_for)


def analysis_of(run: Run) -> Analysis:
    """The analysis of a run with its findings."""
    return with_findings(analyze_run(run, Question(metrics=())))


def findings_of(run: Run) -> dict[str, Finding]:
    """The findings of a run by id, of each the worst, which come last."""
    return {one.id: one for one in reversed(analysis_of(run).findings)}
