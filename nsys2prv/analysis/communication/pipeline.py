"""Pipelines of stages that hand microbatches on: bubble by stage, measured and ideal, warm-up and drain.

A pipeline is a chain of ranks that send NCCL messages to the next and back. Its stages are numbered from the rank that
sends first. The bubble of a stage is the share of the pipeline's time in which it does not compute. With p stages of
equal length and m microbatches it is (p - 1) / (m + p - 1) (Huang et al. 2019, "GPipe"; the same for 1F1B, Narayanan et
al. 2019, "PipeDream").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL, Run
from nsys2prv.analysis.interval_frames import covered_time
from nsys2prv.analysis.iterations.phases import OCCURRENCE, phase_of, phase_ranges, projected
from nsys2prv.model.frames import RECEIVE, SEND
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.iterations.milestone_kinds import OPTIMIZER

# One row a stage; times (ns) and counts are means over the iterations. `window_ns`: from the first to the last work of
# the pipeline in an iteration; `useful_ns`: the stage computes; `warm_up_ns`: until it begins; `drain_ns`: after its
# end; `between_ns`: it waits between. `bubble`: share of all three; `ideal`: of equal stages.
STAGE = {
    "pipeline": pl.Int64(),
    "stage": pl.Int64(),
    "rank": pl.Int64(),
    "iterations": pl.Int64(),
    "microbatches": pl.Float64(),
    "window_ns": pl.Float64(),
    "useful_ns": pl.Float64(),
    "warm_up_ns": pl.Float64(),
    "between_ns": pl.Float64(),
    "drain_ns": pl.Float64(),
    "bubble": pl.Float64(),
    "ideal": pl.Float64(),
}
# Phases that are the pipeline's; the optimizer is not.
_PHASES = ("forward", "backward", "forward_backward")
_KEY = ["repeat", "number"]


def pipelines(run: Run, main: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return STAGE of all pipelines. `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations."""
    messages = projected(_messages(run), steps)
    chains = list(_chains(messages))
    if not chains:
        return pl.DataFrame(schema=STAGE)
    # Iterations that no range numbers begin with the optimizer, in which each stage is for itself.
    staged = pl.col("kind").is_in(USEFUL_KINDS) & (pl.col("family") != OPTIMIZER)
    useful = projected(run.work.filter(staged), _spans_of_phases(main, steps))
    parts = [_stages(run, n, chain, messages, useful, steps) for n, chain in enumerate(chains)]
    return pl.concat([pl.DataFrame(schema=STAGE), *parts])


def _messages(run: Run) -> pl.DataFrame:
    """Return source and target (tasks) of NCCL messages, with task (the source), row, time and launched of the send.

    `alone`: the sending kernel receives nothing.
    """
    own = run.parts.filter(pl.col("family") == "nccl")
    sends = own.filter(pl.col("kind") == SEND).select("operation", "row", time="began", task="task", source="task")
    receives = own.filter(pl.col("kind") == RECEIVE).select("operation", target="task")
    kernels = run.work.filter(pl.col("kind") == NCCL).select("row", "launched", time="start")
    received = (
        own.filter(pl.col("kind") == RECEIVE).select("row", time="began").unique().with_columns(alone=pl.lit(False))
    )
    pairs = sends.join(receives, on="operation").filter(pl.col("source") != pl.col("target"))
    sending = kernels.unique(["row", "time"]).join(received, on=["row", "time"], how="left")
    return pairs.join(sending.with_columns(pl.col("alone").fill_null(True)), on=["row", "time"], maintain_order="left")


def _chains(messages: pl.DataFrame) -> Iterator[list[int]]:
    """Yield the tasks of each chain that sends both ways, in order of stages."""
    counts = messages.group_by("source", "target").agg(first=pl.col("time").filter("alone").min())
    first = {(source, target): time for source, target, time in counts.rows()}
    both = {(a, b) for a, b in first if (b, a) in first}
    neighbors: dict[int, list[int]] = {}
    for a, b in sorted(both):
        neighbors.setdefault(a, []).append(b)
    one_way = {task for pair in first.keys() - both for task in pair}
    for chain in _paths(neighbors):
        if not one_way.intersection(chain):
            # Stage 0 sends before anything comes back. Where all exchange at once, the lowest task is stage 0.
            there, back = first[chain[0], chain[1]], first[chain[1], chain[0]]
            forward = there < back if there is not None and back is not None else chain[0] < chain[-1]
            yield chain if forward else chain[::-1]


