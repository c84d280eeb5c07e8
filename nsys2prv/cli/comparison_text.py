"""A comparison of two runs as text for the terminal."""

from __future__ import annotations

import polars as pl

from nsys2prv.cli.text_table import aligned


def comparison_text(table: pl.DataFrame, top: int) -> str:
    """Return the figures as a table; of the kernels only the `top` ones that changed most."""
    of_kernels = pl.col("what").str.starts_with("kernel")
    # A kernel of only one run took no time in the other.
    change = (pl.col("b").fill_null(0) - pl.col("a").fill_null(0)).abs()
    kernels = table.filter(of_kernels).sort(change, "name", descending=[True, False]).head(top)
    shown = pl.concat([table.filter(~of_kernels), kernels])
    rows = [
        [what[:60], name[:60], _number(a), _number(b), _number(difference), "" if change is None else f"{change:+.1f}"]
        for what, name, a, b, difference, change in shown.rows()
    ]
    return aligned(["what", "name", "a", "b", "b - a", "change %"], rows)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value == round(value) and abs(value) >= 100 else f"{value:.4f}"
