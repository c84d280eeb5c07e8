"""Plot of the roofline of a run's classes of kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape

import polars as pl

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 560, 90, 220, 50, 60
# Colors that the color-blind can distinguish (Okabe and Ito).
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#000000", "#b8a800")
# Classes to draw, those of most time: more could not be told apart.
MOST_CLASSES = 16
# Radius of the class of all time.
RADIUS = 26.0
_EMPTY = "No class of kernels has operations and DRAM bytes: profile with --set roofline, or --set full."


def plot_svg(table: pl.DataFrame, roofs: Mapping[str, float]) -> str:
    """Draw ROOFLINE: operations a second over operations a byte, on logarithmic axes, a disk a class.

    A disk is as large as its class' share of the time. `roofs`: of the GPU (see roofline.roofs).
    """
    shown = table.filter((pl.col("flop_byte") > 0) & (pl.col("flop_s") > 0)).head(MOST_CLASSES)
    body = list(_body(shown, roofs)) if shown.height else [f'<text x="{LEFT}" y="{HEIGHT / 2}">{_EMPTY}</text>']
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif"'
            ' font-size="12"><rect width="100%" height="100%" fill="white"/>',
            f'<text x="{LEFT}" y="20" font-weight="bold">Roofline by class of kernels</text>',
            f'<text x="{LEFT}" y="36">each kernel alone under Nsight Compute, at its clocks</text>',
            *body,
            "</svg>\n",
        ]
    )


class _Axis:
    """A logarithmic axis over whole powers of ten, from pixel `first` to pixel `last`."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self.low, self.high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        self.high = max(self.high, self.low + 1)
        self.first, self.last = first, last

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.first + share * (self.last - self.first), 1)

    @property
    def powers(self) -> range:
        """Return the powers of ten of its ticks."""
        return range(self.low, self.high + 1)


def _body(shown: pl.DataFrame, roofs: Mapping[str, float]) -> Iterator[str]:
    dram = roofs.get("dram")
    pipes = {name: peak for name, peak in roofs.items() if name != "dram"}
    ridges = [peak / dram for peak in pipes.values()] if dram else []
    intensity, rate = shown["flop_byte"].to_list(), shown["flop_s"].to_list()
    x = _Axis(min(intensity), max([*intensity, *ridges]) * 1.01, LEFT, WIDTH - RIGHT)
    y = _Axis(min(rate), max([*rate, *pipes.values()]) * 1.01, HEIGHT - BOTTOM, TOP)
    yield from _axes(x, y)
    yield from _roof_lines(x, y, dram, pipes)
    total = max(sum(shown["ns"].to_list()), 1)
    for number, row in enumerate(shown.rows(named=True)):
        color, radius = COLORS[number % len(COLORS)], max(RADIUS * math.sqrt(row["ns"] / total), 3.0)
        name, percent = escape(row["class"]), 100 * row["ns"] / total
        at_x, at_y = x.at(row["flop_byte"]), y.at(row["flop_s"])
        said = f"{name}: {row['flop_s'] / 1e12:.3f} TFLOP/s, {row['flop_byte']:.2f} FLOP/byte, {percent:.1f} % of time"
        yield (
            f'<circle cx="{at_x}" cy="{at_y}" r="{radius:.1f}" fill="{color}" fill-opacity="0.5" stroke="{color}">'
            f"<title>{said}</title></circle>"
            f'<text x="{at_x}" y="{at_y + 4}" text-anchor="middle">{number + 1}</text>'
        )
        below = TOP + 8 + 20 * number
        yield (
            f'<circle cx="{WIDTH - RIGHT + 24}" cy="{below}" r="5" fill="{color}"/>'
            f'<text x="{WIDTH - RIGHT + 36}" y="{below + 4}">{number + 1} {name} {percent:.1f} %</text>'
        )


def _axes(x: _Axis, y: _Axis) -> Iterator[str]:
    for power in x.powers:
        at = x.at(10.0**power)
        yield (
            f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
            f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{10.0**power:g}</text>'
        )
    for power in y.powers:
        at = y.at(10.0**power)
        yield (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{10.0 ** (power - 12):g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 16}" text-anchor="middle">FLOP by byte of DRAM</text>'
    yield f'<text x="20" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 20 {HEIGHT / 2})">TFLOP/s</text>'


def _roof_lines(x: _Axis, y: _Axis, dram: float | None, pipes: Mapping[str, float]) -> Iterator[str]:
    """Yield the slope of DRAM up to the highest peak, and the peak of each kind of arithmetic from its ridge on."""
    right, top = 10.0**x.high, max(pipes.values(), default=0.0)
    if dram and top:
        first = max(10.0**x.low, 10.0**y.low / dram)
        last = min(right, top / dram)
        if first < last:
            ends = [(first, first * dram), (last, last * dram)]
            (x1, y1), (x2, y2) = ((x.at(a), y.at(b)) for a, b in ends)
            yield (
                f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="black"/>'
                f'<text x="{x1 + 6}" y="{y1 - 30}">DRAM {dram / 1e9:,.0f} GB/s</text>'
            )
    for name, peak in pipes.items():
        from_x = x.at(min(max(peak / dram, 10.0**x.low), right)) if dram else LEFT
        yield (
            f'<line x1="{from_x}" x2="{WIDTH - RIGHT}" y1="{y.at(peak)}" y2="{y.at(peak)}" stroke="black"/>'
            f'<text x="{WIDTH - RIGHT - 4}" y="{y.at(peak) - 4}" text-anchor="end">{name} {peak / 1e12:,.1f}</text>'
        )
