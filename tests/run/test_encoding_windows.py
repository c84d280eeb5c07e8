"""Windows of time: how many points each holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nsys2prv.model.limits import DEFAULT_LIMITS
from nsys2prv.pipeline.store.points import Points
from nsys2prv.pipeline.store.spill import SpillOf, hold_points
from nsys2prv.run.clocks import Clock
from nsys2prv.run.encoding_windows import window_borders
from nsys2prv.run.report_summary import Spill


def spill(times: np.ndarray) -> Spill:
    return hold_points(
        Path("points"), SpillOf("events", "kernels"), Points(pl.DataFrame({"time": times})), DEFAULT_LIMITS.batch_rows
    )


def borders(*times: np.ndarray, in_memory: bool = True) -> np.ndarray:
    spills = [spill(one) if in_memory else spill(one)._replace(held=None) for one in times]
    return window_borders([(one, Clock(0, 0)) for one in spills], DEFAULT_LIMITS, together=2)


@pytest.mark.parametrize(
    ("begins", "ends", "points", "in_files", "in_memory"),
    [
        ([0], [10**9], [900_000], 4, 2),
        ([0, 0, 0], [10**9] * 3, [700_000, 90_000, 1_000], 2, 2),
        ([0, 4 * 10**8], [10**9, 5 * 10**8], [900_000, 1_300_000], 6, 4),
        ([0], [10**9], [3], 1, 1),
    ],
)
def test_windows_are_even_in_number_and_in_points(
    begins: list[int], ends: list[int], points: list[int], in_files: int, in_memory: int
) -> None:
    times = [np.linspace(*span, dtype=np.int64) for span in zip(begins, ends, points, strict=True)]
    for windows, found in ((in_files, borders(*times, in_memory=False)), (in_memory, borders(*times))):
        held, _ = np.histogram(np.concatenate(times), np.clip(found, -1, 2**62))
        assert len(held) == windows
        assert held.sum() == sum(points)
        assert held.max() - held.min() < DEFAULT_LIMITS.batch_rows


def test_points_at_one_time_are_one_window() -> None:
    found = borders(np.full(900_000, 17))
    held, _ = np.histogram(np.full(900_000, 17), np.clip(found, -1, 2**62))
    assert sorted(held)[-1] == 900_000


def test_a_run_without_points_has_one_window() -> None:
    assert len(borders()) == 2
