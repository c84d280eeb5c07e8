"""Idle time of devices without launched work, by what their hosts did: load, allocate, refill after a wait, launch.

Other than IDLE_CAUSES it has the time between iterations, and each time by its iteration.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.critical_path import EXPLAINED
from nsys2prv.analysis.frames import Run, covered, parts_by
from nsys2prv.analysis.host import STREAM_WAIT
from nsys2prv.analysis.phases import main_ranges, phase_of, projected
from nsys2prv.analysis.result import Analysis
from nsys2prv.intervals.spans import Spans, difference, intersection, one_span, time_in, union

# Idle time (ns) of each device (index in Run.devices) by iteration (null without any), in parts: `load`: a range of
# loading was open on the main thread; `allocating`: a thread
# allocated or freed memory; `synchronized`: the device became idle while its host waited for it, up to
# the length of that wait, in which the host could have launched; `launching`: the rest. `longest`: the longest of these
# times, and `at` its begin.
STARVED = {
    "device": pl.Int64(),
    "repeat": pl.Int64(),
    "number": pl.Int64(),
    "load": pl.Int64(),
    "allocating": pl.Int64(),
    "synchronized": pl.Int64(),
    "launching": pl.Int64(),
    "longest": pl.Int64(),
    "at": pl.Int64(),
}
PARTS = ("load", "allocating", "synchronized", "launching")
ALLOCATES = r"^(?:cudaMalloc|cudaFree|cuMemAlloc|cuMemFree|cuMemCreate|cuMemMap|cudaHostAlloc)"


def starved(found: Analysis) -> pl.DataFrame:
    """Return STARVED for each device and iteration of the window; without iterations for the window."""
    run, window = found.run, found.window
    whole = one_span(window.start, window.end) if window.iterations else window.spans
    borders = _borders(found)
    by_device = parts_by(run.work, "device")
    loading, blocked = load_spans(run), _blocked(run)
    parts = [pl.DataFrame(schema=STARVED)]
    for device, work in by_device.items():
        tasks = work["task"].unique().to_list()
        gaps = _gaps(work, whole)
        load = _inside(_together(loading, tasks), gaps)
        mpi, allocating = (_inside(_together(blocked[kind], tasks), gaps) for kind in ("mpi", "allocation"))
        waited = _wait_before(_together(blocked["synchronization"], tasks), gaps)
        rest = pl.col("until") - pl.col("start") - pl.sum_horizontal("load", "mpi", "allocating")
        own = (
            gaps.with_columns(load=load, mpi=mpi, allocating=allocating, waited=waited)
            .with_columns(rest.clip(lower_bound=0).alias("rest"))
            .with_columns(
                synchronized=pl.min_horizontal("rest", "waited"),
                launching=(pl.col("rest") - pl.col("waited")).clip(lower_bound=0),
            )
        )
        parts.append(_by_iteration(own, borders, device))
    return pl.concat(parts)


def load_spans(run: Run) -> dict[int, Spans]:
    """Return by task the spans in which its main thread loads data, by the names of its ranges."""
    main = main_ranges(run)
    loads = main.filter((phase_of(pl.col("text")) == "load").fill_null(False))
    return {task: covered(own) for task, own in parts_by(loads, "task").items()}


def _borders(found: Analysis) -> pl.DataFrame:
    """Return repeat, number, begin and steady of each iteration: when its first device work begins, on any rank."""
    tasks = {task.rank: n for n, task in enumerate(found.run.tasks)}
    steps = found.iterations.select(
        "repeat",
        "steady",
        task=pl.col("rank").replace_strict(tasks, return_dtype=pl.Int64),
        number="iteration",
        start="start_ns",
        end=pl.col("start_ns") + pl.col("total_ns"),
    ).sort("task", "start")
    launched = projected(found.run.work.select("task", "start", "launched"), steps) if steps.height else None
    if launched is None or not found.window.iterations:
        return pl.DataFrame(schema={"repeat": pl.Int64, "number": pl.Int64, "begin": pl.Int64, "steady": pl.Boolean})
    begins = launched.group_by("repeat", "number").agg(begin=pl.col("start").min())
    steady = steps.group_by("repeat", "number").agg(pl.col("steady").all())
    return begins.join(steady, on=["repeat", "number"]).sort("begin")


def _gaps(work: pl.DataFrame, whole: Spans) -> pl.DataFrame:
    """Return start and until of each idle time: its begin, and when the host had launched the next work."""
    idle = difference(whole, covered(work, whole))
    ordered = work.sort("start").select("start", "launched")
    at = np.searchsorted(ordered["start"].to_numpy(), idle.end, side="left")
    launched = pl.concat([ordered["launched"], pl.Series("launched", [None], dtype=pl.Int64)])
    gaps = pl.DataFrame({"start": idle.start, "end": idle.end}).with_columns(
        launched.gather(np.minimum(at, len(ordered)))
    )
    # A launch takes a while to reach the device, which is part of it.
    at_once = pl.col("end") - pl.col("launched") <= EXPLAINED
    until = pl.when(at_once).then("end").otherwise(pl.col("launched").clip(pl.col("start"), pl.col("end")))
    return gaps.select("start", until=pl.coalesce(until, "start"))


def _inside(spans: Spans, gaps: pl.DataFrame) -> pl.Series:
    start, until = gaps["start"].to_numpy(), gaps["until"].to_numpy()
    return pl.Series(time_in(spans, until) - time_in(spans, start), dtype=pl.Int64)


def _wait_before(waits: Spans, gaps: pl.DataFrame) -> pl.Series:
    """Return how long the host had waited (ns) when each idle time began, 0 if it did not wait then."""
    start = gaps["start"].to_numpy()
    if not len(waits.start):
        return pl.Series(np.zeros(len(start), dtype=np.int64))
    at = np.searchsorted(waits.start, start, side="right") - 1
    since, until = waits.start[np.maximum(at, 0)], waits.end[np.maximum(at, 0)]
    return pl.Series(np.where((at >= 0) & (start < until), start - since, 0))


def _together(by_task: dict[int, Spans], tasks: list[int]) -> Spans:
    """Return the time that is in the spans of all these tasks: the device idles for none of them alone."""
    own = [by_task.get(task, union(np.zeros(0, np.int64), np.zeros(0, np.int64))) for task in tasks]
    both = own[0]
    for spans in own[1:]:
        both = intersection(both, spans)
    return both


def _blocked(run: Run) -> dict[str, dict[int, Spans]]:
    """Return by kind and task the spans in which any of its threads is in MPI, waits for a device, or allocates."""
    name = pl.col("name").cast(pl.String)
    chosen = {
        "mpi": pl.col("kind") == "mpi",
        "synchronization": (pl.col("kind") == "synchronization") & (name != STREAM_WAIT),
        "allocation": (pl.col("kind") == "cuda") & name.str.contains(ALLOCATES),
    }
    return {
        kind: {task: covered(own) for task, own in parts_by(run.calls.filter(which), "task").items()}
        for kind, which in chosen.items()
    }


def _by_iteration(own: pl.DataFrame, borders: pl.DataFrame, device: int) -> pl.DataFrame:
    """Return STARVED of one device's gaps. A time between two iterations belongs to the one before it."""
    named = own.with_columns(repeat=pl.lit(None, pl.Int64), number=pl.lit(None, pl.Int64), steady=pl.lit(True))
    if borders.height:
        at = np.searchsorted(borders["begin"].to_numpy(), own["start"].to_numpy(), side="right") - 1
        named = own.hstack(borders.select("repeat", "number", "steady")[np.maximum(at, 0)]).filter(pl.Series(at >= 0))
    length = pl.sum_horizontal(*PARTS)
    sums = (
        named.filter("steady")
        .group_by("repeat", "number")
        .agg(pl.col(*PARTS).sum(), longest=length.max(), at=pl.col("start").sort_by(length).last())
    )
    if borders.height:
        steady = borders.filter("steady").select("repeat", "number")
        sums = steady.join(sums, on=["repeat", "number"], how="left").with_columns(pl.col(*PARTS).fill_null(0))
    return sums.with_columns(device=pl.lit(device)).select(pl.col(c).cast(t) for c, t in STARVED.items())
