"""Launches: time from the call to the start of its kernel, time of the call, and queues of the streams."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.analysis.frames import COPY, Run
from nsys2prv.analysis.graph.instants import NO_INSTANT, known_instants
from nsys2prv.analysis.idle.launch_queues import queue_lengths, waiting_work
from nsys2prv.analysis.interval_frames import length, whole_with_ns
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.source import CLOCK_SLACK
from nsys2prv.intervals.spans import Spans, inside
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.trace_rows import NO_ROW

# Kernels and graphs that start in the window, by rank (null: all) and name (null: all). `wait_*`: from the begin of the
# call to the start on the device; `call_ns`: time in the calls, which kernels of one call share evenly; `kernel_ns`:
# time on the device.
LAUNCH = {
    "rank": pl.Int64(),
    "name": pl.String(),
    "count": pl.Int64(),
    "wait_p50_ns": pl.Float64(),
    "wait_p90_ns": pl.Float64(),
    "wait_p99_ns": pl.Float64(),
    "call_p50_ns": pl.Float64(),
    "kernel_p50_ns": pl.Float64(),
    "call_ns": pl.Int64(),
    "kernel_ns": pl.Int64(),
}
# Device work of a stream that was launched and had not started: the most at once in the window, and the mean over it.
QUEUE = {
    "rank": pl.Int64(),
    "stream": pl.String(),
    "activities": pl.Int64(),
    "longest": pl.Int64(),
    "mean": pl.Float64(),
}

# Calls that launch CUDA graphs.
GRAPH_LAUNCH = r"^cu(?:da)?GraphLaunch"


def launches(run: Run, window: Spans) -> pl.DataFrame:
    """Return LAUNCH, by time on the device.

    An activity is left out if the report lacks its call, or if it begins before the call by more than the clocks of
    host and device may differ.
    """
    timed = _started(run, window).select(
        rank=run.rank_of("task"),
        name=pl.col("name").cast(pl.String),
        wait=pl.col("start") - pl.col("launched"),
        call=pl.col("call") / pl.len().over("caller_row", "launched"),
        kernel=length(),
    )
    parts = [_summed(timed, by) for by in ([], ["name"], ["rank"], ["rank", "name"])]
    ordered = pl.concat(parts).sort(
        "rank", pl.col("name").is_not_null(), "kernel_ns", "name", descending=[False, False, True, False]
    )
    return ordered.filter(pl.col("count") > 0)


def blocking_launches(run: Run, window: Spans) -> pl.DataFrame:
    """Return by rank (null: of no rank) how many `kernels` a window has, and how many end before their call does.

    The latter is `blocking`. Kernels whose call the report lacks do not count.
    """
    known = _started(run, window).filter(pl.col("call").is_not_null())
    before = (pl.col("end") <= pl.col("launched") + pl.col("call")).sum()
    return known.group_by(rank=run.rank_of("task")).agg(kernels=pl.len(), blocking=before).sort("rank")


def share_of_graphs(run: Run, window: Spans) -> float:
    """Return the share of the kernels and graphs of a window that launches of CUDA graphs start; 0 without any."""
    started = _launched(run, window).select("launched", row="caller_row")
    of_graphs = (pl.col("kind") == "cuda") & text_contains("name", GRAPH_LAUNCH)
    calls = run.calls.filter(of_graphs).select("row", launched="start")
    return started.join(calls, on=["row", "launched"], how="semi").height / max(started.height, 1)


def _started(run: Run, window: Spans) -> pl.DataFrame:
    """Return the kernels and graphs that start in a window, with `call`, the length (ns) of the call that launched."""
    return _with_calls(run, _launched(run, window))


def _launched(run: Run, window: Spans) -> pl.DataFrame:
    """Return the kernels and graphs that start in a window, of those whose launch is known."""
    possible = pl.col("launched") - pl.col("start") <= CLOCK_SLACK
    low = run.chosen[0] if run.chosen else 0
    # What was cut at the begin of a chosen time starts before it.
    begins = (pl.col("start") > low) | (pl.col("whole_ns") == pl.col("end") - pl.col("start"))
    known = run.work.filter((pl.col("kind") != COPY) & pl.col("launched").is_not_null() & possible & begins)
    return known.filter(inside(window, known["start"].to_numpy()))


def _with_calls(run: Run, started: pl.DataFrame) -> pl.DataFrame:
    """Add to device activity `call`, the length (ns) of the first call of its thread that began at its launch."""
    calls = run.calls.filter(pl.col("kind") == "cuda").select("row", "start", length=pl.col("end") - pl.col("start"))
    # The calls of a run come in order of start.
    calls = calls.sort("row", maintain_order=True)
    callers = started["caller_row"].fill_null(NO_ROW)
    at = known_instants(calls["row"], calls["start"], callers, started["launched"])
    return started.with_columns(call=calls["length"].gather(pl.Series(at).replace(NO_INSTANT, None)))


def _summed(timed: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows of LAUNCH by some of its columns, with the others null."""
    figures = {
        "count": pl.len(),
        **{f"wait_p{p}_ns": pl.col("wait").quantile(p / 100, "linear") for p in (50, 90, 99)},
        "call_p50_ns": pl.col("call").median(),
        "kernel_p50_ns": pl.col("kernel").median(),
        "call_ns": pl.col("call").sum().round(),
        "kernel_ns": pl.col("kernel").sum(),
    }
    table = timed.group_by(by).agg(**figures) if by else timed.select(**figures)
    lacking = [pl.lit(None).alias(c) for c in ("rank", "name") if c not in by]
    return to_schema(table.with_columns(lacking), LAUNCH)


def queues(run: Run, window: Spans) -> pl.DataFrame:
    """Return QUEUE of each stream, by rank and stream."""
    rank = run.rank_of("task")
    waiting = waiting_work(run).with_columns(rank=rank)
    launched = whole_with_ns(waiting.rename({"begin": "start"}), window)
    by, total = ["rank", "stream"], max(window.total(), 1)
    label = pl.col("stream").replace_strict(dict(enumerate(run.row_labels)), default="", return_dtype=pl.String)
    table = launched.group_by(by).agg(activities=pl.len(), mean=pl.col("ns").sum() / total)
    lengths = queue_lengths(launched.select(*by, "end", begin="start"), by)
    # What waits in one span of the window and in another one may wait at once between them.
    longest = whole_with_ns(lengths, window).group_by(by).agg(longest=pl.col("waiting").max())
    found = table.join(longest, on=by, how="left").sort("rank", label, "stream").with_columns(stream=label)
    return to_schema(found, QUEUE)
