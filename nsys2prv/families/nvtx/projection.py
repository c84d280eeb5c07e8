"""NVTX ranges projected on the device: on each stream, the span of the work that was launched within the range.

By process: the work that any thread launched while the range was open on the process' main NVTX thread (frameworks
launch backward passes from threads of their own). By thread: the work that the range's own thread launched within it,
which is NVIDIA's rule (`nsys recipe nvtx_gpu_proj_sum`). A stream works in order of launch, so that the ranges of one
thread nest on a stream as they nest on the thread.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.families.device_work import CALL_KEYS, DEVICE_KEYS, DEVICE_TABLES
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.nvtx.numbered_ranges import with_slice
from nsys2prv.families.nvtx.nvtx import closed_ranges
from nsys2prv.families.nvtx_events import NVTX_READS
from nsys2prv.families.source import CLOCK_SLACK, Source, after
from nsys2prv.intervals.lanes import crossing_lanes, keep_lanes
from nsys2prv.intervals.nesting import NO_INTERVAL, innermost, nesting
from nsys2prv.intervals.shortest import end_of, ends_of
from nsys2prv.model import event_types as types
from nsys2prv.model.frames import NumberedRanges
from nsys2prv.model.global_ids import main_thread_of, process_of
from nsys2prv.model.schemas import to_schema
from nsys2prv.report import schema

LaunchedBy = Literal["process", "thread"]
# The span (ns) of the work on a stream that was launched within a range (row of the ranges), and how many kernels.
_PROJECTED = {"range": pl.UInt32(), "place": pl.UInt32(), "start": pl.Int64(), "end": pl.Int64(), "kernels": pl.Int64()}
# The same of several such spans together.
_TOGETHER = (pl.col("start").min(), pl.col("end").max(), pl.col("kernels").sum())
# A range's span on a stream as it is drawn, or the part of it that was launched in one slice. `number`: of the range
# over all slices.
_DRAWN = {
    "slot": pl.UInt16(),
    "number": pl.UInt32(),
    "value": pl.Int64(),
    "place": pl.UInt32(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "kernels": pl.Int64(),
}
_RANGE = ("number", "start", "end", "eventType", "globalTid", "endGlobalTid", "domainId", "domain", "text")


def launched_work(source: Source) -> pl.DataFrame:
    """Return device activity with its call: start, end, place, caller (globalTid), called, kernels (0 or 1)."""
    work = pl.concat(
        source.device_work(t).select(
            "start", "end", "place", "caller", "called", kernels=pl.lit(int(t is schema.KERNEL), pl.Int64)
        )
        for t in DEVICE_TABLES
    ).drop_nulls("caller")
    return work.with_columns(source.places.in_first_lane(work["place"]).alias("place"))


def project(
    ranges: pl.DataFrame, work: pl.DataFrame, by: LaunchedBy, counts: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return one row a range and stream: columns of _PROJECTED.

    `ranges` has start, end, globalTid, of one domain. `work` comes from launched_work. A call belongs to a range if it
    began in [start, end). `counts` (globalTid, len): numbers of ranges of each thread, if `ranges` lacks some.
    """
    ranges = ranges.with_row_index("range").with_columns(end=end_of())
    if by == "process":
        counts = ranges.group_by("globalTid").len() if counts is None else counts
        ranges = ranges.filter(pl.col("globalTid").is_in(_main_threads(counts).implode()))
    threads = ranges["globalTid"].unique().sort()
    numbered = pl.DataFrame({"globalTid": threads, "group": np.arange(len(threads))})
    if by == "process":
        # One thread a process: work of all its threads counts.
        of_process = numbered.select(process_of(pl.col("globalTid")), "group")
        work = work.join(of_process, left_on=process_of(pl.col("caller")), right_on="globalTid", how="inner")
    else:
        work = work.join(numbered, left_on="caller", right_on="globalTid", how="inner")
    ranges = ranges.join(numbered, on="globalTid", how="inner", maintain_order="left")
    group, start, end = (ranges[c].cast(pl.Int64).to_numpy() for c in ("group", "start", "end"))
    lane = crossing_lanes(group, start, end)
    parts = [_project_nested(ranges.filter(pl.Series(lane == n)), work) for n in range(int(lane.max(initial=-1)) + 1)]
    return pl.concat([pl.DataFrame(schema=_PROJECTED), *parts])


