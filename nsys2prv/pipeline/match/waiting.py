"""Events of waiting and transfer on the activities that carry collectives and messages.

An activity may carry several operations, whose keys may be in different partitions. So each partition stores when each
of its activities could go on, sorted by start, and a second pass over spans of time takes the latest of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from nsys2prv.families.whole_run import WAITING_FAMILY
from nsys2prv.model import event_types
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.store.points import Points, row_points
from nsys2prv.pipeline.store.spill import SpillOf, read_around, write_spill
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.matching.arrivals import ARRIVAL, latest_arrivals, with_arrivals, with_operation
from nsys2prv.run.report_summary import Spill
from nsys2prv.run.trace_rows import NO_ROW

# One activity that carries operations: its begin (`time`) and end, row of the trace, and ARRIVAL.
ACTIVITY = ("time", "end", "row")
# Values of the event, and the key of the further event type.
WAITS, TRANSFERS = 1, 2
WAITED_FOR = event_types.WAITED_FOR.key


def arrivals_of(ends: pl.DataFrame, duration: int) -> pl.DataFrame:
    """Return ACTIVITY and ARRIVAL of ends (JOINED), an activity once for each operation, in order of time.

    Activities outside the trace, of `duration` ns, and those without a row or a known arrival are left out.
    """
    known = with_arrivals(with_operation(ends)).filter(
        pl.col("last").is_not_null(), pl.col("row") != NO_ROW, pl.col("began") < duration, pl.col("ended") > 0
    )
    return known.select("row", *ARRIVAL, time="began", end="ended").select(*ACTIVITY, *ARRIVAL).sort(pl.all())


def waiting_points(arrivals: pl.DataFrame, duration: int) -> pl.DataFrame:
    """Return begin and end of each wait and transfer: time, phase, length, row, combination, waited_for; sorted.

    `arrivals`: ACTIVITY and ARRIVAL. They are cut to the trace, of `duration` ns. `combination` is the event's value;
    `waited_for` the number of a task from 1 on, 0 at the end of a wait, null at those of transfers and for ranks that
    are not known.
    """
    activities = latest_arrivals(arrivals, ACTIVITY).with_columns(
        pl.col("time").clip(lower_bound=0), pl.col("end").clip(upper_bound=duration)
    )
    start, ready, end = pl.col("time"), pl.col("last").clip(pl.col("time"), pl.col("end")), pl.col("end")
    waits = activities.select("row", pl.col(WAITED_FOR) + 1, start=start, end=ready, combination=WAITS)
    nobody = pl.lit(None, pl.Int64).alias(WAITED_FOR)
    transfers = activities.select("row", nobody, start=ready, end=end, combination=TRANSFERS)
    both = pl.concat([waits, transfers]).filter(pl.col("start") < pl.col("end"))
    return row_points(both, (WAITED_FOR,))


def store_waiting(arrivals: Sequence[Spill], duration: int, workers: Workers) -> tuple[Spill, ...]:
    """Store the points of events of all activities. `arrivals`: those of each partition. Raises OutputError."""
    if not arrivals:
        return ()
    spans = list(enumerate(pairwise(_borders(arrivals, workers.limits))))
    store = partial(_stored, arrivals, duration, workers.folder, workers.limits)
    results = map(store, spans) if len(spans) == 1 else workers.map(store, spans)
    return tuple(results)


def _borders(arrivals: Sequence[Spill], limits: Limits) -> list[int]:
    """Return borders of spans of time that hold about `limits.match_rows` rows each."""
    firsts = np.sort(np.concatenate([spill.first for spill in arrivals]))
    inner = firsts[:: max(limits.match_rows // limits.batch_rows, 1)][1:]
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    # Each span begins with a stored row: none is empty.
    return [low, *np.unique(inner[inner > firsts[0]]).tolist(), high]


@on_polars_thread
def _stored(
    arrivals: Sequence[Spill], duration: int, folder: Path, limits: Limits, span: tuple[int, tuple[int, int]]
) -> Spill:
    """Store the points of the activities that begin in one span of time, [low, high). Raises OutputError."""
    number, (low, high) = span
    begun = (pl.col("time") >= low) & (pl.col("time") < high)
    begun_arrivals = [
        around.filter(begun) for spill in arrivals if (around := read_around(spill, low, high)) is not None
    ]
    points, path = waiting_points(pl.concat(begun_arrivals), duration), folder / f"waiting.{number}.arrow"
    return write_spill(path, SpillOf("events", WAITING_FAMILY.name, (WAITED_FOR,)), Points(points), limits.batch_rows)
