"""A device that several tasks share idles for none of them alone."""

from __future__ import annotations

from functools import reduce

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsys2prv.analysis.facts.starved import _together
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, intersection, one_span, union

# Device 0 has task 0, device 1 the tasks 1, 2 and 0.
USERS = [(0, 0), (1, 0), (1, 1), (1, 2)]
CALLS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(1, 15)), max_size=20)


def of_task(calls: list[tuple[int, int, int]], task: int) -> Spans:
    own = np.array([(start, start + length) for t, start, length in calls if t == task], dtype=np.int64).reshape(-1, 2)
    return union(own[:, 0], own[:, 1])


@given(CALLS)
def test_time_counts_where_all_tasks_of_a_device_have_it(calls: list[tuple[int, int, int]]) -> None:
    schema = {"task": pl.Int64, "start": pl.Int64, "end": pl.Int64}
    frame = pl.DataFrame([(task, start, start + length) for task, start, length in calls], schema=schema, orient="row")
    users = pl.DataFrame(USERS, schema={"device": pl.Int64, "task": pl.Int64}, orient="row")
    axis = axis_over(one_span(0, 40), 2)
    found = _together(axis, users, frame)
    for device in (0, 1):
        expected = reduce(intersection, [of_task(calls, task) for d, task in USERS if d == device])
        own = axis.group(found.start) == device
        assert axis.time(found.start[own]).tolist() == expected.start.tolist()
        assert axis.time(found.end[own]).tolist() == expected.end.tolist()