def _project_nested(ranges: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Project ranges that nest: the work of the innermost ones, handed up from level to level."""
    group, start, end = (ranges[c].cast(pl.Int64).to_numpy() for c in ("group", "start", "end"))
    depth, parent, _ = nesting(group, start, end)
    at_group, at = (work[c].cast(pl.Int64).to_numpy() for c in ("group", "called"))
    within = work.with_columns(at=pl.Series(innermost(group, start, end, parent, at_group, at)))
    launched = within.filter(pl.col("at") != NO_INTERVAL).group_by("at", "place").agg(_TOGETHER)
    levels = launched.with_columns(depth=pl.Series(depth[launched["at"].to_numpy()]))
    done, inner = [], launched.clear()
    for level in range(int(depth.max(initial=-1)), -1, -1):
        here = levels.filter(depth=level).drop("depth")
        here = pl.concat([here, inner]).group_by("at", "place").agg(_TOGETHER)
        done.append(here)
        inner = here.with_columns(at=pl.Series(parent[here["at"].to_numpy()]))
    projected = pl.concat([launched.clear(), *done])
    number = ranges["range"].gather(projected["at"]).alias("range")
    return projected.with_columns(number).select(list(_PROJECTED)).sort("range", "place")


def _main_threads(counts: pl.DataFrame) -> pl.Series:
    """Return the main NVTX thread of each process: its main thread if that has ranges, else the one with most."""
    threads = counts.with_columns(process=process_of(pl.col("globalTid")))
    is_main = pl.col("globalTid") == main_thread_of(pl.col("process"))
    order = threads.sort(is_main, "len", "globalTid", descending=[True, True, False])
    return order.unique("process", keep="first", maintain_order=True)["globalTid"]


class UnfinishedRanges(NamedTuple):
    """Ranges that later slices need: ranges that may get more work, and spans that may still change.

    `numbered`: ranges so far that may number the iterations of the run.
    """

    open_ranges: pl.DataFrame | None = None
    spans: pl.DataFrame | None = None
    numbered: NumberedRanges = NumberedRanges()


def _frames(source: Source, state: UnfinishedRanges, by: LaunchedBy) -> Frames[UnfinishedRanges]:
    """Yield ranges on the streams that their work ran on, and with the last slice those that number iterations."""
    block, one_type = (
        (types.NVTX_BY_PROCESS, types.RANGE_BY_PROCESS)
        if by == "process"
        else (types.NVTX_BY_THREAD, types.RANGE_BY_THREAD)
    )
    events, work = _open_ranges(source, state.open_ranges), launched_work(source)
    numbered = state.numbered
    if by == "process":
        pushed = source.ranges().filter(pl.col("eventType").is_in(schema.PUSH_POP))
        # Finding the last event of a report reads every table's times: only where a range is open.
        last = source.last if pushed["end"].null_count() else 0
        numbered = with_slice(numbered, pushed, work, last)
    parts = []
    push_pop = events.filter(pl.col("eventType").is_in(schema.PUSH_POP))
    for (domain,), ranges in push_pop.group_by("domain", maintain_order=True):
        key = block.of(str(domain) or types.DEFAULT_DOMAIN)
        parts.append(_projected(source, key, ranges, schema.PUSH_POP, work, by))
    # A range that ends on another thread has no thread of its own: NVIDIA's rule leaves it out.
    own_end = pl.col("endGlobalTid").is_null() | (pl.col("endGlobalTid") == pl.col("globalTid"))
    start_end = events.filter(pl.col("eventType").is_in(schema.START_END) & (own_end | pl.lit(by == "process")))
    if start_end.height:
        parts.append(_projected(source, one_type.key, start_end, schema.START_END, work, by))
    found = _together(state.spans, pl.concat([pl.DataFrame(schema=_DRAWN), *parts]))
    if source.slice.last:
        yield from _intervals(source, found)
        if by == "process":
            yield numbered
        return UnfinishedRanges()
    done = _settled(source, events, found)
    yield from _intervals(source, found.filter(done))
    # The last range stays, whenever it ended: numbering goes on from it.
    going_on = (pl.col("end") > source.slice.until) | (pl.col("number") == pl.col("number").max())
    return UnfinishedRanges(events.filter(going_on), found.filter(~done), numbered)


def _open_ranges(source: Source, earlier: pl.DataFrame | None) -> pl.DataFrame:
    """Return the ranges within which work of this slice may have been launched, numbered over all slices."""
    first = 0 if earlier is None else int(earlier["number"].max() or 0) + 1  # type: ignore[arg-type]
    events = closed_ranges(source, source.ranges()).with_row_index("number", offset=first).select(_RANGE)
    return after(earlier, events)


def _projected(
    source: Source,
    key: str,
    ranges: pl.DataFrame,
    kinds: tuple[int, ...],
    work: pl.DataFrame,
    by: LaunchedBy,
) -> pl.DataFrame:
    """Return _DRAWN rows of the ranges, in this slice."""
    projected = project(ranges, work, by, _counts(source, ranges, kinds))
    drawn = projected.with_columns(
        slot=source.slot(key),
        number=ranges["number"].gather(projected["range"]),
        value=source.labels.ids(key, ranges["text"].gather(projected["range"])),
    )
    return to_schema(drawn, _DRAWN)


def _counts(source: Source, ranges: pl.DataFrame, kinds: tuple[int, ...]) -> pl.DataFrame | None:
    """Count the ranges of these kinds of each thread in the whole report, in the domains of `ranges` if they push."""
    if source.slice.range_counts is None:
        return None
    counted = source.slice.range_counts.filter(pl.col("eventType").is_in(kinds))
    if kinds is schema.PUSH_POP:
        process = process_of(pl.col("globalTid")).alias("process")
        domains = ranges.select(process, "domainId").unique()
        counted = counted.with_columns(process).join(domains, on=["process", "domainId"], nulls_equal=True)
    return counted.group_by("globalTid").agg(pl.col("len").sum())


def _together(earlier: pl.DataFrame | None, found: pl.DataFrame) -> pl.DataFrame:
    """Merge the spans of this slice with those left by earlier slices: one for each range and stream."""
    if earlier is None:
        return found
    joined = pl.concat([earlier, found]).group_by("slot", "number", "value", "place").agg(_TOGETHER)
    return joined.sort("slot", "number", "place").select(list(_DRAWN))


def _settled(source: Source, events: pl.DataFrame, found: pl.DataFrame) -> pl.Series:
    """Return True for the spans that later slices cannot change."""
    open_ranges = events.filter(pl.col("end") > source.slice.until)["number"]
    going_on = found["number"].is_in(open_ranges.implode()).to_numpy()
    group = found["place"].cast(pl.Int64).to_numpy() << 16 | found["slot"].cast(pl.Int64).to_numpy()
    start, end = found["start"].to_numpy(), found["end"].to_numpy()
    return pl.Series(keep_lanes(group, start, ends_of(start, end), going_on, source.slice.until - CLOCK_SLACK))


def _intervals(source: Source, found: pl.DataFrame) -> Frames[None]:
    """Yield projected ranges of all event types."""
    if found.height:
        yield source.stream_intervals(found.rename({"kernels": types.RANGE_KERNELS.key}), (types.RANGE_KERNELS.key,))


FAMILY = Family(
    name="projection",
    title="NVTX ranges on the device, by what their process launched",
    draws=(),
    reads={
        **NVTX_READS,
        schema.NVTX: (*NVTX_READS[schema.NVTX], "endGlobalTid"),
        schema.RUNTIME: CALL_KEYS,
        **dict.fromkeys(DEVICE_TABLES, DEVICE_KEYS),
    },
    emits=(types.NVTX_BY_PROCESS, types.RANGE_BY_PROCESS, types.RANGE_KERNELS),
    state=UnfinishedRanges,
    frames=partial(_frames, by="process"),
    makes_rows=False,
    sliced=True,
    within=True,
)
BY_THREAD = replace(
    FAMILY,
    name="projection_thread",
    title="NVTX ranges on the device, by what their own thread launched",
    emits=(types.NVTX_BY_THREAD, types.RANGE_BY_THREAD, types.RANGE_KERNELS),
    frames=partial(_frames, by="thread"),
    default=False,
)
