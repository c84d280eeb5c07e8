"""The frames of a whole run on one clock, gathered from its reports for analysis (see analysis.frames)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import WORK, Run, Sampled
from nsys2prv.analysis.gather.host_activity import calls_of_run, ranges_of_run
from nsys2prv.analysis.gather.host_samples import read_host_samples
from nsys2prv.analysis.gather.samples_of_run import samples_of
from nsys2prv.analysis.gather.stored_intervals import CALL_KINDS, KINDS
from nsys2prv.analysis.gather.stream_kinds import stream_kinds
from nsys2prv.analysis.gather.tasks_of_run import tasks_of_run, unchosen_ranks
from nsys2prv.analysis.gather.work_of_run import TIMED, launched_beyond, work_of_run
from nsys2prv.analysis.recording.circumstances import recorded_spans, recording_of
from nsys2prv.analysis.recording.hardware import find_devices, hardware_of
from nsys2prv.analysis.recording.remarks import (
    other_losses,
    recorded_families,
    renumbered,
    runs_serially,
    said_diagnostics,
)
from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.families.nvtx.nvtx import FAMILY as NVTX
from nsys2prv.intervals.spans import Span
from nsys2prv.model.event_types import GPU_METRIC, block_and_name
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.defects import find_defects
from nsys2prv.run.plan import Plan

# Families that analysis reads. GPU metrics are stored one by one.
GATHERED = (*KINDS, *CALL_KINDS, CORRELATION.name, NVTX.name)


class SampledDevices(NamedTuple):
    """The samples of the GPUs of a run.

    `device_of`: the device of each row of the trace (NO_DEVICE: nothing runs on one); `devices`: how many there are.
    """

    samples: tuple[Sampled, ...]
    device_of: npt.NDArray[np.int64]
    devices: int


def gather_samples(plan: Plan) -> SampledDevices:
    """Gather the samples of a run."""
    devices, device_of = find_devices(plan, tasks_of_run(plan))
    return SampledDevices(tuple(samples_of(plan, device_of)), device_of, len(devices))


@on_polars_thread
def gather_device_work(plan: Plan, device_of: npt.NDArray[np.int64], span: Span | None = None) -> pl.DataFrame:
    """Return the device activity of a run, TIMED columns of WORK, in a third of the memory of all (see `gather`)."""
    return work_of_run(plan, device_of, span, {c: WORK[c] for c in TIMED})


@on_polars_thread
def gather(plan: Plan, failed: Sequence[str] = (), span: Span | None = None) -> Run:
    """Gather the frames of a run from the intervals that its reports stored (see report_part.Wanted.analyzed).

    `failed`: reasons why reports were left out; `span` (merged ns): only intervals that reach into it, whole.
    """
    tasks = tasks_of_run(plan)
    devices, device_of = find_devices(plan, tasks)
    left_out = tuple(f"left out: {reason}" for reason in failed)
    return Run(
        tasks=tasks,
        devices=devices,
        work=work_of_run(plan, device_of, span),
        calls=calls_of_run(plan, span),
        ranges=ranges_of_run(plan, span),
        samples=tuple(samples_of(plan, device_of)),
        active=plan.active,
        duration=plan.duration,
        captures=plan.captures,
        recorded=recorded_spans(plan),
        hardware=hardware_of(plan, devices, device_of),
        remarks=(
            *plan.warnings,
            *renumbered(plan, tasks),
            *said_diagnostics(plan, routine=False),
            *other_losses(plan, minor=False),
            *left_out,
        ),
        foremost=(*plan.several_runs, *left_out),
        other_calls=calls_of_run(plan, span, other=True),
        row_labels=plan.objects.rows.label,
        first_lanes=tuple(plan.objects.rows.first_lane.tolist()),
        unchosen=unchosen_ranks(plan),
        stream_kinds=stream_kinds(plan),
        launched_beyond=launched_beyond(plan, span),
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


def _is_metric(key: str) -> bool:
    found = block_and_name(key)
    return found is not None and found[0] is GPU_METRIC
