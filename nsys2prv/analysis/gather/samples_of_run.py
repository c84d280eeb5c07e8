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
from nsys2prv.run.report_summary import Spill
from nsys2prv.run.trace_rows import NO_ROW


def samples_of(plan: Plan, device_of: npt.NDArray[np.int64]) -> Iterator[Sampled]:
    """Yield the metrics of GPUs that tasks use. `device_of`: the device of each row of the trace, NO_DEVICE for none.

    The plan keeps the denser of two reports that sampled a GPU at a time; those that did so one after the other go on
    from one to the next.
    """
    found: dict[tuple[int, str], list[tuple[int, Spill, Clock]]] = {}
    for r, summary in enumerate(plan.summaries):
        for place, spill in summary.sampled:
            row = plan.objects.row_of[r][place]
            if row == NO_ROW or device_of[row] == NO_DEVICE:
                continue
            key = int(device_of[row]), spill.columns[0].removeprefix(GPU_METRIC.of(""))
            first = plan.clocks[r].merged_one(int(spill.first[0]))
            found.setdefault(key, []).append((first, spill, plan.clocks[r]))
    for (device, metric), parts in found.items():
        in_order = [(spill, clock) for _, spill, clock in sorted(parts, key=lambda part: part[0])]
        rows = sum(spill.rows for spill, _ in in_order)
        yield Sampled(device, metric, rows, partial(_merged_pieces, in_order))


def _merged_pieces(
    parts: Sequence[tuple[Spill, Clock]],
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    for spill, clock in parts:
        for piece in read_pieces(spill):
            yield clock.merged(piece["time"].to_numpy()), piece["value"].to_numpy()
