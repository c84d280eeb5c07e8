"""Which figures of two runs are told side by side: not those of other amounts of work, nor what another row tells."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.analysis_record import IN_WINDOW
from nsys2prv.analysis.compare.compare_figures import sums_over_window
from nsys2prv.analysis.compare.run_figures import EFFICIENCY, ITERATION_MEAN, WHOLE, RunFigures

# Figures that are sums over the window.
SUMMED = "times of devices, overlap, memory operations, classes and kernels"


def told_figures(table: pl.DataFrame, a: RunFigures, b: RunFigures) -> pl.DataFrame:
    """Return the rows of COMPARISON that are told of two runs.

    Sums over iterations and over a recorded time are of other amounts of work. The efficiency of whole iterations says
    what that of the window does, unless much is between iterations in one of the runs.
    """
    of_one_run = sums_over_window() | pl.col("what").eq(ITERATION_MEAN) if one_has_iterations(a, b) else pl.lit(False)
    whole = pl.col("what").eq(EFFICIENCY) & pl.col("name").eq(WHOLE)
    known = [
        (run.figures[EFFICIENCY, WHOLE], run.figures[EFFICIENCY, "parallel"])
        for run in (a, b)
        if (EFFICIENCY, WHOLE) in run.figures
    ]
    apart = any(of_whole < IN_WINDOW * of_window for of_whole, of_window in known)
    return table.filter(~(of_one_run | (pl.lit(False) if apart else whole)))


def one_has_iterations(a: RunFigures, b: RunFigures) -> bool:
    """Return True if one run has iterations and the other none: their windows hold other amounts of work."""
    return bool(a.kept) != bool(b.kept)


def why_not_told(a: RunFigures, b: RunFigures) -> str:
    """Return which figures are not compared and why, as a sentence; empty where all are."""
    if not one_has_iterations(a, b):
        return ""
    iterations, rest = "AB" if a.kept else "BA"
    count = max(a.kept, b.kept)
    return (
        f"Not compared: {SUMMED}. They are sums over {count} iteration{'s' * (count != 1)} in {iterations}, and over "
        f"the recorded time in {rest}. Efficiencies are of these times, too."
    )
