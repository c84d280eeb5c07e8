"""The windows of time in which a trace is encoded: their borders, by the points that lie between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nsys2prv.model.limits import Limits
from nsys2prv.run.clocks import Clock
from nsys2prv.run.report_summary import Spill, Summary


def spills_of(summaries: Sequence[Summary], clocks: Sequence[Clock]) -> Iterator[tuple[Spill, Clock]]:
    """Yield all spills of points, each with its report's clock."""
    return ((spill, clock) for summary, clock in zip(summaries, clocks, strict=True) for spill in summary.spills)


def window_borders(spills: Iterable[tuple[Spill, Clock]], limits: Limits, together: int = 1) -> npt.NDArray[np.int64]:
    """Return borders of windows that hold about as many points each, from the indices of spills on their clocks.

    The number of windows is a multiple of `together`, the number encoded at once, except in a short run.
    """
    first, last, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    held = False
    for spill, clock in spills:
        first.append(clock.merged(spill.first))
        last.append(clock.merged(spill.last))
        rows.append(np.full(len(spill.first), spill.rows / max(len(spill.first), 1)))
        held |= spill.held is not None
    starts, points = np.concatenate(first), np.concatenate(rows)
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    if not len(points):
        return np.array([low, high])
    lasting = np.maximum(np.concatenate(last) - starts, 1)
    # Within a batch, points come at a nearly even rate.
    begun = np.concatenate([starts, starts + lasting])
    order = np.argsort(begun, kind="stable")
    time = begun[order]
    rate = np.cumsum(np.concatenate([points / lasting, -points / lasting])[order])
    filled = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(time))])
    most = limits.window_points * (limits.in_memory_windows if held else 1)
    count = 1 if points.sum() < limits.window_points / 4 else together * math.ceil(points.sum() / (together * most))
    inner = np.interp(np.arange(1, count) / count, filled / filled[-1], time)
    return np.unique(np.concatenate([[low], inner.astype(np.int64), [high]]))
