"""The circumstances of a recording: when, by which nsys, on which GPUs, in which reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nsys2prv.intervals.spans import Span
from nsys2prv.model.interning import GPU
from nsys2prv.run.plan import Plan, drawn_spans
from nsys2prv.run.ranks import numbers_of_tasks


class Recording(NamedTuple):
    """The circumstances of a recording, as its reports say them.

    `began`: UTC of the earliest session (ns since 1970; None: not known); `nsys`: versions of nsys; `gpus`: models;
    each once, sorted.
    """

    reports: tuple[Path, ...] = ()
    began: int | None = None
    nsys: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


def recording_of(plan: Plan) -> Recording:
    """Return the circumstances of the recording of a run."""
    identities = [summary.identity for summary in plan.summaries]
    return Recording(
        reports=tuple(summary.path for summary in plan.summaries),
        began=min((i.utc_epoch_ns for i in identities if i.utc_epoch_ns is not None), default=None),
        nsys=tuple(sorted({i.nsys_version for i in identities} - {""})),
        gpus=tuple(sorted({gpu.name for i in identities for gpu in i.gpus} - {""})),
    )


def recorded_spans(plan: Plan) -> dict[int, Span]:
    """Return when each task recorded its first and its last event (ns of the trace).

    Samples of a GPU do not count: they may begin long before the first event of its process.
    """
    rows = plan.objects.rows
    of_row = pl.DataFrame({"row": range(len(rows.kind)), "task": rows.task.astype("int64") - 1, "kind": rows.kind})
    drawn = drawn_spans(plan.summaries, plan.clocks, plan.objects).with_columns(pl.col("row").cast(pl.Int64))
    events = drawn.join(of_row, on="row").filter(pl.col("kind") != GPU)
    times = events.group_by("task").agg(pl.col("first").min(), pl.col("last").max()).sort("task")
    return {int(task): Span(int(first), int(last)) for task, first, last in times.rows()}


def recorded_uncut(part: Plan, whole: Plan) -> dict[int, Span]:
    """Return when each task of a part of a run recorded its first and its last event in all of it (ns of the part).

    `part`, `whole`: their plans. Reports that were cut to the part do not say so.
    """
    spans = recorded_spans(whole)
    known = {task: spans[n] for n, task in enumerate(_tasks(whole)) if n in spans}
    begun = part.origin - whole.origin
    found = ((n, known[task]) for n, task in enumerate(_tasks(part)) if task in known)
    return {n: Span(span.start - begun, span.end - begun) for n, span in found}


def _tasks(plan: Plan) -> Iterator[tuple[int, str]]:
    """Return number and name of each task: of a part of a run those without events in it are missing."""
    return zip(numbers_of_tasks(plan.objects.ranks), plan.objects.tasks, strict=True)
