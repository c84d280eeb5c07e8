"""The kinds of the streams of a run, as its reports say them."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import STREAM_KIND
from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.interning import STREAM
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.plan import Plan
from nsys2prv.run.tasks import RecordedProcess
from nsys2prv.run.trace_rows import NO_ROW


def stream_kinds(plan: Plan) -> pl.DataFrame:
    """Return STREAM_KIND of the streams with work, in order of rows.

    A row of several streams, as with `--merge-streams`, is left out if they differ. Several reports of a process have
    the same contexts.
    """
    task_of = {process: number for number, task in enumerate(plan.tasks) for process in task.recorded}
    found = [
        (int(row), summary.identity.streams.get((pid_of(process), context, stream)), task, context)
        for r, summary in enumerate(plan.summaries)
        for row, process, context, stream in _streams(summary.places, plan, r).rows()
        if (task := task_of.get(RecordedProcess(r, process))) is not None
    ]
    schema = {"row": pl.Int64, "kind": pl.UInt8, "task": pl.Int64, "context": pl.Int64}
    known = pl.DataFrame(found, schema=schema, orient="row").drop_nulls("kind")
    same = known.filter(pl.struct("kind", "context").n_unique().over("row") == 1)
    numbered = same.with_columns(context=pl.struct("task", "context").rank("dense").cast(pl.Int64))
    return to_schema(numbered.unique("row", keep="first").sort("row"), STREAM_KIND)


def _streams(places: pl.DataFrame, plan: Plan, r: int) -> pl.DataFrame:
    """Return row, process, context and stream of the drawn streams of a report. `places`: those of the report."""
    rows = places.with_columns(row=pl.Series(plan.objects.row_of[r]).gather(places["id"]))
    drawn = rows.filter(pl.col("kind") == STREAM, pl.col("row") != NO_ROW)
    return drawn.select("row", "process", "context", "stream").drop_nulls()
