"""The samples of GPU metrics of a whole run, on its clock: a series for each GPU and metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from nsys2prv.analysis.frames import NO_DEVICE, Sampled
from nsys2prv.model.event_types import GPU_METRIC
from nsys2prv.pipeline.extract.metric_files import read_pieces
from nsys2prv.run.clocks import Clock
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import MetricSamples
from nsys2prv.run.trace_rows import NO_ROW


def samples_of(plan: Plan, device_of: npt.NDArray[np.int64]) -> Iterator[Sampled]:
    """Yield the metrics of GPUs that tasks use. `device_of`: the device of each row of the trace, NO_DEVICE for none.

    The plan keeps the denser of two reports that sampled a GPU at a time; those that did so one after the other go on
    from one to the next.
    """
    found: dict[tuple[int, str], list[tuple[MetricSamples, Clock]]] = {}
    for r, summary in enumerate(plan.summaries):
        for samples in summary.metrics:
            row = plan.objects.row_of[r][samples.place]
            if row == NO_ROW or device_of[row] == NO_DEVICE:
                continue
            key = int(device_of[row]), samples.metric.removeprefix(GPU_METRIC.of(""))
            found.setdefault(key, []).append((samples, plan.clocks[r]))
    for (device, metric), parts in found.items():
        in_order = sorted(parts, key=lambda part: part[1].merged_one(part[0].first))
        rows = sum(samples.rows for samples, _ in in_order)
        yield Sampled(device, metric, rows, partial(_merged_pieces, in_order))


def _merged_pieces(
    parts: Sequence[tuple[MetricSamples, Clock]],
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    for samples, clock in parts:
        for piece in read_pieces(samples):
            yield clock.merged(piece["time"].to_numpy()), piece["value"].to_numpy()
