"""Launch queues: the work that the host has launched on each stream and that has not begun."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run, stream_of
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import one_span

# How many activities wait on a stream from `start` to `end` (ns); times without any have no row. The caller chooses the
# columns that say which stream.
WAITING = {"start": pl.Int64(), "end": pl.Int64(), "waiting": pl.Int64()}


def waiting_work(run: Run) -> pl.DataFrame:
    """Return the activities of known launch: task, row, stream (see stream_of), `begin` (launch) and `end` (ns)."""
    # The clocks of host and device may disagree by a little.
    end = pl.max_horizontal("start", "launched")
    known = run.work.filter(pl.col("launched").is_not_null())
    return known.select("task", "row", stream=stream_of(run), begin="launched", end=end)


def queue_lengths(waiting: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Return `by` and WAITING, in order. `waiting`: `by`, and the begin and end of each activity's wait (ns).

    An activity that begins when the next is launched does not wait any more.
    """
    keys = waiting.select(by).unique().sort(by).with_row_index("group")
    group = waiting.select(by).join(keys, on=by, how="left", maintain_order="left")["group"].to_numpy()
    begin, end = waiting["begin"].to_numpy(), waiting["end"].to_numpy()
    axis = axis_over(one_span(int(begin.min(initial=end.max(initial=0))), int(end.max(initial=0))), keys.height)
    positions, steps = np.append(axis.at(group, begin), axis.at(group, end)), np.repeat((1, -1), len(begin))
    order = np.argsort(positions)
    positions, level = positions[order], np.cumsum(steps[order])
    # Each group begins and ends with nothing that waits, so that the sum goes on from one to the next.
    last = np.diff(positions, append=axis.width * axis.groups) > 0
    positions, level = positions[last], level[last]
    busy = np.flatnonzero(level > 0)
    found = {"start": axis.time(positions[busy]), "end": axis.time(positions[busy + 1]), "waiting": level[busy]}
    return keys[axis.group(positions[busy])].select(by).with_columns(pl.Series(c, v) for c, v in found.items())
