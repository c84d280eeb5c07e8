"""The operations of a run that cross ranks, and the calls that order streams and threads, gathered from its reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import TEXT, WAIT, Run, RunClocks
from nsys2prv.analysis.gather.stored_intervals import read_within
from nsys2prv.analysis.matching.parts_by_order import parts_by_order
from nsys2prv.intervals.spans import Span
from nsys2prv.model.frames import HOST_WAIT_CONTEXT
from nsys2prv.model.interning import GPU, STREAM
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.match.match import joined_ends
from nsys2prv.pipeline.match.sequences import continue_sequences
from nsys2prv.run.matching.arrivals import OPERATION, ROLES, with_arrivals, with_operation
from nsys2prv.run.plan import Plan
from nsys2prv.run.trace_rows import NO_ROW

# Columns of places by which a stream is found, and its context.
_STREAM, _CONTEXT = ("process", "context", "stream"), ("process", "context")
# Streams may wait in a chosen time for calls that were made so long before (ns): far longer than a host runs ahead of
# its device, which holds some thousand launches in its queue.
CALLED_BEFORE = 10_000_000_000


def with_operations(run: Run, plan: Plan, folder: Path, limits: Limits, span: Span | None = None) -> Run:
    """Return the run with its parts of operations, its waits, and its clocks with their error.

    `folder` takes intermediate files; `span` (merged ns): only waits that can matter in it.
    """
    clocks = plan.alignment
    known = run._replace(
        waits=gather_waits(plan, span and _calling(run, span)),
        clocks=RunClocks(
            clocks.error, _by_task(plan, clocks.units), _by_task(plan, clocks.components), clocks.warnings
        ),
    )
    parts = gather_parts(plan, folder, limits.batch_rows)
    # Ranks that were not chosen may share a communicator with those that were.
    if not any(unchosen.any() for unchosen in plan.objects.unchosen):
        parts = pl.concat([parts, parts_by_order(known, parts)])
    return known._replace(parts=parts)


def _by_task(plan: Plan, of_reports: Sequence[int]) -> tuple[int, ...]:
    """Return for each task the number of the first report with a thread or stream of it."""
    rows = plan.objects.rows
    # A row of metrics may stand in a task of another report.
    of_process = np.array([kind != GPU for kind in rows.kind], dtype=np.bool_)
    found = np.zeros(len(plan.objects.tasks), dtype=np.int64)
    for row_of, number in reversed(list(zip(plan.objects.row_of, of_reports, strict=True))):
        drawn = row_of[row_of != NO_ROW]
        found[rows.task[drawn[of_process[drawn]]] - 1] = number
    return tuple(found.tolist())


def gather_parts(plan: Plan, folder: Path, batch_rows: int) -> pl.DataFrame:
    """Return PART of all collectives and messages that have a communicator and a number.

    `folder` takes intermediate files. Raises OutputError.
    """
    ends = joined_ends(plan, continue_sequences(plan, folder, batch_rows))
    known = with_arrivals(with_operation(ends)).filter(pl.col("row") != NO_ROW)
    keyed = known.sort(*OPERATION, "task", "row", "time")
    task = pl.Series("task", plan.objects.rows.task[keyed["row"].to_numpy()] - 1)
    drawn = keyed.select("task", drawn=task).unique("task")
    names = pl.Series("communicator", plan.communicators.names, dtype=pl.String)
    return keyed.select(
        pl.struct(OPERATION).rle_id().cast(pl.Int64).alias("operation"),
        pl.col("family").cast(TEXT),
        "kind",
        task,
        "row",
        names.gather(keyed["communicator"]).cast(TEXT),
        pl.col("size").alias("bytes"),
        *("began", "ended", *ROLES, "last"),
        # A rank that was not chosen has no task here.
        pl.col("waited_for").replace_strict(drawn["task"], drawn["drawn"], default=None, return_dtype=pl.Int64),
    )


def _calling(run: Run, span: Span) -> Span:
    """Return the time in which calls were made for which hosts or streams may wait in a chosen time (merged ns)."""
    first = run.calls["start"].min()
    begun = span.start if first is None else int(first)  # type: ignore[arg-type]
    return Span(min(span.start - CALLED_BEFORE, begun), span.end)


def gather_waits(plan: Plan, span: Span | None = None) -> pl.DataFrame:
    """Return WAIT of all calls that make a stream or a host thread with a row wait for device work.

    `span` (merged ns): at least of those that are called in it.
    """
    parts = [pl.DataFrame(schema=WAIT), *_waits(plan, span)]
    return pl.concat(parts).sort("time", "row", maintain_order=True)


def _waits(plan: Plan, span: Span | None) -> Iterator[pl.DataFrame]:
    for r, summary in enumerate(plan.summaries):
        clock = plan.clocks[r]
        rows, of_contexts = (np.append(_stream_rows(plan, r, key), NO_ROW) for key in (_STREAM, _CONTEXT))
        for spill in summary.wait_calls:
            frame = read_within(plan, r, spill, span)
            row = {c: rows[frame[c].fill_null(len(rows) - 1).to_numpy()] for c in ("place", "stream", "record_stream")}
            in_context = (frame["kind"] == HOST_WAIT_CONTEXT).to_numpy()
            stream = frame["stream"].fill_null(len(rows) - 1).to_numpy()
            row["stream"] = np.where(in_context, of_contexts[stream], row["stream"])
            merged = {c: clock.merged(frame[c].fill_null(0).to_numpy()) for c in ("time", "record_time")}
            known = frame.select(
                "kind",
                pl.Series("task", plan.objects.rows.task[row["place"]] - 1),
                pl.Series("row", row["place"]),
                pl.Series("time", merged["time"]),
                pl.Series("stream", row["stream"]),
                pl.when(pl.col("record_time").is_not_null())
                .then(pl.Series(merged["record_time"]))
                .alias("record_time"),
                pl.Series("record_stream", row["record_stream"]),
            )
            yield known.filter(pl.col("row") != NO_ROW)


def _stream_rows(plan: Plan, r: int, key: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the row of each place of a report; a stream without work gets that of one with the same `key`.

    Without such a one it gets a number beyond all rows. Synchronization records may name a wrong device, but never a
    wrong context.
    """
    places = plan.summaries[r].places.with_columns(row=pl.Series(plan.objects.row_of[r])).sort("id")
    has_row = pl.col("row") != NO_ROW
    known = places.filter((pl.col("kind") == STREAM) & has_row).unique(key, keep="first", maintain_order=True)
    found = places.join(known.select(*key, other="row"), on=key, how="left", maintain_order="left")
    beyond = len(plan.objects.rows.label) + sum(s.places.height for s in plan.summaries[:r])
    first = beyond + pl.col("id").cast(pl.Int64).min().over(key)
    alone = pl.when(pl.col("kind") == STREAM).then(first)
    return found.select(pl.coalesce(pl.when(has_row).then("row"), "other", alone, NO_ROW)).to_series().to_numpy()