def _paths(neighbors: dict[int, list[int]]) -> Iterator[list[int]]:
    """Yield the parts of a graph that are paths, from one end to the other; rings and parts with branches are none."""
    seen: set[int] = set()
    for end in (task for task, own in neighbors.items() if len(own) == 1):
        path = [end]
        # Ranks that send to a branch are on no path, and beyond it may be a ring, which has no end.
        while len(neighbors[path[-1]]) <= 2 and (following := [n for n in neighbors[path[-1]] if n not in path[-2:]]):
            path.append(following[0])
        if end not in seen and all(len(neighbors[task]) <= 2 for task in path):
            yield path
        seen.update(path)


def _spans_of_phases(main: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return OCCURRENCE of the time in which each task's host is in a pipeline's phases; else of its iterations."""
    chosen = phase_ranges(main, steps).filter(phase_of(pl.col("text")).is_in(_PHASES))
    spans = chosen.group_by("task", *_KEY).agg(pl.col("start").min(), pl.col("end").max(), pl.col("text").first())
    others = steps.join(spans, on="task", how="anti")
    return pl.concat([spans.select(*OCCURRENCE), others.select(*OCCURRENCE)]).sort("task", "start")


def _stages(
    run: Run, number: int, chain: list[int], messages: pl.DataFrame, useful: pl.DataFrame, steps: pl.DataFrame
) -> pl.DataFrame:
    """Return STAGE of one pipeline. `steps`: OCCURRENCE of the iterations."""
    own = useful.filter(pl.col("task").is_in(chain))
    windows = own.group_by(_KEY).agg(began=pl.col("start").min(), ended=pl.col("end").max())
    by_stage = (
        own.sort("start")
        .group_by(*_KEY, "task")
        .agg(useful_ns=covered_time(), first=pl.col("start").min(), last=pl.col("end").max())
    )
    whole = by_stage.filter(pl.len().over(_KEY) == len(chain)).join(windows, on=_KEY)
    apart = whole.with_columns(
        window_ns=pl.col("ended") - pl.col("began"),
        warm_up_ns=pl.col("first") - pl.col("began"),
        drain_ns=pl.col("ended") - pl.col("last"),
        between_ns=pl.col("last") - pl.col("first") - pl.col("useful_ns"),
    )
    times = [c for c in STAGE if c.endswith("_ns")]
    means = apart.group_by("task").agg(pl.len().alias("iterations"), pl.col(times).mean())
    count = _microbatches(_sent_by_first(run, chain, messages, steps), whole.select(_KEY).unique().rows())
    stages = means.with_columns(
        pipeline=pl.lit(number),
        stage=pl.col("task").replace_strict({task: n for n, task in enumerate(chain)}, return_dtype=pl.Int64),
        rank=run.rank_of("task"),
        microbatches=pl.lit(count),
        bubble=1 - pl.col("useful_ns") / pl.col("window_ns"),
        ideal=pl.lit((len(chain) - 1) / (count + len(chain) - 1)),
    )
    return to_schema(stages, STAGE).sort("stage")


def _sent_by_first(run: Run, chain: list[int], messages: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels, with the keys of their iterations, that send from the first stage of a chain to the second.

    On the streams of messages with a known partner all sends count: the first stage sends to no other one.
    """
    known = messages.filter((pl.col("source") == chain[0]) & (pl.col("target") == chain[1])).unique(["row", "time"])
    rows = pl.col("row").is_in(known["row"].unique().implode())
    kernels = run.work.filter(pl.col("kind") == NCCL, rows)
    sends = kernels.filter(pl.col("operation").cast(pl.String).str.contains("Send"))
    return projected(sends.select("task", "row", "launched", time="start"), steps) if sends.height else known


def _microbatches(sent: pl.DataFrame, iterations: Iterable[tuple[int, int]]) -> float:
    """Return the mean number of `sent` kernels of an iteration."""
    counts = Counter(sent.select(_KEY).rows())
    kept = list(iterations)
    return sum(counts[key] for key in kept) / max(len(kept), 1)
