"""Time that disjoint spans cover before an instant, and at it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsys2prv.intervals.spans import inside, time_in, union

INSTANT = st.integers(min_value=-40, max_value=40)


@given(st.lists(st.tuples(INSTANT, INSTANT), max_size=6), st.lists(INSTANT, max_size=8))
def test_the_time_before_an_instant_is_that_of_all_covered_instants_before_it(
    intervals: list[tuple[int, int]], until: list[int]
) -> None:
    ends = np.array(intervals, dtype=np.int64).reshape(-1, 2)
    spans = union(ends[:, 0], ends[:, 1])
    covered = {at for start, end in intervals for at in range(start, end)}
    before = [sum(at < instant for at in covered) for instant in until]
    assert time_in(spans, np.array(until, dtype=np.int64)).tolist() == before
    assert inside(spans, np.array(until, dtype=np.int64)).tolist() == [instant in covered for instant in until]
