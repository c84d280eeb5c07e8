"""Samples of one place at the begin of a chosen time."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.model.frames import Samples
from nsys2prv.model.losses import Tally
from nsys2prv.pipeline.extract.samples import SampleRun
from nsys2prv.pipeline.store.points import Span

# Metric `a` has a sample at each time, `b` only at 0 and 30.
DATA = {"time": [0, 10, 20, 30], "place": [0] * 4, "a": [1, 2, 3, 4], "b": [5, None, None, 6]}


@pytest.mark.parametrize(
    ("start", "rows"),
    [
        (0, [(0, 1, 5), (10, 2, None), (20, 3, None), (30, 4, 6)]),
        (10, [(10, 2, 5), (20, 3, None), (30, 4, 6)]),
        (15, [(15, 2, 5), (20, 3, None), (30, 4, 6)]),
        (30, [(30, 4, 6)]),
        (40, [(40, 4, 6)]),
    ],
)
def test_every_metric_has_a_value_from_the_start_on(start: int, rows: list[tuple[int, int, int | None]]) -> None:
    frame = Samples(pl.DataFrame(DATA, schema_overrides={"place": pl.UInt32()}), ("a", "b"))
    run = SampleRun(Span(start, 50))
    taken = run.taken(frame, Tally()).data
    rest = run.rest(Tally())
    found = taken if rest is None else rest.data
    assert found.select("time", "a", "b").rows() == rows
