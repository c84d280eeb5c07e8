"""What changes in the samples of a place, with samples and result side by side."""

from __future__ import annotations

import polars as pl

from nsys2prv.model.frames import SAMPLE
from nsys2prv.pipeline.extract.changed_samples import changes_of

SAMPLES = pl.DataFrame(
    {"time": [1, 2, 3, 4], "place": [0] * 4, "a": [5, 5, None, 7], "b": [None, 1, 1, None], "none": [None] * 4},
    schema={**SAMPLE, "a": pl.Int64, "b": pl.Int64, "none": pl.Int64},
)


def test_points_are_rows_with_another_value_and_edges_are_apart() -> None:
    found = changes_of(SAMPLES, ["a", "b", "none"], begun=())
    assert found.points().rows() == [(4, 0, 7, None, None)]
    assert found.edges().rows() == [(0, 1, "a", 5, True), (0, 2, "a", 5, False), (0, 2, "b", 1, True)]
    assert found.latest.rows() == [(4, 0, 7, 1, None)]


def test_the_last_sample_of_a_metric_is_an_edge_also_where_nothing_changed() -> None:
    found = changes_of(SAMPLES, ["a", "b"], begun={"a", "b"})
    found = found._replace(edge=found.edge | found.lasts())
    assert found.points().rows() == [(1, 0, 5, None), (2, 0, None, 1)]
    assert found.edges().rows() == [(0, 4, "a", 7, True), (0, 3, "b", 1, False)]


def test_the_value_before_is_compared_and_not_returned() -> None:
    found = changes_of(SAMPLES.select("time", "place", "a"), ["a"], begun={"a"})
    assert found.since(1).points().rows() == [(4, 0, 7)]
    assert found.edges().is_empty()


def test_rows_that_waited_come_first() -> None:
    first, then = (changes_of(part, ["a", "b"], begun={"a", "b"}) for part in (SAMPLES.head(2), SAMPLES.tail(2)))
    assert first.lasts().tolist() == [False, True]
    both = then.behind(first.chosen(first.lasts()))
    assert both.points().rows() == [(2, 0, None, 1), (3, 0, None, 1), (4, 0, 7, None)]
    assert both.latest.rows() == [(4, 0, 7, 1)]


def test_no_samples_change_nothing() -> None:
    found = changes_of(SAMPLES.clear(), ["a"], begun=())
    assert not len(found.lasts())
    assert found.points().is_empty()
    assert found.edges().is_empty()
    assert found.latest.is_empty()
