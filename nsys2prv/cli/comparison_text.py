"""A comparison of two runs as text for the terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.conditions import Judgment
from nsys2prv.analysis.compare.run_figures import KERNEL_TIME, RunFigures, unit_of_figure, words_of_figure
from nsys2prv.cli.text_table import aligned, printable

HEAD = ("what", "name", "unit", "A", "B", "B - A", "change %")
# Longest text of a cell.
WIDTH = 60
# Sizes of the runs and sums over devices, which a comment on a change does without.
NOT_IN_MARKDOWN = ("run", "window", "devices")


class ShownFigures(NamedTuple):
    """The rows of a comparison that are printed, as cells; how many of `every` figures are left out, and why.

    `same`: figures without a difference that the digits show; `less`: kernels that changed less than those shown.
    """

    rows: list[list[str]]
    every: int
    same: int
    less: int

    @property
    def left_out(self) -> list[str]:
        """Return what is left out as a sentence, and how to see it; nothing where all is shown."""
        if not self.rows:
            return [f"None of {self.every} figures differs in the digits that are shown (--json has all)."]
        same = f"{self.same} of {self.every} figures, which do not differ in the digits that are shown"
        less = f"{self.less} kernel{'s' * (self.less != 1)} that changed less (--top)"
        parts = [*([same] if self.same else []), *([less] if self.less else [])]
        return [f"Left out: {'; '.join(parts)}. --json has all."] if parts else []


def comparison_text(comparison: Comparison, top: int) -> str:
    """Return the verdict, the runs, and the figures that differ; of the kernels the `top` ones that changed most."""
    runs = [f"{side}: {printable(run.name)} ({_window(run)})" for side, run in _sides(comparison)]
    changed = map(printable, comparison.changed_findings.lines())
    shown = _shown(comparison, top)
    table = [_heading(comparison), aligned(HEAD, shown.rows)] if shown.rows else []
    return "\n".join([comparison.verdict.text, *changed, "", *runs, *table, *shown.left_out])


def comparison_markdown(comparison: Comparison, judgments: Sequence[Judgment], top: int) -> str:
    """Return the verdict, the conditions, and the figures that differ, without the sizes of the runs."""
    shown = _shown(comparison, top, without=NOT_IN_MARKDOWN)
    marks = {True: "failed", False: "passed", None: "not told"}
    lines = [f"**{comparison.verdict.text}**", "", *(f"- {marks[one.holds]}: {_cell(one.text)}" for one in judgments)]
    lines += [f"- {_cell(line)}" for line in comparison.changed_findings.lines()]
    lines += [""] * (len(lines) > 2)
    lines += [f"{side}: `{printable(run.name)}` ({_window(run)})  " for side, run in _sides(comparison)]
    lines += ["", *shown.left_out] if shown.left_out else []
    if not shown.rows:
        return "\n".join(lines)
    table = [HEAD, ["---", "---", "---", "---:", "---:", "---:", "---:"], *shown.rows]
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


def _shown(comparison: Comparison, top: int, without: Sequence[str] = ()) -> ShownFigures:
    """Return the figures to print: those that differ, and of the kernels the `top` ones that changed most.

    `without`: what is not printed in any case.
    """
    table = comparison.per_iteration.filter(~pl.col("what").is_in(without))
    of_kernels = pl.col("what") == KERNEL_TIME
    # A kernel of only one run took no time in the other.
    change = (pl.col("b").fill_null(0) - pl.col("a").fill_null(0)).abs()
    kernels = table.filter(of_kernels).sort(change, "name", descending=[True, False])
    others = [_row(*row) for row in table.filter(~of_kernels).rows() if _differs(*row)]
    changed = [_row(*row) for row in kernels.rows() if _differs(*row)]
    differing = len(others) + len(changed)
    return ShownFigures([*others, *changed[:top]], table.height, table.height - differing, max(len(changed) - top, 0))


def _differs(
    what: str, name: str, a: float | None, b: float | None, difference: float | None, change: float | None
) -> bool:
    """Return True if the digits of a figure show a difference; also if a run lacks it, or if it does not compare."""
    return difference is None or float(unit_of_figure(what, name).text(difference)) != 0


def _row(
    what: str, name: str, a: float | None, b: float | None, difference: float | None, change: float | None
) -> list[str]:
    """Return the cells of a figure in its unit."""
    unit = unit_of_figure(what, name)
    values = ["" if one is None else unit.text(one) for one in (a, b, difference)]
    words = (text[:WIDTH] for text in words_of_figure(what, name))
    return [*words, unit.sign, *values, "" if change is None else f"{change:+.1f}"]
