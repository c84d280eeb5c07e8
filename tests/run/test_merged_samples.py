"""Samples of one GPU in several reports: which of them are drawn, and what is written where one follows another."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from synthetic import summary

from nsys2prv.model.interning import GPU, PLACE, Place
from nsys2prv.run.clocks import Clock
from nsys2prv.run.merged_samples import edge_samples, sampled_places
from nsys2prv.run.report_summary import PLACE_USE, SAMPLE_EDGE, Summary
from nsys2prv.run.trace_rows import NO_ROW

Edges = list[tuple[int, int, bool]]


def report(first: int, last: int, rows: int, edges: Edges = [], sampler: str = "metrics") -> Summary:  # noqa: B006
    """A report with samples of one GPU, place 0; `edges`: time, value and whether it changed of the first and last."""
    held = [
        (0, time, "m", value, changed, None, n == 0, n == len(edges) - 1, False)
        for n, (time, value, changed) in enumerate(edges)
    ]
    return summary("", "node")._replace(
        places=pl.DataFrame([(*Place(GPU, gpu=0, sampler=sampler), 0)], schema=PLACE, orient="row"),
        uses=pl.DataFrame([(0, "gpu_metrics", True, rows, first, last)], schema=PLACE_USE, orient="row"),
        edges=pl.DataFrame(
            held or [(0, first, "m", 0, True, None, True, True, False)], schema=SAMPLE_EDGE, orient="row"
        ),
    )


def pieces(*reports: Summary, rows: tuple[int, ...] | None = None) -> pl.DataFrame:
    """All on one clock and, as a rule, on row 0."""
    row_of = [np.array([row]) for row in rows or [0] * len(reports)]
    return sampled_places(reports, [Clock(0, 0)] * len(reports), row_of)


DENSE, SPARSE = report(0, 100, 50), report(0, 1000, 100)


@pytest.mark.parametrize(
    ("reports", "kept"),
    [
        ((SPARSE, DENSE), [False, True]),
        ((DENSE, DENSE), [True, False]),
        # What is dense is what comes often, not what is much.
        ((report(50, 60, 5), report(0, 1000, 100)), [True, False]),
        ((report(0, 99, 50), report(100, 200, 50)), [True, True]),
        # One sample alone has no period.
        ((report(50, 50, 1), SPARSE), [False, True]),
        ((DENSE, report(0, 1000, 100, sampler="nic")), [True, True]),
    ],
)
def test_of_two_reports_of_one_gpu_the_denser_is_drawn(reports: tuple[Summary, ...], kept: list[bool]) -> None:
    assert pieces(*reports)["kept"].to_list() == kept


def test_what_has_no_row_or_another_is_in_nobodys_way() -> None:
    found = pieces(SPARSE, DENSE, SPARSE, rows=(0, 1, NO_ROW))
    assert found.select("report", "row", "kept").rows() == [(0, 0, True), (1, 1, True)]


def borders(*reports: Summary) -> list[tuple[int, ...]]:
    """Time, row and value."""
    return edge_samples(reports, [Clock(0, 0)] * len(reports), pieces(*reports)).rows()


def test_a_report_begins_with_what_changed_since_the_one_before() -> None:
    """Each report's first sample is a change as far as it knows; only the last of all is written without one."""
    one = report(0, 90, 10, [(0, 5, True), (90, 7, False)])
    same, other = ([(100, value, True), (190, 8, False)] for value in (7, 9))
    assert borders(one, report(100, 190, 10, same)) == [(0, 0, 5), (190, 0, 8)]
    assert borders(one, report(100, 190, 10, other)) == [(0, 0, 5), (100, 0, 9), (190, 0, 8)]
    assert borders(report(100, 190, 10, other), one) == [(0, 0, 5), (100, 0, 9), (190, 0, 8)]


def test_what_a_sparser_report_says_of_the_same_time_is_not_written() -> None:
    sparse = report(0, 1000, 10, [(0, 1, True), (1000, 2, True)])
    dense = report(0, 90, 10, [(0, 5, True), (90, 7, True)])
    assert borders(sparse, dense) == [(0, 0, 5), (90, 0, 7)]
    assert borders(sparse) == [(0, 0, 1), (1000, 0, 2)]


def test_without_samples_there_are_no_borders() -> None:
    nothing = summary("", "node")._replace(places=pl.DataFrame(schema=PLACE))
    assert borders(nothing) == []
