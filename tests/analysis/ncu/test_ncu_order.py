"""Sums of figures of Nsight Compute are the same to the last digit whenever they are made."""

from __future__ import annotations

import numpy as np
import polars as pl
from analysis_cases import run_of, work_of

from nsys2prv.analysis.ncu.join import JOIN
from nsys2prv.analysis.ncu.roofline import roofline
from nsys2prv.analysis.ncu.tables import kernel_figures
from nsys2prv.report.ncu.figures import FIGURES

COUNT = 300


def test_sums_do_not_depend_on_the_order_of_groups() -> None:
    random = np.random.default_rng(1)
    columns = {
        name: pl.Series(random.uniform(0.1, 1e9, COUNT)) if kind == pl.Float64() else pl.lit(None, kind)
        for name, kind in FIGURES.items()
    }
    figures = pl.DataFrame({"n": range(COUNT)}).select(**columns)
    work = work_of([(0, n, n + 1, "kernel") for n in range(COUNT)]).with_columns(
        figures=pl.Series(range(COUNT), dtype=JOIN["figures"]), joined=pl.lit(0, JOIN["joined"]), ns=pl.lit(7, pl.Int64)
    )
    run = run_of(work)._replace(figures=figures)
    first = kernel_figures(work, figures, ["class"]), roofline(work, run, "class")
    for _ in range(5):
        assert kernel_figures(work, figures, ["class"]).rows() == first[0].rows()
        assert roofline(work, run, "class").rows() == first[1].rows()
