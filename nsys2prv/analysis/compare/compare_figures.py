"""The figures of two runs side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from nsys2prv.analysis.compare.run_figures import CLASS_TIME, ITERATION_MEAN, KERNEL_TIME, RunFigures
from nsys2prv.analysis.compare.work_of_iterations import common_work, more_work

# `difference` is b less a, `change_percent` that of a (null where a is 0 or missing).
COMPARISON = {
    "what": pl.String(),
    "name": pl.String(),
    "a": pl.Float64(),
    "b": pl.Float64(),
    "difference": pl.Float64(),
    "change_percent": pl.Float64(),
}

# The name of a CUDA graph that was recorded as a whole: see families/device/graphs.py.
GRAPH_NAME = re.compile(r"graph \d+")
# Figures that are sums over the window, beside those of classes and kernels.
SUMS = ("window", "devices", "overlap", "memory")


def compare_figures(a: RunFigures, b: RunFigures) -> pl.DataFrame:
    """Return COMPARISON of two runs. Figures of one run only, and iterations of other work, are null."""
    # Iterations of other names may be other work: epochs of one run are not the steps of the other.
    alike = same_marks(a, b)
    left, right = (_graphs_by_time(run.figures if alike else _under_own_name(run)) for run in (a, b))
    keys = [*left, *(k for k in right if k not in left)]
    rows = [(what, name, left.get((what, name)), right.get((what, name))) for what, name in keys]
    names = list(COMPARISON)[:4]
    return _with_changes(pl.DataFrame(rows, schema={n: COMPARISON[n] for n in names}, orient="row"))


def _graphs_by_time(figures: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Return figures with CUDA graphs that were recorded as a whole named by their place, the longest in all first.

    Their numbers are those of a run, and what they contain is not known.
    """
    own = [(value, key) for key, value in figures.items() if key[0] == KERNEL_TIME and GRAPH_NAME.fullmatch(key[1])]
    ordered = sorted(own, key=lambda one: (-one[0], one[1]))
    places = {key: (KERNEL_TIME, f"graph, no. {place} by time") for place, (_, key) in enumerate(ordered, 1)}
    return {places.get(key, key): value for key, value in figures.items()}


def _under_own_name(run: RunFigures) -> dict[tuple[str, str], float]:
    """Return the figures of a run, with its iterations named by their range."""
    own = f"iteration {run.iteration_pattern}, mean"
    return {(own if what == ITERATION_MEAN else what, name): value for (what, name), value in run.figures.items()}


def same_iterations(a: RunFigures, b: RunFigures) -> bool:
    """Return False if both runs have iterations, but of other work, or of several times the work."""
    return same_marks(a, b) and more_work(a.work, b.work) is None


def same_marks(a: RunFigures, b: RunFigures) -> bool:
    """Return False if both runs have iterations, but found by other ranges or work that mark other work."""
    return same_pattern(a, b) or common_work(a.work, b.work).is_same


def same_pattern(a: RunFigures, b: RunFigures) -> bool:
    """Return False if both runs have iterations, but found by ranges or work of other names."""
    return len({a.iteration_pattern, b.iteration_pattern} - {None}) < 2


def figures_per_iteration(table: pl.DataFrame, iterations: tuple[int, int], alike: bool) -> pl.DataFrame:
    """Return COMPARISON with sums over the window divided by the number of its iterations in each run.

    Not `alike`: the iterations are of other work, and changes of their sums and means are null. Where one run has
    iterations, and the other none, sums stay those of the windows, and their changes are null.
    """
    if not any(iterations):
        return table
    of_window = sums_over_window()
    if all(iterations):
        each = {
            name: pl.when(of_window).then(pl.col(name) / count).otherwise(name)
            for name, count in zip("ab", iterations, strict=True)
        }
        table = _with_changes(table.with_columns(**each))
        if alike:
            return table
    compared = ~of_window & pl.col("what").ne(ITERATION_MEAN)
    return table.with_columns(pl.when(compared).then(c).alias(c) for c in ("difference", "change_percent"))


def sums_over_window() -> pl.Expr:
    """Return the condition that a figure of COMPARISON is a sum over the window."""
    return pl.col("what").is_in(SUMS) & pl.col("name").ne("count") | pl.col("what").is_in([CLASS_TIME, KERNEL_TIME])


def _with_changes(table: pl.DataFrame) -> pl.DataFrame:
    change = pl.when(pl.col("a") != 0).then(100 * (pl.col("b") - pl.col("a")) / pl.col("a"))
    return table.with_columns(difference=pl.col("b") - pl.col("a"), change_percent=change)
