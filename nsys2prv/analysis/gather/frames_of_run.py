"""The frames of a whole run on one clock, gathered from its reports for analysis (see analysis.frames)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import (
    CALLS,
    COPY,
    GRAPH,
    KERNEL,
    LAUNCHED,
    NCCL,
    RANGES,
    TEXT,
    WORK,
    AnalyzedTask,
    Run,
    Sampled,
)
from nsys2prv.analysis.gather.host_samples import read_host_samples
from nsys2prv.analysis.gather.samples_of_run import samples_of
from nsys2prv.analysis.gather.stored_intervals import (
    CALL_KINDS,
    KINDS,
    OS,
    analyzed_spills,
    merged_intervals,
    read_within,
    spills_of_run,
)
from nsys2prv.analysis.recording.circumstances import recorded_spans, recording_of
from nsys2prv.analysis.recording.hardware import find_devices, hardware_of
from nsys2prv.analysis.recording.remarks import (
    other_losses,
    recorded_families,
    renumbered,
    runs_serially,
    said_diagnostics,
)
from nsys2prv.analysis.work_attributes import kernel_resources, kernel_shape, memory_kinds
from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.families.nvtx.nvtx import FAMILY as NVTX
from nsys2prv.intervals.spans import Span
from nsys2prv.model import event_types as types
from nsys2prv.model.event_types import EVENT_TYPES, GPU_METRIC, NVTX_DOMAIN, block_and_name, is_labelled
from nsys2prv.model.interning import STREAM
from nsys2prv.model.schemas import to_schema
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.defects import find_defects
from nsys2prv.run.hosts import find_hosts
from nsys2prv.run.plan import Plan
from nsys2prv.run.ranks import numbers_of_tasks, tasks_of_ranks
from nsys2prv.run.trace_rows import NO_ROW

# Families that analysis reads. GPU metrics are stored one by one.
GATHERED = (*KINDS, *CALL_KINDS, CORRELATION.name, NVTX.name)
# Columns by which an activity of a report is found: its row and start (ns). No two of one row begin at once, as those
# that overlap have rows of their own.
ACTIVITY = {"row": pl.Int64(), "time": pl.Int64()}
# Columns of WORK that say what ran where and when.
TIMED = ("task", "device", "row", "start", "end", "kind", "name", "class", "instant")
# Columns of WORK that say when and by which thread an activity was launched.
LAUNCHED_BY = {"launched": pl.Int64(), "caller_row": pl.Int64()}
# The number of the report that a row is from, beside the columns of a frame until the reports are joined.
OF_REPORT = {"report": pl.Int64()}
COPIES, MEMSETS, GRAPHS = "memory copies", "memset", "CUDA graphs"


class SampledDevices(NamedTuple):
    """The samples of the GPUs of a run.

    `device_of`: the device of each row of the trace, -1 where nothing runs on one; `devices`: how many there are.
    """

    samples: tuple[Sampled, ...]
    device_of: npt.NDArray[np.int64]
    devices: int


def gather_samples(plan: Plan, overrides: Mapping[str, str]) -> SampledDevices:
    """Gather the samples of a run (`overrides` as for `gather`)."""
    hosts = find_hosts([s.identity for s in plan.summaries], [s.name for s in plan.summaries], overrides)
    devices, device_of = find_devices(plan, _tasks(plan), hosts)
    return SampledDevices(tuple(samples_of(plan, device_of)), device_of, len(devices))


@on_polars_thread
def gather_device_work(plan: Plan, device_of: npt.NDArray[np.int64], span: Span | None = None) -> pl.DataFrame:
    """Return the device activity of a run, TIMED columns of WORK, in a third of the memory of all (see `gather`)."""
    return _work(plan, device_of, span, {c: WORK[c] for c in TIMED})


@on_polars_thread
def gather(plan: Plan, overrides: Mapping[str, str], failed: Sequence[str] = (), span: Span | None = None) -> Run:
    """Gather the frames of a run from the intervals that its reports stored (see task.Wanted.analyzed).

    `overrides`: hosts by pattern of report names, as for the plan; `failed`: reasons why reports were left out; `span`
    (merged ns): only intervals that reach into it, whole.
    """
    tasks = _tasks(plan)
    hosts = find_hosts([s.identity for s in plan.summaries], [s.name for s in plan.summaries], overrides)
    devices, device_of = find_devices(plan, tasks, hosts)
    left_out = tuple(f"left out: {reason}" for reason in failed)
    return Run(
        tasks=tasks,
        devices=devices,
        work=_work(plan, device_of, span),
        calls=_calls(plan, span),
        ranges=_ranges(plan, span),
        samples=tuple(samples_of(plan, device_of)),
        active=plan.active,
        duration=plan.duration,
        captures=plan.captures,
        recorded=recorded_spans(plan),
        hardware=hardware_of(plan, devices, device_of, hosts),
        remarks=(
            *plan.warnings,
            *renumbered(plan, tasks),
            *said_diagnostics(plan, routine=False),
            *other_losses(plan, minor=False),
            *left_out,
        ),
        foremost=(*plan.several_runs, *left_out),
        other_calls=_calls(plan, span, other=True),
        row_labels=plan.objects.rows.label,
        first_lanes=tuple(plan.objects.rows.first_lane.tolist()),
        unchosen=_unchosen(plan),
        launched_beyond=_launched_beyond(plan, span),
        communicator_sizes=dict(zip(plan.communicators.names, plan.communicators.ranks.tolist(), strict=True)),
        recorded_families=recorded_families(plan),
        host_samples=cache(partial(read_host_samples, plan, span)),
        defects=find_defects(plan.summaries),
        serial=runs_serially(plan),
        recording=recording_of(plan),
        details=(*other_losses(plan, minor=True), *said_diagnostics(plan, routine=True)),
        metrics=tuple(
            sorted({k.removeprefix(GPU_METRIC.of("")) for s in plan.summaries for k in s.preferred if _is_metric(k)})
        ),
    )


def _tasks(plan: Plan) -> tuple[AnalyzedTask, ...]:
    objects, of_run = plan.objects, _ranks_of_run(plan)
    named = zip(numbers_of_tasks(objects.ranks), objects.tasks, objects.task_node, strict=True)
    return tuple(
        AnalyzedTask(rank, name, objects.nodes[node - 1], n in of_run) for n, (rank, name, node) in enumerate(named)
    )


def _unchosen(plan: Plan) -> tuple[int, ...]:
    """Return the ranks that the reports hold, and that were not chosen."""
    if not any(left_out.any() for left_out in plan.objects.unchosen):
        return ()
    return tuple(sorted(plan.objects.known.difference(plan.objects.ranks)))


def _ranks_of_run(plan: Plan) -> set[int]:
    rows = plan.objects.rows
    working = {task - 1 for task, kind in zip(rows.task.tolist(), rows.kind, strict=True) if kind == STREAM}
    return tasks_of_ranks(plan.objects.ranks, working)


def _is_metric(key: str) -> bool:
    found = block_and_name(key)
    return found is not None and found[0] is GPU_METRIC


def label_texts(plan: Plan, r: int, key: str, values: pl.Series, kind: pl.DataType = TEXT) -> pl.Series:
    """Look up the labels of an event type, as `kind`, by the report's numbers; `unknown` without a number."""
    if not is_labelled(key):
        return values.replace_strict(dict(EVENT_TYPES[key].values), default="unknown", return_dtype=kind)
    texts = pl.Series(["unknown", *plan.summaries[r].labels.get(key, ())], dtype=kind)
    return texts.gather(values.fill_null(0))


