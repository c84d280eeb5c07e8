"""A comparison of two runs as text for the terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.conditions import Judgment
from nsys2prv.analysis.compare.run_figures import KERNEL_TIME, RunFigures, unit_of_figure, words_of_figure
from nsys2prv.cli.text_table import aligned, printable

HEAD = ("what", "name", "unit", "A", "B", "B - A", "change %")
# Longest text of a cell.
WIDTH = 60


def comparison_text(comparison: Comparison, top: int) -> str:
    """Return the verdict, the runs, and the figures as a table; of the kernels the `top` ones that changed most."""
    runs = [f"{side}: {printable(run.name)} ({_window(run)})" for side, run in _sides(comparison)]
    changed = map(printable, comparison.changed_findings.lines())
    return "\n".join(
        [comparison.verdict.text, *changed, "", *runs, _heading(comparison), aligned(HEAD, _rows(comparison, top))]
    )


def comparison_markdown(comparison: Comparison, judgments: Sequence[Judgment], top: int) -> str:
    """Return the verdict, the conditions, and the figures of iterations, efficiency, classes and kernels."""
    shown = [row for row in _rows(comparison, top) if row[0] not in ("run", "window", "devices") and row[3] != row[4]]
    marks = {True: "failed", False: "passed", None: "not told"}
    lines = [f"**{comparison.verdict.text}**", "", *(f"- {marks[one.holds]}: {_cell(one.text)}" for one in judgments)]
    lines += [f"- {_cell(line)}" for line in comparison.changed_findings.lines()]
    lines += [""] * (len(lines) > 2)
    lines += [f"{side}: `{printable(run.name)}` ({_window(run)})  " for side, run in _sides(comparison)]
    if not shown:
        return "\n".join([*lines, "", "No figure differs."])
    table = [HEAD, ["---", "---", "---", "---:", "---:", "---:", "---:"], *shown]
    return "\n".join([*lines, "", *("| " + " | ".join(map(_cell, row)) + " |" for row in table)])


def _sides(comparison: Comparison) -> list[tuple[str, RunFigures]]:
    return [("A", comparison.a), ("B", comparison.b)]


def _window(run: RunFigures) -> str:
    iterations = f", {run.kept} iteration{'s' * (run.kept != 1)}" if run.kept else ""
    return f"{printable(run.window)}{iterations}"


def _heading(comparison: Comparison) -> str:
    sums = "an iteration" if all(comparison.iterations) else "the window"
    return f"times of devices, overlap, memory operations, classes and kernels: sums over the ranks in {sums}"


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def _rows(comparison: Comparison, top: int) -> list[list[str]]:
    table = comparison.per_iteration
    of_kernels = pl.col("what") == KERNEL_TIME
    # A kernel of only one run took no time in the other.
    change = (pl.col("b").fill_null(0) - pl.col("a").fill_null(0)).abs()
    kernels = table.filter(of_kernels).sort(change, "name", descending=[True, False]).head(top)
    return [_row(*row) for row in pl.concat([table.filter(~of_kernels), kernels]).rows()]


def _row(
    what: str, name: str, a: float | None, b: float | None, difference: float | None, change: float | None
) -> list[str]:
    """Return the cells of a figure in its unit."""
    unit = unit_of_figure(what, name)
    values = ["" if one is None else unit.text(one) for one in (a, b, difference)]
    words = (text[:WIDTH] for text in words_of_figure(what, name))
    return [*words, unit.sign, *values, "" if change is None else f"{change:+.1f}"]
