"""Events of the critical path, of the causes of idle time and of launch queues, on rows of the trace.

They need all device work and calls of the run in memory; the first two also its dependency graph. Their window is that
of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.frames import Run, tasks_of_devices
from nsys2prv.analysis.graph.critical_path import COMPUTE, critical_path
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.graph.dependency_graph import Graph
from nsys2prv.analysis.idle.idle_causes import idle_parts
from nsys2prv.analysis.idle.launch_queues import queue_lengths, waiting_work
from nsys2prv.analysis.interval_frames import joined_in_row
from nsys2prv.families.whole_run import CRITICAL_PATH_FAMILY, IDLE_CAUSES_FAMILY, LAUNCH_QUEUES_FAMILY
from nsys2prv.model.event_type import EventType
from nsys2prv.model.event_types import CRITICAL_PATH, IDLE_CAUSE, LAUNCH_QUEUE
from nsys2prv.model.limits import Limits
from nsys2prv.model.schemas import to_schema
from nsys2prv.paraver.labels import PcfType
from nsys2prv.pipeline.encode.encoding_input import RunEvents
from nsys2prv.pipeline.store.points import Points, row_points
from nsys2prv.pipeline.store.spill import SpillOf, write_spill
from nsys2prv.run.numbering import number_texts
from nsys2prv.run.plan import Plan
from nsys2prv.run.trace_rows import NO_ROW

# An event on a row of the trace: begin and end (ns), and the text of its value.
EVENT = {"row": pl.Int64(), "start": pl.Int64(), "end": pl.Int64(), "label": pl.String()}


class _Explained(NamedTuple):
    """Family, event type, and the function that makes EVENT. `counts`: labels are numbers, and are their own values."""

    family: str
    event_type: EventType
    events: Callable[[Plan, Run, Callable[[], Graph]], pl.DataFrame]
    counts: bool = False


def explained_events(
    plan: Plan, run: Run, families: Sequence[str], folder: Path, limits: Limits
) -> tuple[RunEvents, ...]:
    """Make the events of the chosen families, and store them in `folder`. Raises OutputError."""

    @cache
    def graph() -> Graph:
        return dependencies(run, carried(run))

    made = [(one, _joined(one.events(plan, run, graph))) for one in EXPLANATIONS if one.family in families]
    return tuple(_stored(one, events, folder, limits) for one, events in made if events.height)


def _joined(events: pl.DataFrame) -> pl.DataFrame:
    """Join events (EVENT) of one text that follow each other on a row without a gap."""
    joined = joined_in_row(events.sort("row", "start"), "row", "label")
    return to_schema(joined, EVENT)


def _stored(one: _Explained, events: pl.DataFrame, folder: Path, limits: Limits) -> RunEvents:
    """Store the points of events (EVENT)."""
    texts = sorted(set(events["label"].to_list()))
    numbers = {text: int(text) for text in texts} if one.counts else number_texts(one.event_type.key, texts)
    values = {0: one.event_type.ended, **{n: text for text, n in sorted(numbers.items(), key=lambda pair: pair[1])}}
    position = {text: n for n, text in enumerate(values.values()) if n}
    placed = events.with_columns(combination=pl.col("label").replace_strict(position, return_dtype=pl.Int64))
    path, of = folder / f"explained.{one.family}.arrow", SpillOf("events", one.family)
    spill = write_spill(path, of, Points(row_points(placed)), limits.batch_rows)
    return RunEvents(one.family, spill, PcfType(one.event_type.number, one.event_type.label, values))


def path_events(plan: Plan, run: Run, graph: Callable[[], Graph]) -> pl.DataFrame:
    """Return EVENT of the pieces of the critical path. They fill the window.

    A piece without a row, such as the time after the last work, is on that of the piece before. A run in which nothing
    launches, runs or communicates has none.
    """
    path = critical_path(run, graph(), plan.window.spans)
    row = pl.when(pl.col("row") != NO_ROW).then("row").forward_fill().backward_fill()
    label = pl.when(pl.col("kind") == COMPUTE).then("family").otherwise("kind")
    return path.select(row.alias("row"), "start", "end", label=label).drop_nulls("row").select(*EVENT)


def idle_events(plan: Plan, run: Run, graph: Callable[[], Graph]) -> pl.DataFrame:
    """Return EVENT of the causes of idle time, those of a device on its first row of the rank that it counts for.

    A device on which nothing ran has them on the first row of that rank.
    """
    parts = idle_parts(run, graph(), plan.window.spans)
    work = run.work.group_by("device", "task").agg(pl.col("row").min())
    row_of = {(device, task): row for device, task, row in work.rows()}
    first = np.searchsorted(plan.objects.rows.task, np.arange(1, len(run.tasks) + 1)).tolist()
    tasks = tasks_of_devices(run)
    rows = pl.Series("row", [row_of.get((n, task), first[task]) for n, task in enumerate(tasks)], dtype=pl.Int64)
    return parts.select(rows.gather(parts["device"]), "start", "end", label="cause")


def queue_events(plan: Plan, run: Run, graph: Callable[[], Graph]) -> pl.DataFrame:
    """Return EVENT of the numbers of activities that wait on each stream, on its first row, over the whole trace."""
    waiting = waiting_work(run)
    first = waiting.group_by("stream").agg(pl.col("row").min())
    found = queue_lengths(waiting, ["stream"]).join(first, on="stream")
    # A launch may come before the first event that is drawn.
    cut = found.with_columns(pl.col("start", "end").clip(0, plan.duration)).filter(pl.col("end") > pl.col("start"))
    return cut.select("row", "start", "end", label=pl.col("waiting").cast(pl.String))


EXPLANATIONS = (
    _Explained(CRITICAL_PATH_FAMILY.name, CRITICAL_PATH, path_events),
    _Explained(IDLE_CAUSES_FAMILY.name, IDLE_CAUSE, idle_events),
    _Explained(LAUNCH_QUEUES_FAMILY.name, LAUNCH_QUEUE, queue_events, counts=True),
)
