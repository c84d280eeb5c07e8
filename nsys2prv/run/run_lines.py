"""Lines that every trace has: the window of interest, names of columns, and the first and last samples."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.model.event_types import EFFICIENCY_FACTOR, NOTHING, WINDOW
from nsys2prv.model.interning import GPU
from nsys2prv.paraver.lines import event_lines, sample_lines
from nsys2prv.run.iterations.steady import Window
from nsys2prv.run.numbering import Numbering
from nsys2prv.run.objects import Objects


def run_lines(
    objects: Objects, numbering: Numbering, samples: pl.DataFrame, window: Window, duration: int
) -> pl.DataFrame:
    """Return the lines of the window of interest, of names of columns, and of the first and last `samples`."""
    start, end = window.spans
    spans = pl.DataFrame({"length": end - start, "low": start, "high": end})
    ends = pl.concat(
        spans.select(
            pl.col(side).alias("time"),
            pl.lit(phase, pl.UInt8).alias("phase"),
            "length",
            pl.lit(phase, pl.UInt32).alias("combination"),
        )
        for side, phase in (("low", 1), ("high", 0))
    )
    marked = ends.join(_of_processes(objects).select("row"), how="cross")
    combinations = pl.DataFrame({"type": [WINDOW.number] * 2, "value": [0, 1]})
    lines = [event_lines(marked, combinations, {}), _names_of_columns(objects, duration)]
    if samples.height:
        metrics = [c for c in samples.columns if c not in ("time", "row")]
        lines.append(sample_lines(samples, {c: numbering.types[c] for c in metrics}))
    return pl.concat(lines)


def _names_of_columns(objects: Objects, duration: int) -> pl.DataFrame:
    """Return lines that name the columns of tables of efficiency, on the first row of each process, and NOTHING's."""
    numbers = list(EFFICIENCY_FACTOR.values)[:duration]
    rows = _of_processes(objects).unique("task", keep="first", maintain_order=True).select("row")
    points = [
        rows.select(
            time=pl.lit(time, pl.Int64),
            phase=pl.lit(phase, pl.UInt8),
            length=pl.lit(1, pl.Int64),
            row="row",
            combination=pl.lit(combination, pl.UInt32),
        )
        for n in range(len(numbers))
        for time, phase, combination in ((n, 1, n + 1), (n + 1, 0, 0))
    ]
    nothing = points[0].head(1).with_columns(phase=pl.lit(0, pl.UInt8), combination=pl.lit(len(numbers) + 1, pl.UInt32))
    types = [*[EFFICIENCY_FACTOR.number] * (len(numbers) + 1), NOTHING.number]
    combinations = pl.DataFrame({"type": types, "value": [0, *numbers, 0]})
    return event_lines(pl.concat([nothing, *points]), combinations, {})


def _of_processes(objects: Objects) -> pl.DataFrame:
    """Return the rows (`row`) of tasks that are processes. In the cfgs a task with a window is a rank, idle or not.

    Other tasks have only metrics of GPUs that no process uses. In a trace of nothing but metrics all rows count.
    """
    rows = pl.DataFrame(
        {"row": np.arange(len(objects.rows.task)), "task": objects.rows.task, "kind": objects.rows.kind}
    )
    working = rows.filter((pl.col("kind") != GPU).any().over("task"))
    return working if working.height else rows