def _by_slot(
    plan: Plan, r: int, frame: pl.DataFrame, make: Callable[[str, pl.DataFrame], pl.DataFrame]
) -> list[pl.DataFrame]:
    slots = plan.summaries[r].slots
    if frame["slot"].n_unique() == 1:
        return [make(slots[frame["slot"][0]], frame)]
    return [make(slots[int(s)], part) for (s,), part in frame.group_by("slot", maintain_order=True)]


def _work(
    plan: Plan, device_of: npt.NDArray[np.int64], span: Span | None, columns: Mapping[str, pl.DataType] = WORK
) -> pl.DataFrame:
    return _once(plan, [_work_of(plan, r, device_of, span, columns) for r in range(len(plan.summaries))], columns)


def _work_of(
    plan: Plan, r: int, device_of: npt.NDArray[np.int64], span: Span | None, columns: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return the device activity of one report, with the report's number. `columns`: those of WORK."""
    parts = [pl.DataFrame(schema={**ACTIVITY, **{c: t for c, t in columns.items() if c not in LAUNCHED_BY}})]
    for kind, spill in analyzed_spills(plan.summaries[r], KINDS):
        frame = merged_intervals(plan, r, spill, span)
        for real, part in kernel_kinds(plan, r, kind, frame):
            names = _named(plan, r, real, part)
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
    launched = work.join(launch_times(plan, r, begun), on=list(ACTIVITY), how="left", maintain_order="left")
    return launched.select(pl.lit(r, pl.Int64).alias("report"), *WORK)


def kernel_kinds(plan: Plan, r: int, kind: str, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Split device activity of a family by kind. The event type of a kernel gives its kind. Calls are left out."""
    if kind not in (KERNEL, NCCL):
        return [(kind, frame)] if frame.height else []
    slots, kinds = plan.summaries[r].slots, {types.KERNEL.key: KERNEL, types.NCCL_KERNEL.key: NCCL}
    parts = frame.partition_by("slot", as_dict=True, maintain_order=True)
    return [(kinds[slots[slot]], part) for (slot,), part in parts.items() if slots[slot] in kinds]


def launch_times(plan: Plan, r: int, span: Span | None = None) -> pl.DataFrame:
    """Return the launch time and thread of each activity of a report: ACTIVITY, LAUNCHED_BY (merged ns).

    `span` (merged ns): at least of activities that begin in it.
    """
    parts = [pl.DataFrame(schema={**ACTIVITY, **LAUNCHED_BY})]
    for _, spill in analyzed_spills(plan.summaries[r], {CORRELATION.name: ""}):
        frame = read_within(plan, r, spill, span)
        called = pl.Series(plan.clocks[r].merged(frame["time"].to_numpy()))
        row, caller = (pl.Series(plan.objects.row_of[r][frame[c].to_numpy()]) for c in ("to_place", "place"))
        parts.append(frame.select(row=row, time="received", launched=called, caller_row=caller))
    return pl.concat(parts).unique(list(ACTIVITY), keep="first", maintain_order=True)


def _launched_beyond(plan: Plan, span: Span | None) -> pl.DataFrame:
    """Return the launches (LAUNCHED) within a time (merged ns) of work that begins behind it; none without one."""
    found = [pl.DataFrame(schema=LAUNCHED)]
    for r, clock in enumerate(plan.clocks if span else ()):
        each = launch_times(plan, r, span).filter(pl.col("row") != NO_ROW)
        task = pl.Series("task", plan.objects.rows.task[each["row"].to_numpy()] - 1, dtype=pl.Int64)
        begin, end = pl.Series(clock.merged(each["time"].to_numpy())), span.end  # type: ignore[union-attr]
        found.append(each.select(task, "launched").filter((begin >= end) & (each["launched"] < end)))
    return pl.concat(found)


def _named(plan: Plan, r: int, kind: str, frame: pl.DataFrame) -> list[pl.Series]:
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


def _calls(plan: Plan, span: Span | None, other: bool = False) -> pl.DataFrame:
    """Return the calls of threads with a row, or the OS calls of the `other` threads."""
    parts = []
    for r, kind, spill in spills_of_run(plan, {f: k for f, k in CALL_KINDS.items() if k == OS or not other}):
        make = partial(_named_calls, plan, r, kind)
        merged = merged_intervals(plan, r, spill, span, other)
        parts += _by_slot(plan, r, merged, make) if merged.height or not other else []
    return _once(plan, parts, CALLS)


def _named_calls(plan: Plan, r: int, kind: str, key: str, part: pl.DataFrame) -> pl.DataFrame:
    named = part.with_columns(label_texts(plan, r, key, part["value"]).alias("name"), pl.lit(kind, TEXT).alias("kind"))
    return to_schema(named, {**OF_REPORT, **CALLS})


def _ranges(plan: Plan, span: Span | None) -> pl.DataFrame:
    parts = []
    for r, _, spill in spills_of_run(plan, {NVTX.name: ""}):
        parts += _by_slot(plan, r, merged_intervals(plan, r, spill, span), partial(_named_ranges, plan, r))
    return _once(plan, parts, RANGES)


def _named_ranges(plan: Plan, r: int, key: str, part: pl.DataFrame) -> pl.DataFrame:
    found = block_and_name(key)
    if found is None or found[0] is not NVTX_DOMAIN:
        return pl.DataFrame(schema={**OF_REPORT, **RANGES})
    # Nearly every range may have a text of its own.
    text = label_texts(plan, r, key, part["value"], pl.String()).alias("text")
    named = part.with_columns(text, pl.lit(found[1], TEXT).alias("domain"))
    return to_schema(named, {**OF_REPORT, **RANGES})


def _once(plan: Plan, parts: list[pl.DataFrame], columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Join parts in order of start. Rows that two reports of one process recorded count once. Empties `parts`."""
    schema = {**OF_REPORT, **columns}
    frame = pl.concat([pl.DataFrame(schema=schema), *parts])
    parts.clear()
    if plan.objects.shared:
        shared = pl.col("task").is_in([t - 1 for t in plan.objects.shared])
        same = ["row", "start", "end", *(c for c in ("kind", "name", "domain", "text") if c in columns)]
        again = pl.when(shared).then(pl.int_range(pl.len()).over([*same, "report"])).otherwise(pl.int_range(pl.len()))
        frame = frame.with_columns(again=again).unique([*same, "again"], keep="first", maintain_order=True)
    order = None if _in_order(frame) else frame.select(pl.arg_sort_by("start", "row", maintain_order=True)).to_series()
    # Column by column, each freed when it is copied: all at once take the memory twice.
    return pl.DataFrame({name: _ordered(frame.drop_in_place(name), order) for name in columns})


def _in_order(frame: pl.DataFrame) -> bool:
    """Return whether rows come in order of start, then of row."""
    start, row = frame["start"].to_numpy(), frame["row"].to_numpy()
    before, after = slice(None, -1), slice(1, None)
    equal = start[before] == start[after]
    return bool(np.all((start[before] < start[after]) | equal & (row[before] <= row[after])))


def _ordered(column: pl.Series, order: pl.Series | None) -> pl.Series:
    return column.rechunk() if order is None else column.gather(order)
