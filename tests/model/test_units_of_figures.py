"""Units by the names of figures, and figures as text."""

from __future__ import annotations

import pytest

from nsys2prv.model.units import (
    COUNT,
    FACTOR,
    FRACTION,
    GB_S,
    MB,
    MS,
    PERCENT,
    US,
    Unit,
    change_text,
    head_of,
    unit_of,
    words_of,
)


@pytest.mark.parametrize(
    ("name", "unit", "words", "head"),
    [
        ("ns", MS, "", "ms"),
        ("host_p50_ns", MS, "host p50", "host p50 ms"),
        ("avg_ns", US, "avg", "avg us"),
        ("bytes", MB, "", "MB"),
        ("gb_s", GB_S, "", "GB/s"),
        ("bus_p50_gb_s", GB_S, "bus p50", "bus p50 GB/s"),
        ("time_percent", PERCENT, "time", "time %"),
        ("bubble", FRACTION, "bubble", "bubble %"),
        ("load_balance", FACTOR, "load balance", "load balance"),
        ("rank", COUNT, "rank", "rank"),
        ("instances", None, "instances", "instances"),
        ("columns", None, "columns", "columns"),
    ],
)
def test_a_name_says_the_unit(name: str, unit: Unit | None, words: str, head: str) -> None:
    assert (unit_of(name), words_of(name), head_of(name)) == (unit, words, head)


def test_figures_as_text() -> None:
    assert MS.text(1500) == f"{0.0015:.3f}"
    assert [MS.text(-100), FRACTION.text(0.12345), COUNT.text(7), MB.text(2_500_000)] == ["0.000", "12.3", "7", "2.500"]


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (0.0341, "+3.4 %"),
        (-0.975, "-97.5 %"),
        (8.99, "+899.0 %"),
        (9, "10 times as long"),
        (1368.6, "1,370 times as long"),
    ],
)
def test_a_change_reads_in_percent_or_as_a_factor(share: float, told: str) -> None:
    """It was +136860.0 %."""
    assert change_text(share) == told
