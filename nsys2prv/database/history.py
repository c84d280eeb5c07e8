"""Runs over time: as a table, as JSON, and as a plot."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

import polars as pl

from nsys2prv.model.palette import PLOT_COLORS

TIMES = ("began", "recorded")
# Sizes of the plot, in pixels.
WIDTH, PANEL, LEFT, RIGHT, TOP, BELOW = 960, 260, 90, 70, 50, 50
# Programs to draw, those with the most runs, and runs of each, the latest: more would be too small to see.
PANELS, RUNS = 12, 500
TIME, EFFICIENCY = PLOT_COLORS[0].hex, PLOT_COLORS[1].hex


class History(NamedTuple):
    """Runs over time. `runs`: a run a row, the oldest first; columns HISTORY, times in ns, efficiencies of 1."""

    runs: pl.DataFrame

    def as_json(self) -> dict[str, Any]:
        """Return the runs as JSON values, times as texts in UTC."""
        texts = self.runs.with_columns(pl.col(TIMES).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
        return {"runs": texts.to_dicts()}

    def as_svg(self) -> str:
        """Draw the iteration time and the parallel efficiency of each run in order, a panel a program, as SVG."""
        programs = (
            self.runs.group_by("program").len().sort("len", "program", descending=[True, False])["program"].to_list()
        )
        parts = [
            _panel(self.runs.filter(pl.col("program") == program).tail(RUNS), program, n * PANEL)
            for n, program in enumerate(programs[:PANELS])
        ]
        height = max(len(parts), 1) * PANEL + 20
        more = f"and {len(programs) - PANELS} more programs; --program chooses" if len(programs) > PANELS else ""
        note = more if programs else "No runs are recorded."
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
                ' font-size="12"><rect width="100%" height="100%" fill="white"/>',
                *parts,
                f'<text x="{LEFT}" y="{height - 6}">{note}</text>',
                "</svg>\n",
            ]
        )


def _panel(runs: pl.DataFrame, program: str, top: int) -> str:
    """Draw the runs of one program, whose times have an axis from 0 to the longest."""
    longest = float(runs["iteration_ns"].max() or 0) or 1.0  # type: ignore[arg-type]
    low, high = top + PANEL - BELOW, top + TOP
    step = (WIDTH - LEFT - RIGHT) / max(runs.height, 1)
    x = LEFT + step * (pl.int_range(pl.len()) + 0.5)

    def y(share: pl.Expr) -> pl.Expr:
        return (low - share * (low - high)).round(1)

    when = pl.coalesce("began", "recorded").dt.strftime("%Y-%m-%d %H:%M")
    placed = runs.select(
        "name", "run", "iteration_ns", "parallel",
        when=when, x=x.round(1), time=y(pl.col("iteration_ns") / longest), efficiency=y(pl.col("parallel")),
    )  # fmt: skip
    lines = [
        f'<text x="{LEFT}" y="{top + 20}" font-weight="bold">{escape(program)}</text>'
        f'<text x="{LEFT}" y="{top + 38}" fill="{TIME}">iteration, median (ms)</text>'
        f'<text x="{WIDTH - RIGHT}" y="{top + 38}" fill="{EFFICIENCY}" text-anchor="end">parallel efficiency (%)</text>'
    ]
    for share in (0, 0.5, 1):
        at = low - share * (low - high)
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" stroke="#ccc"/>'
            f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end" fill="{TIME}">{share * longest / 1e6:,.3f}</text>'
            f'<text x="{WIDTH - RIGHT + 8}" y="{at + 4}" fill="{EFFICIENCY}">{100 * share:.0f}</text>'
        )
    ends = [placed.row(0, named=True), *([placed.row(-1, named=True)] if placed.height > 1 else [])]
    lines += [
        f'<text x="{one["x"]}" y="{low + 20}" text-anchor="middle">{one["when"]} (run {one["run"]})</text>'
        for one in ends
    ]
    return "\n".join([*lines, _curve(placed, "efficiency", EFFICIENCY), _curve(placed, "time", TIME)])


def _curve(placed: pl.DataFrame, column: str, color: str) -> str:
    """Draw a dot for each run that has the figure, joined by a line. Pointing at a dot names the run."""
    known = placed.drop_nulls(column)
    points = " ".join(f"{x},{y}" for x, y in known.select("x", column).rows())
    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="3"><title>{escape(name)} (run {run}), {when}: {_value(ns)}'
        f"{_share(parallel)}</title></circle>"
        for x, y, name, run, when, ns, parallel in known.select(
            "x", column, "name", "run", "when", "iteration_ns", "parallel"
        ).rows()
    )
    return f'<g fill="{color}"><polyline points="{points}" fill="none" stroke="{color}"/>{dots}</g>'


def _value(ns: float | None) -> str:
    return "no iterations" if ns is None else f"{ns / 1e6:.3f} ms"


def _share(parallel: float | None) -> str:
    return "" if parallel is None else f", parallel {100 * parallel:.1f} %"
