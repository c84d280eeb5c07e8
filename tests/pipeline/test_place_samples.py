"""Samples of one place at the begin of a chosen time."""

from __future__ import annotations

import polars as pl
import pytest

from nsys2prv.intervals.spans import Span
from nsys2prv.model.event_types import METRICS_SAMPLED
from nsys2prv.model.frames import Samples
from nsys2prv.model.losses import Tally
from nsys2prv.pipeline.extract.place_samples import PlaceSamples, finished

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
    place = PlaceSamples(Span(start, 50))
    taken = place.taken(frame, Tally()).data
    rest = place.rest(Tally())
    found = taken if rest is None else rest.data
    assert found.select("time", "a", "b").rows() == rows


# A sample every 10 ns, and a pause after 30.
PAUSED = {"time": [0, 10, 20, 30, 70, 80], "place": [0] * 6, "a": [1, 2, 2, 3, 3, 4]}


def drawn(data: dict[str, list[int]], span: Span | None, size: int) -> list[tuple[int, int | None, int | None]]:
    """Time, value of `a` and of METRICS_SAMPLED of what is drawn, from frames of some size."""
    whole = pl.DataFrame(data, schema_overrides={"place": pl.UInt32()})
    place, tally = PlaceSamples(span, periodic=True), Tally()
    parts, edges = [], []
    frames = [place.taken(Samples(part, ("a",)), tally) for part in whole.iter_slices(size)]
    for frame, last in [*((f, False) for f in frames), (place.rest(tally), True)]:
        made, edge = place.points(frame, last)
        parts.append(made)
        edges.append(edge)
    ends = finished(edges)
    # The first sample and the ends of all are written by the plan.
    border = ends.filter(pl.col("is_first") | pl.col("is_end") | pl.col("changed"))
    wide = border.pivot(on="column", index=["time", "place"], values="value")
    rows = pl.concat([*parts, wide], how="diagonal").sort("time")
    return rows.select("time", "a", METRICS_SAMPLED.key).rows() if rows.height else []


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize(
    ("span", "rows"),
    [
        (None, [(0, 1, 1), (10, 2, None), (30, 3, None), (40, None, 0), (70, None, 1), (80, 4, None), (90, None, 0)]),
        # Within samples; from within a pause on; from within the last sample on; after it; within the pause.
        (Span(15, 35), [(15, 2, 1), (30, 3, None)]),
        (Span(50, 200), [(70, 3, 1), (80, 4, None), (90, None, 0)]),
        (Span(85, 200), [(85, 4, 1), (90, None, 0)]),
        (Span(95, 200), []),
        (Span(45, 60), []),
        (Span(0, 25), [(0, 1, 1), (10, 2, None)]),
    ],
)
def test_nothing_is_sampled_from_a_period_after_the_last_sample_on_and_in_pauses(
    span: Span | None, rows: list[tuple[int, int | None, int | None]], size: int
) -> None:
    assert drawn(PAUSED, span, size) == rows


def test_one_sample_alone_lasts_a_nanosecond() -> None:
    assert drawn({"time": [5], "place": [0], "a": [7]}, None, 1) == [(5, 7, 1), (6, None, 0)]


def test_a_metric_that_is_sampled_once_holds_no_others_back() -> None:
    """Metric `b` has its only sample at the start; of `a` the last one waits, which may be the last of all."""
    place, tally = PlaceSamples(None), Tally()
    waiting, sizes, times = [], [], []
    for first in range(0, 5000, 1000):
        data = {"time": [*range(first, first + 1000)], "place": [0] * 1000, "a": [*range(first, first + 1000)]}
        frame = pl.DataFrame(data, schema_overrides={"place": pl.UInt32()})
        if not first:
            frame = frame.with_columns(b=pl.when(pl.col("time") == 0).then(7))
        made, _ = place.points(place.taken(Samples(frame, tuple(frame.columns[2:])), tally), last=False)
        assert place.waiting is not None
        waiting.append(place.waiting.samples["time"].to_list())
        sizes.append(made.height)
        times += made["time"].to_list()
    assert waiting == [[0, last] for last in range(999, 5000, 1000)]
    assert sizes == [998, 1000, 1000, 1000, 1000]
    made, edges = place.points(None, last=True)
    assert sorted(times + made["time"].to_list()) == list(range(1, 4999))
    assert edges.select("time", "column", "value", "changed").sort("time", "column").rows() == [
        (0, "a", 0, True),
        (0, "b", 7, True),
        (4999, "a", 4999, True),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_points_and_edges_are_the_same_in_frames_of_any_size(size: int) -> None:
    """Rows in which one metric has its last sample and another one goes on, and metrics that pause."""
    data = {
        "time": [*range(10)],
        "place": [0] * 10,
        "a": [1, 2, 2, 3, 3, 3, 4, 5, 5, 5],
        "b": [7, None, None, 7, None, 8, None, None, None, None],
        "c": [None, None, 4, 4, None, None, None, 5, None, None],
    }
    frame = pl.DataFrame(data, schema_overrides={"place": pl.UInt32()})

    def found(parts: list[pl.DataFrame]) -> list[list[tuple[object, ...]]]:
        place, tally = PlaceSamples(None), Tally()
        made = [place.points(place.taken(Samples(part, ("a", "b", "c")), tally), last=False) for part in parts]
        made.append(place.points(place.rest(tally), last=True))
        points, edges = (pl.concat(one, how="diagonal") for one in zip(*made, strict=True))
        return [points.sort("time").rows(), edges.drop("density").sort("time", "column").rows()]

    whole = found([frame])
    assert [row[0] for row in whole[0]] == [1, 3, 6]
    assert found(list(frame.iter_slices(size))) == whole
