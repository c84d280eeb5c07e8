"""Numbers of event types over all reports of a run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from synthetic import summary

from nsys2prv.model.event_types import GPU_METRIC
from nsys2prv.run.numbering import LARGEST, _number_of, number_labels

BEYOND = GPU_METRIC.size


@pytest.mark.parametrize(
    ("reports", "numbers"),
    [
        ([{"a": 5}, {"a": 5, "b": 0}], {"a": 5, "b": 0}),
        ([{"a": 5}, {"a": 6}], {"a": 0}),
        ([{"a": 5, "c": 0}, {"b": 5}], {"a": 1, "b": 2, "c": 0}),
        ([{"a": -1, "b": BEYOND, "c": BEYOND - 1}], {"a": 0, "b": 1, "c": BEYOND - 1}),
    ],
)
def test_metrics_have_the_numbers_that_all_reports_agree_on(
    reports: list[Mapping[str, int]], numbers: Mapping[str, int]
) -> None:
    """Others have the first free ones in order of name."""
    preferred = [{GPU_METRIC.of(name): number for name, number in report.items()} for report in reports]
    made = number_labels(
        [summary("", "node")._replace(rows_by_type=dict.fromkeys(p, 1), preferred=p) for p in preferred]
    )
    assert made.types == {GPU_METRIC.of(name): GPU_METRIC.at(number) for name, number in numbers.items()}


def test_a_type_that_no_event_has_gets_no_number() -> None:
    metric = GPU_METRIC.of("a")
    made = number_labels([summary("", "node")._replace(rows_by_type={metric: 0}, preferred={metric: 0})])
    assert (made.types, made.pcf) == ({}, ())


def test_frequencies_that_are_named_in_mhz_hold_hz() -> None:
    metrics = {GPU_METRIC.of(name): 1 for name in ("GPC Clock Frequency [MHz]", "SM Active")}
    made = number_labels([summary("", "node")._replace(rows_by_type=metrics)])
    assert {kind.label: kind.precision for kind in made.pcf} == {"GPC Clock Frequency [MHz]": 6, "SM Active": 0}


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        ("012", 12),
        ("", 0),
        ("000", 0),
        (str(LARGEST), LARGEST),
        (str(LARGEST + 1), LARGEST),
        ("9" * 5000, LARGEST),
    ],
)
def test_the_number_of_digits_is_at_most_the_largest_value(digits: str, number: int) -> None:
    assert _number_of(digits) == number
