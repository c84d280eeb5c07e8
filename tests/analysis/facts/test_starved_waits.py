"""Idle time after a wait of the host is due to the wait up to its length, whatever ran while the host waited."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.analysis.facts.starved import _without_lead

# One wait from 100 to 200; kernels with gaps run meanwhile. `before`: how many launches came before each gap.
WAIT = range(100, 200)


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([(200, 30)], [30]),
        ([(200, 500)], [100]),
        # Gaps between kernels that were launched before the wait: the wait is as long as it was.
        ([(120, 0), (140, 0), (160, 0), (200, 500)], [0, 0, 0, 100]),
        ([(120, 15), (140, 0), (200, 500)], [15, 0, 85]),
        # Before the wait, idle time is due to nothing that is waited for.
        ([(50, 40), (200, 500)], [0, 100]),
    ],
    ids=["short", "long", "gaps meanwhile", "idle meanwhile", "idle before"],
)
def test_idle_time_is_due_to_a_wait_up_to_its_length(gaps: list[tuple[int, int]], expected: list[int]) -> None:
    frame = pl.DataFrame(
        [(0, start, start - WAIT.start if start > WAIT.start else 0, rest, 0) for start, rest in gaps],
        schema=["device", "start", "waited", "rest", "before"],
        orient="row",
    )
    assert _without_lead(frame).to_list() == expected
