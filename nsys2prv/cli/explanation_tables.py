"""Tables of an explanation: critical path, causes of idle time, contention, and predictions."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.explanation import Explanation
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.idle_causes import CAUSES
from nsys2prv.cli.text_table import ms, printable
from nsys2prv.errors import short

Section = tuple[str, str, list[str], list[list[str]]]
# Highest number of rows of a table.
MOST_ROWS = 12
_FACTORS = ("waiting", "waiting_error", "transfer", "transfer_error")


def explanation_sections(explanation: Explanation, run: Run) -> Iterator[Section]:
    """Yield name, title, column names and rows of each table."""
    yield (
        "causes",
        "Causes of waiting, by the rank that came late (sums over the ranks that wait)",
        *_causes(explanation),
    )
    if explanation.predictions:
        yield "critical-path", "Critical path", *_path(explanation)
    yield "critical-path", "Critical path by rank", *_path_by_rank(explanation, run)
    yield "idle-causes", "Causes of idle time, by device", *_idle(explanation)
    yield "what-if", "What if", *_predictions(explanation)
    yield "contention", "Kernels beside communication, all ranks, by family", *_contention(explanation)
    yield "pipeline", "Pipeline, mean of an iteration", *_stages(explanation)


def _causes(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    total = max(int(explanation.causes["ns"].sum()), 1)
    of_gpus = set(explanation.exposed.drop_nulls("late_device")["rank"])
    rows = [
        [
            str(rank),
            kind,
            short(printable(name)),
            ms(ns),
            f"{100 * ns / total:.1f}",
            "its own GPUs" if not ranks and rank in of_gpus else str(ranks),
            f"{iterations} of {of}" if of else "",
        ]
        for rank, kind, name, ns, ranks, iterations, of in explanation.causes.head(MOST_ROWS).rows()
    ]
    return ["rank", "work", "in", "waiting ms", "%", "ranks that wait", "iterations"], rows


def _path(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    total = max(int((explanation.path["end"] - explanation.path["start"]).sum()), 1)
    rows = explanation.path_by("kind", "family").rows()
    named = [[kind, family or "", ms(ns), f"{100 * ns / total:.1f}"] for kind, family, ns in rows[:MOST_ROWS]]
    return ["kind", "kernels", "ms", "%"], named


def _path_by_rank(explanation: Explanation, run: Run) -> tuple[list[str], list[list[str]]]:
    rows = explanation.path_by("task").drop_nulls("task").rows()
    return ["rank", "ms"], [[str(run.rank(task)), ms(ns)] for task, ns in rows[:MOST_ROWS]]


def _idle(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    whole = explanation.idle.filter(pl.col("span").is_null())
    head = ["rank", "gpu", "idle ms", *(cause.removesuffix("_ns").replace("_", " ") for cause in CAUSES)]
    rows = whole.sort("idle_ns", descending=True).head(MOST_ROWS).select("rank", "gpu", "idle_ns", *CAUSES).rows()
    return head, [[str(rank), str(gpu), *map(ms, times)] for rank, gpu, *times in rows]


def _predictions(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            ", ".join(p.changes),
            ms(round(p.measured_ns)),
            ms(round(p.iteration_ns)),
            f"{100 * p.gain:.1f}",
            f"{100 * p.replay_error:.2f}",
        ]
        for p in explanation.predictions
    ]
    without = any(p.iterations["iteration"].null_count() for p in explanation.predictions)
    return ["change", "window ms" if without else "iteration ms", "predicted ms", "gain %", "replay error %"], rows


def _contention(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    shown = explanation.contention.head(MOST_ROWS).select(
        "family", pl.col("waiting_ns") + pl.col("transfer_ns"), *_FACTORS
    )
    rows = [
        [short(printable(family)), *("" if factor is None else f"{factor:.2f}" for factor in factors), ms(ns)]
        for family, ns, *factors in shown.rows()
    ]
    return ["family", "beside waiting", "+-", "beside transfer", "+-", "lost ms"], rows


def _stages(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    times = ("window_ns", "useful_ns", "warm_up_ns", "between_ns", "drain_ns")
    counts = pl.col("microbatches").round(1), *(pl.col(c).round().cast(pl.Int64) for c in times)
    shown = explanation.stages.head(MOST_ROWS).select("pipeline", "stage", "rank", *counts, "bubble", "ideal")
    rows = [
        [*map(str, where), *(ms(ns) for ns in lasting), f"{100 * bubble:.1f}", f"{100 * ideal:.1f}"]
        for *values, bubble, ideal in shown.rows()
        for where, lasting in [(values[:4], values[4:])]
    ]
    names = [c.removesuffix("_ns").replace("_", " ") + " ms" for c in times]
    return ["pipeline", "stage", "rank", "microbatches", *names, "bubble %", "ideal %"], rows
