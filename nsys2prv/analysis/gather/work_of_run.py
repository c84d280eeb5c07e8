"""The device activity of a run, with the launches that it comes from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import COPY, GRAPH, KERNEL, LAUNCHED, NCCL, TEXT, WORK
from nsys2prv.analysis.gather.joined_reports import join_reports
from nsys2prv.analysis.gather.stored_intervals import KINDS, analyzed_spills, label_texts, merged_intervals, read_within
from nsys2prv.analysis.work_attributes import kernel_resources, kernel_shape, memory_kinds
from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.intervals.spans import Span
from nsys2prv.model import event_types as types
from nsys2prv.model.schemas import to_schema
from nsys2prv.run.plan import Plan
from nsys2prv.run.trace_rows import NO_ROW

# Columns by which an activity of a report is found: its row and start (ns). No two of one row begin at once, as those
# that overlap have rows of their own.
ACTIVITY_KEY = {"row": pl.Int64(), "time": pl.Int64()}
# Columns of WORK that say what ran where and when.
TIMED = ("task", "device", "row", "start", "end", "kind", "name", "class", "instant")
# Columns of WORK that say when and by which thread an activity was launched.
LAUNCHED_BY = {"launched": pl.Int64(), "caller_row": pl.Int64()}
COPIES, MEMSETS, GRAPHS = "memory copies", "memset", "CUDA graphs"


def work_of_run(
    plan: Plan, device_of: npt.NDArray[np.int64], span: Span | None, columns: Mapping[str, pl.DataType] = WORK
) -> pl.DataFrame:
    """Return `columns` of WORK of a run. `device_of`: the device of each row; `span`: as for `gather`."""
    parts = [_work_of_report(plan, r, device_of, span, columns) for r in range(len(plan.summaries))]
    return join_reports(plan, parts, columns)


def _work_of_report(
    plan: Plan, r: int, device_of: npt.NDArray[np.int64], span: Span | None, columns: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return the device activity of one report, with the report's number. `columns`: those of WORK."""
    parts = [pl.DataFrame(schema={**ACTIVITY_KEY, **{c: t for c, t in columns.items() if c not in LAUNCHED_BY}})]
    for kind, spill in analyzed_spills(plan.summaries[r], KINDS):
        frame = merged_intervals(plan, r, spill, span)
        for real, part in kernel_kinds(plan, r, kind, frame):
            names = _names(plan, r, real, part)
            device = pl.Series("device", device_of[part["row"].to_numpy()])
            full = part.with_columns(
                *names,
                device,
                pl.lit(real, TEXT).alias("kind"),
                (pl.col("end") - pl.col("start")).alias("whole_ns"),
                *(_payload(plan, r, part) if "bytes" in columns else ()),
            )
            parts.append(to_schema(full, parts[0].schema))
    work = pl.concat(parts)
    if not LAUNCHED_BY.keys() & columns.keys():
        return work.select(pl.lit(r, pl.Int64).alias("report"), *columns)
    # Work that reaches into the time may have begun long before it.
    first = work.select(pl.col("start").min()).item()
    begun = span and Span(span.start if first is None else first, span.end)
    launched = work.join(launch_times(plan, r, begun), on=list(ACTIVITY_KEY), how="left", maintain_order="left")
    return launched.select(pl.lit(r, pl.Int64).alias("report"), *WORK)


def kernel_kinds(plan: Plan, r: int, kind: str, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Split device activity of a family by kind. The event type of a kernel gives its kind. Calls are left out."""
    if kind not in (KERNEL, NCCL):
        return [(kind, frame)] if frame.height else []
    slots, kinds = plan.summaries[r].slots, {types.KERNEL.key: KERNEL, types.NCCL_KERNEL.key: NCCL}
    parts = frame.partition_by("slot", as_dict=True, maintain_order=True)
    return [(kinds[slots[slot]], part) for (slot,), part in parts.items() if slots[slot] in kinds]


def launch_times(plan: Plan, r: int, span: Span | None = None) -> pl.DataFrame:
    """Return the launch time and thread of each activity of a report: ACTIVITY_KEY, LAUNCHED_BY (merged ns).

    `span` (merged ns): at least of activities that begin in it.
    """
    parts = [pl.DataFrame(schema={**ACTIVITY_KEY, **LAUNCHED_BY})]
    for _, spill in analyzed_spills(plan.summaries[r], {CORRELATION.name: ""}):
        frame = read_within(plan, r, spill, span)
        called = pl.Series(plan.clocks[r].merged(frame["time"].to_numpy()))
        row, caller = (pl.Series(plan.objects.row_of[r][frame[c].to_numpy()]) for c in ("to_place", "place"))
        parts.append(
            frame.select(row=row, time="received", launched=called, caller_row=pl.when(caller != NO_ROW).then(caller))
        )
    return pl.concat(parts).unique(list(ACTIVITY_KEY), keep="first", maintain_order=True)


def launched_beyond(plan: Plan, span: Span | None) -> pl.DataFrame:
    """Return the launches (LAUNCHED) within a time (merged ns) of work that begins behind it; none without one."""
    found = [pl.DataFrame(schema=LAUNCHED)]
    for r, clock in enumerate(plan.clocks if span else ()):
        each = launch_times(plan, r, span).filter(pl.col("row") != NO_ROW)
        task = pl.Series("task", plan.objects.rows.task[each["row"].to_numpy()] - 1, dtype=pl.Int64)
        begin, end = pl.Series(clock.merged(each["time"].to_numpy())), span.end  # type: ignore[union-attr]
        found.append(each.select(task, "launched").filter((begin >= end) & (each["launched"] < end)))
    return pl.concat(found)


def _names(plan: Plan, r: int, kind: str, frame: pl.DataFrame) -> list[pl.Series]:
    """Return name, class and coarse class of each activity."""
    key = {KERNEL: types.KERNEL, NCCL: types.NCCL_KERNEL, GRAPH: types.GRAPH, COPY: types.MEMORY}[kind].key
    name = label_texts(plan, r, key, frame["value"]).alias("name")
    if kind in (KERNEL, NCCL):
        keys = (types.KERNEL_CLASS.key, types.KERNEL_FAMILY.key)
        classes, families = (label_texts(plan, r, k, frame[k]) for k in keys)
    elif kind == COPY:
        classes = families = name.replace_strict({"Memset": MEMSETS}, default=COPIES, return_dtype=TEXT)
    else:
        classes = families = pl.Series([GRAPHS], dtype=TEXT).new_from_index(0, frame.height)
    return [name, classes.alias("class"), families.alias("family")]


def _payload(plan: Plan, r: int, frame: pl.DataFrame) -> list[pl.Series | pl.Expr]:
    """Return bytes, communicator, operation, memory, shape and resources; null if not in the report."""
    size = next((frame[c] for c in (types.MEMORY_BYTES.key, types.NCCL_BYTES.key) if c in frame.columns), None)
    nothing = pl.Series([None], dtype=pl.Int64).new_from_index(0, frame.height)
    keys = {"communicator": types.NCCL_COMMUNICATOR.key, "operation": types.NCCL_OPERATION.key}
    named = [
        pl.when(pl.col(key) > 0).then(label_texts(plan, r, key, frame[key])).alias(name)
        if key in frame.columns
        else nothing.cast(TEXT).alias(name)
        for name, key in keys.items()
    ]
    described = [(nothing if size is None else size).alias("bytes"), *named, memory_kinds(frame).alias("memory")]
    return [*described, kernel_shape(frame).alias("shape"), kernel_resources(frame).alias("resources")]
