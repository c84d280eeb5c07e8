"""Estimates: the mean of a GPU metric while a class of kernels runs, as an attribute of each kernel of the class.

The figures are those of `analyze --by class` for each GPU. Its kernels and samples may be in different reports: the
estimates are made when all reports are read, from intervals that are stored whole beside the points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.frames import Sampled, kernels_of
from nsys2prv.analysis.gather.frames_of_run import gather_device_work, gather_samples
from nsys2prv.analysis.gather.stored_intervals import gathered_rows
from nsys2prv.analysis.interval_frames import parts_by
from nsys2prv.analysis.metrics.fit_columns import column_spans
from nsys2prv.analysis.metrics.metrics_by_class import MetricFit, solve, sum_up
from nsys2prv.analysis.metrics.sm_clock import with_clocks
from nsys2prv.intervals.spans import Span, one_span
from nsys2prv.model.event_types import KERNEL_CLASS, TENSOR_ESTIMATE
from nsys2prv.model.limits import Limits
from nsys2prv.model.losses import Loss, Lost
from nsys2prv.model.metric_names import TENSOR
from nsys2prv.model.units import bytes_text
from nsys2prv.pipeline.encode.encoding_input import Estimates
from nsys2prv.run.plan import Plan

SCALE = 10**TENSOR_ESTIMATE.precision


def estimate(plan: Plan, memory: int | None, least: int, limits: Limits, span: Span | None = None) -> Estimates | None:
    """Estimate the tensor activity by GPU and class of kernels; return None where no GPU that is used was sampled.

    `memory`: bytes that this process may take (None: `limits.estimate_memory`, whatever is free, so that the trace does
    not depend on it). If more is needed, nothing is estimated. `least`: kernels that last less (ns) are not drawn, and
    are not counted; `span` (merged ns): only intervals that reach into it.
    """
    found = gather_samples(plan)
    sampled = with_clocks(found.samples, (TENSOR,))
    if not sampled:
        return None
    # Most GPUs of simulations never use their tensor cores: every mean is 0 then, and nothing need be fitted.
    used = [one for one in sampled if any(values.any() for _, values in one.pieces())]
    left = _too_large(plan, memory, limits, span) if used else {}
    if not used or left:
        return Estimates(found.device_of, *_tables(plan, found.devices, {}), 0, left)
    work = gather_device_work(plan, found.device_of, span)
    values = {
        (fit.device or 0, name): round(SCALE * (one.mean or 0.0))
        for fit in _fits(work, used, plan.active)
        for one in fit.classes
        for name in one.classes
    }
    drawn = kernels_of(work, least).group_by("device", "class").len()
    given = sum(count for device, name, count in drawn.rows() if values.get((device, name)))
    return Estimates(found.device_of, *_tables(plan, found.devices, values), given, {})


def _too_large(plan: Plan, memory: int | None, limits: Limits, span: Span | None) -> dict[Lost, int]:
    """Return the activities that are left out because an estimate would take too much memory, by reason."""
    activities = sum(gathered_rows(plan, span))
    needed = limits.analysis_memory + activities * limits.estimated_memory
    allowed = limits.estimate_memory if memory is None else memory
    sizes = (bytes_text(needed), bytes_text(allowed))
    return {Lost(Loss.ESTIMATE_TOO_LARGE, sizes): activities} if needed > allowed else {}


def _fits(work: pl.DataFrame, samples: Sequence[Sampled], during: Span) -> Iterator[MetricFit]:
    """Fit the tensor activity of each sampled GPU, by class of kernels, within a time."""
    window, by_device = one_span(*during), parts_by(work, "device")
    for sampled in samples:
        own = by_device.get(sampled.device, work.clear())
        fit = solve(sum_up(sampled, column_spans(own, "class", window), window, np.zeros(0, np.int64)))
        if fit is not None:
            yield fit


def _tables(
    plan: Plan, devices: int, values: Mapping[tuple[int, str], int]
) -> tuple[npt.NDArray[np.int64], tuple[npt.NDArray[np.int64], ...]]:
    """Return a table of values by device and class of the run, and each report's numbers of classes.

    The last device and class 0 stand for none. The numbers give the class of the run for each class of a report.
    """
    labels = [summary.labels.get(KERNEL_CLASS.key, []) for summary in plan.summaries]
    number = {name: n for n, name in enumerate(dict.fromkeys(name for own in labels for name in own), start=1)}
    table = np.zeros((devices + 1, len(number) + 1), dtype=np.int64)
    for (device, name), value in values.items():
        # Columns of the fit for idle time and for other work are no classes of kernels.
        if name in number:
            table[device, number[name]] = value
    return table, tuple(np.array([0, *(number[name] for name in own)], dtype=np.int64) for own in labels)
