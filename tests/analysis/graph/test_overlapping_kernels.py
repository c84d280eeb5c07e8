"""Kernels that begin while the one before them on their stream ends (programmatic dependent launch) wait for it.

The trace draws such kernels in two lanes of one stream.
"""

from __future__ import annotations

import polars as pl
import pytest
from pictures import US, drawn

from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.critical_path import critical_path
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.predict.joins import find_joins
from nsys2prv.analysis.predict.replay import Lengths, measured_lengths, replay
from nsys2prv.intervals.spans import one_span

# Each kernel begins 1 us before the one before it ends, long after its launch.
OVERLAPPING = "0| k @0 10-100, k @1 99-200, k @2 199-300, k @3 299-400"
SIDE_BY_SIDE = "0| k @0 10-100, k @1 40-200, k @2 120-300, k @3 210-400"


# The second kernel lies within the first one, as on branches of a graph: it cuts nothing off.
WITHIN = "0| k @0 10-1010, k @1 700-750, k @2 1011-1200"


def in_lanes(picture: str) -> Run:
    """A drawn run of one rank whose kernels lie in two lanes in turn."""
    run = drawn(picture)
    lane = pl.when(pl.int_range(pl.len()) % 2 == 1).then(8).otherwise("row")
    first_lanes = tuple(0 if row == 8 else row for row in range(len(run.row_labels)))
    return run._replace(work=run.work.with_columns(row=lane), first_lanes=first_lanes)


def shortened(run: Run, factor: float) -> int:
    """The end (ns) of a run whose kernels take this part of their time."""
    graph = dependencies(run, carried(run))
    lengths = measured_lengths(graph)
    along = lengths.along.copy()
    runs = graph.at_ends(along)
    runs[:] = runs * factor
    (times,) = replay(find_joins(graph), [lambda: Lengths(along, lengths.crossing)])
    return int(times.max())


def test_the_critical_path_runs_through_kernels_that_overlap_at_their_ends() -> None:
    run = in_lanes(OVERLAPPING)
    path = critical_path(run, dependencies(run, carried(run)), one_span(10 * US, 400 * US))
    kinds = dict(path.group_by("kind").agg((pl.col("end") - pl.col("start")).sum()).rows())
    assert kinds == {"compute": 390 * US}


def test_a_kernel_within_a_longer_one_leaves_its_end() -> None:
    run = in_lanes(WITHIN)
    path = critical_path(run, dependencies(run, carried(run)), one_span(10 * US, 1200 * US))
    kinds = dict(path.group_by("kind").agg((pl.col("end") - pl.col("start")).sum()).rows())
    assert kinds == {"compute": 1189 * US, "launch latency": US}


@pytest.mark.parametrize(
    ("picture", "end"),
    [
        # Half of 89 + 100 + 100 + 101 us after the first begins at 10.
        (OVERLAPPING, 205 * US),
        # The last one waits for the second alone, which begins at 40: 80, 10 between them, and 95 us.
        (SIDE_BY_SIDE, 225 * US),
    ],
)
def test_kernels_of_half_the_length_end_earlier_where_they_wait_for_each_other(picture: str, end: int) -> None:
    run = in_lanes(picture)
    assert shortened(run, 1.0) == 400 * US
    assert shortened(run, 0.5) == end
