"""Peaks of a class of kernels, some of which were profiled without them."""

from __future__ import annotations

import polars as pl
import pytest
from analysis_cases import run_of, work_of

from nsys2prv.analysis.ncu.join import JOIN
from nsys2prv.analysis.ncu.roofline import roofline
from nsys2prv.report.ncu.figures import FIGURES

KNOWN = {"ns": 10.0, "flop": 1e6, "flop_tensor": 1e6, "peak_tensor": 1e15, "dram_bytes": 1e3, "peak_bytes": 1e12}


def row_of(*figures: dict[str, float | None]) -> dict[str, object]:
    """The roofline of a class whose kernels have these figures."""
    count = len(figures)
    work = work_of([(0, n, n + 1, "kernel") for n in range(count)]).with_columns(
        figures=pl.Series(range(count), dtype=JOIN["figures"]), joined=pl.lit(0, JOIN["joined"]), ns=pl.lit(7, pl.Int64)
    )
    (row,) = roofline(work, run_of(work)._replace(figures=pl.DataFrame(figures, schema=FIGURES)), "class").to_dicts()
    return row


def test_a_class_has_the_peak_that_all_of_its_kernels_have() -> None:
    row = row_of(KNOWN, {**KNOWN, "ns": 30.0, "flop": 3e6, "flop_tensor": 3e6})
    assert (row["pipe"], row["bound"]) == ("tensor", "compute")
    assert (row["peak_flop_s"], row["peak_bytes_s"]) == (pytest.approx(1e15), pytest.approx(1e12))
    assert (row["flop_percent"], row["bytes_percent"]) == (pytest.approx(10), pytest.approx(5))


@pytest.mark.parametrize("pipe", ["tensor", "fp32"])
def test_without_the_peak_of_one_of_its_kernels_it_has_none(pipe: str) -> None:
    """Rates and the peak of DRAM, which is that of the others, stay."""
    row = row_of(KNOWN, {**KNOWN, "flop_tensor": 0.0, f"flop_{pipe}": 1e6, f"peak_{pipe}": None, "peak_bytes": None})
    assert row["flop_s"] == pytest.approx(2e6 / 20e-9)
    assert row["peak_bytes_s"] == pytest.approx(1e12)
    assert [row[c] for c in ("pipe", "peak_flop_s", "flop_percent", "bound")] == [None] * 4
