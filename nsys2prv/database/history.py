"""Runs over time: as a table, as JSON, and as a plot."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from nsys2prv.database.plot import plot_svg

TIMES = ("began", "recorded")


class History(NamedTuple):
    """Runs over time. `runs`: a run a row, the oldest first; columns HISTORY, times in ns, efficiencies of 1."""

    runs: pl.DataFrame

    def as_json(self) -> dict[str, Any]:
        """Return the runs as JSON values, times as texts in UTC."""
        texts = self.runs.with_columns(pl.col(TIMES).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
        return {"runs": texts.to_dicts()}

    def as_svg(self) -> str:
        """Return a plot of iteration times and efficiencies over the runs as SVG, a panel a program."""
        return plot_svg(self.runs)
