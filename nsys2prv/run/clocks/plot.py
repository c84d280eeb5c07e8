"""Plot of residuals over time."""

from __future__ import annotations

from html import escape

import polars as pl

from nsys2prv.model.palette import PLOT_COLORS
from nsys2prv.run.clocks.alignment import Alignment

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 420, 90, 30, 60
# Points to draw of one host: more would show no more.
POINTS = 1500


def plot_svg(alignment: Alignment) -> str:
    """Draw each end of a collective at its time (s), with its residual (us), in the color of its host, as SVG."""
    hosts = list(dict.fromkeys(r.host for r in alignment.reports))
    names = pl.Series([r.host for r in alignment.reports], dtype=pl.String)
    rows = alignment.residuals
    points = rows.with_columns(host=names.gather(rows["report"])) if rows.height else rows
    body = _empty() if points.is_empty() else _points(points, hosts)
    legend = [
        f'<circle cx="{LEFT + 14 + 150 * (n % 5)}" cy="{HEIGHT + 14 + 18 * (n // 5)}" r="4" fill="{_color(n)}"/>'
        f'<text x="{LEFT + 24 + 150 * (n % 5)}" y="{HEIGHT + 18 + 18 * (n // 5)}">{escape(host)}</text>'
        for n, host in enumerate(hosts)
    ]
    height = HEIGHT + 30 + 18 * (len(hosts) // 5)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
            ' font-size="12"><rect width="100%" height="100%" fill="white"/>',
            f'<text x="{LEFT}" y="18">Residual of collective ends, reference {escape(alignment.reference)}</text>',
            *body,
            *legend,
            "</svg>\n",
        ]
    )


def _color(host: int) -> str:
    return PLOT_COLORS[host % len(PLOT_COLORS)].hex


def _empty() -> list[str]:
    return [f'<text x="{LEFT}" y="{HEIGHT / 2}">No collective is shared by two reports: nothing to compare.</text>']


def _points(points: pl.DataFrame, hosts: list[str]) -> list[str]:
    """Draw the axes and a dot for each residual. `points`: host, time and residual (ns)."""
    low, high = points.select(pl.col("time").min(), pl.col("time").max().alias("high")).row(0)
    # An outlier or two must not flatten all the others: they are drawn at the border.
    most = max(float(points["residual"].abs().quantile(0.99) or 0), 1_000.0)
    x = LEFT + (pl.col("time") - low) / max(high - low, 1) * (WIDTH - LEFT - 20)
    middle, half = (TOP + HEIGHT - BOTTOM) / 2, (HEIGHT - BOTTOM - TOP) / 2
    y = middle - (pl.col("residual") / most).clip(-1, 1) * half
    placed = points.select("host", x=x.round(1), y=y.round(1))
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{middle - s * half}" y2="{middle - s * half}" stroke="#ccc"/>'
        f'<text x="{LEFT - 8}" y="{middle - s * half + 4}" text-anchor="end">{s * most / 1e3:,.1f} us</text>'
        for s in (-1, -0.5, 0, 0.5, 1)
    ]
    lines += [
        f'<text x="{LEFT + p * (WIDTH - LEFT - 20)}" y="{HEIGHT - BOTTOM + 24}" text-anchor="middle">'
        f"{(low + p * (high - low)) / 1e9:.3f} s</text>"
        for p in (0, 0.25, 0.5, 0.75, 1)
    ]
    for number, host in enumerate(hosts):
        own = placed.filter(pl.col("host") == host)
        own = own.gather_every(max(own.height // POINTS, 1))
        dots = "".join(f'<circle cx="{a}" cy="{b}" r="2"/>' for _, a, b in own.rows())
        lines.append(f'<g fill="{_color(number)}" fill-opacity="0.6">{dots}</g>')
    return lines
