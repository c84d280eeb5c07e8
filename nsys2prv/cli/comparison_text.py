"""A comparison of two runs as text for the terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.conditions import Judgment
from nsys2prv.analysis.compare.run_figures import (
    EFFICIENCY,
    KERNEL_TIME,
    PHASE,
    RunFigures,
    differs,
    unit_of_figure,
    words_of_figure,
)
from nsys2prv.analysis.compare.told_figures import SUMMED
from nsys2prv.cli.screen import fitting
from nsys2prv.cli.text_table import aligned, printable
from nsys2prv.model.basis import basis
from nsys2prv.model.units import FRACTION
from nsys2prv.run.iterations.steady import STEADY

HEAD = ("what", "name", "unit", "A", "B", "B - A", "change %")
# What empty cells mean.
EMPTY = "An empty cell under A or B: that run has no such figure, and there is no change to tell."
# Longest text of a cell.
WIDTH = 60
# Change in percent below which a figure is only counted: the spread of iterations hides it in most runs.
SLIGHT = 1.0
# What is printed however little it changed: means of iterations, and efficiencies.
ALWAYS = pl.col("what").str.ends_with(", mean") | pl.col("what").is_in([EFFICIENCY, PHASE])
# Sizes of the runs and sums over devices, which a comment on a change does without.
NOT_IN_MARKDOWN = ("run", "window", "devices")


class ShownFigures(NamedTuple):
    """The rows of a comparison that are printed, as cells; how many of `every` figures are left out, and why.

    `same`: figures without a difference that the digits show; `slight`: those whose change is below SLIGHT; `less`:
    kernels that changed less than those shown.
    """

    rows: list[list[str]]
    every: int
    same: int
    slight: int
    less: int

    @property
    def left_out(self) -> list[str]:
        """Return what empty cells mean, and what is left out with how to see it; nothing where all is shown."""
        if not self.every:
            return ["Neither run has figures to compare: device activity, MPI calls or iterations."]
        if not self.rows:
            return [f"None of {self.every} figures differs in the digits that are shown (--json has all)."]
        same = f"{self.same} of {self.every} figures, which do not differ in the digits that are shown"
        slight = f"{self.slight} that change by less than {SLIGHT:g} %"
        less = f"{self.less} kernel{'s' * (self.less != 1)} that changed less (--top)"
        empty = [EMPTY] if any("" in row[3:5] for row in self.rows) else []
        parts = [*([same] if self.same else []), *([slight] if self.slight else []), *([less] if self.less else [])]
        return [*empty, *([f"Left out: {'; '.join(parts)}. --json has all."] if parts else [])]


def comparison_text(comparison: Comparison, top: int) -> str:
    """Return the runs, the verdict, and the figures that differ; of the kernels the `top` ones that changed most."""
    runs = [f"{side}: {printable(run.name)} ({_window(run)})" for side, run in _sides(comparison)]
    changed = map(fitting, map(printable, comparison.finding_lines))
    shown = _shown(comparison, top)
    table = [*_heading(comparison), aligned(HEAD, shown.rows)] if shown.rows else []
    head = [*runs, "", fitting(comparison.verdict.text), *changed, "", *map(fitting, _not_told(comparison))]
    return "\n".join([*head, *table, *map(fitting, shown.left_out)])


def comparison_markdown(comparison: Comparison, judgments: Sequence[Judgment], top: int) -> str:
    """Return the runs, the verdict, the conditions, and the figures that differ, without the sizes of the runs."""
    shown = _shown(comparison, top, without=NOT_IN_MARKDOWN)
    marks = {True: "failed", False: "passed", None: "not told"}
    lines = [f"{side}: `{printable(run.name)}` ({_window(run)})  " for side, run in _sides(comparison)]
    lines += ["", f"**{comparison.verdict.text}**"]
    points = [*(f"{marks[one.holds]}: {one.text}" for one in judgments), *comparison.finding_lines]
    notes = [*_not_told(comparison), *shown.left_out]
    for part in ([f"- {_cell(point)}" for point in points], notes):
        lines += ["", *part] if part else []
    if not shown.rows:
        return "\n".join(lines)
    table = [HEAD, ["---", "---", "---", "---:", "---:", "---:", "---:"], *shown.rows]
    return "\n".join([*lines, "", *("| " + " | ".join(map(_cell, row)) + " |" for row in table)])


def _sides(comparison: Comparison) -> list[tuple[str, RunFigures]]:
    return [("A", comparison.a), ("B", comparison.b)]


def _window(run: RunFigures) -> str:
    """Return the window of a run with the number of its iterations, in words where `steady` has none."""
    if run.kept:
        return f"{printable(run.window)}, {run.kept} iteration{'s' * (run.kept != 1)}"
    return "no iterations found: the recorded time" if run.window == STEADY else printable(run.window)


def _not_told(comparison: Comparison) -> list[str]:
    """Return why figures are not compared as a line, no line where all are."""
    return [comparison.not_told] if comparison.not_told else []


def _heading(comparison: Comparison) -> list[str]:
    """Return the line above the table: what its sums are over."""
    sums = basis(all(comparison.iterations))
    return [] if comparison.not_told else [f"{SUMMED}: sums over the ranks in {sums}"]


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def _shown(comparison: Comparison, top: int, without: Sequence[str] = ()) -> ShownFigures:
    """Return the figures to print: those that differ, and of the kernels the `top` ones that changed most.

    `without`: what is not printed in any case.
    """
    table = comparison.told.filter(~pl.col("what").is_in(without))
    of_kernels = pl.col("what") == KERNEL_TIME
    # A kernel of only one run took no time in the other.
    change = (pl.col("b").fill_null(0) - pl.col("a").fill_null(0)).abs()
    kernels = table.filter(of_kernels).sort(change, "name", descending=[True, False])
    each = all(comparison.iterations)
    slight = (pl.col("change_percent").abs() < SLIGHT).fill_null(False) & ~ALWAYS
    few = len(_differing(table.filter(slight), each))
    others = _differing(table.filter(~of_kernels & ~slight), each, comparison.only_copies)
    changed = _differing(kernels.filter(~slight), each)
    same = table.height - len(others) - len(changed) - few
    return ShownFigures([*others, *changed[:top]], table.height, same, few, max(len(changed) - top, 0))


def _differing(figures: pl.DataFrame, of_iterations: bool, only_copies: bool = False) -> list[list[str]]:
    """Return the cells of the figures whose digits show a difference. `of_iterations`: sums are of an iteration."""
    rows = figures.iter_rows(named=True)
    return [
        _row(row, of_iterations, only_copies) for row in rows if differs(row["what"], row["name"], row["difference"])
    ]


def _row(figure: Mapping[str, Any], of_iterations: bool, only_copies: bool) -> list[str]:
    """Return the cells of a figure in its unit."""
    unit, change = unit_of_figure(figure["what"], figure["name"]), figure["change_percent"]
    values = ["" if figure[c] is None else unit.text(figure[c]) for c in ("a", "b", "difference")]
    words = (text[:WIDTH] for text in words_of_figure(figure["what"], figure["name"], of_iterations, only_copies))
    # Percents of percents are read as points.
    told = change is not None and unit != FRACTION
    return [*words, unit.sign, *values, f"{change:+.1f}" if told else ""]
