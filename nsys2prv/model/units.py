"""The unit of a figure, which its name says, and how figures are written in it."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """A unit: its sign, what figures are multiplied by to be in it, and digits behind the point."""

    sign: str
    scale: float
    digits: int

    def text(self, value: float) -> str:
        """Return a figure in the unit, without the sign."""
        # A scale below 1 is no exact number; what it divides by is.
        scaled = value * self.scale if self.scale >= 1 else value / round(1 / self.scale)
        return f"{scaled:z.{self.digits}f}"


MS, US = Unit("ms", 1e-6, 3), Unit("us", 1e-3, 3)
MB, GB_S = Unit("MB", 1e-6, 3), Unit("GB/s", 1, 3)
# Of figures in percent, and of fractions of 1.
PERCENT, FRACTION = Unit("%", 1, 1), Unit("%", 100, 1)
COUNT, FACTOR, NUMBER = Unit("", 1, 0), Unit("", 1, 4), Unit("", 1, 2)
# From here on a time has two digits that count in ms with three decimals (ns).
SHORTEST_IN_MS = 10_000
# Lower factors are not told, and from the other one on they are whole numbers: with three digits both have exponents.
LEAST_FACTOR, LEAST_WHOLE = 0.001, 999.5
# From so many times on, a change is told as a factor: percents of more than three digits are hard to read.
LONG_TIMES = 10

# Times of single calls, kernels and samples.
_SHORT = ("avg_ns", "med_ns", "p90_ns", "p99_ns", "min_ns", "max_ns", "stddev_ns", "wait_p50_ns", "wait_p90_ns",
          "wait_p99_ns", "call_p50_ns", "kernel_p50_ns", "period_ns")  # fmt: skip
_FRACTIONS = ("share", "waiting_share", "gain", "bubble", "ideal_bubble", "ideal")
_FACTORS = ("parallel", "load_balance", "communication", "orchestration", "serialization", "transfer", "r2",
            "r2_left_out", "value", "p", "level")  # fmt: skip
_NUMBERS = ("rank", "gpu", "gpu_waited_for", "iteration", "repeat", "waited_for", "stage", "pipeline", "span")
_BY_NAME = {
    **dict.fromkeys(_SHORT, US),
    **dict.fromkeys(_FRACTIONS, FRACTION),
    **dict.fromkeys(_FACTORS, FACTOR),
    **dict.fromkeys(_NUMBERS, COUNT),
    "replay_error_percent": Unit("%", 1, 2),
    "flop": Unit("GFLOP", 1e-9, 3),
    "flop_s": Unit("TFLOP/s", 1e-12, 3),
    "peak_flop_s": Unit("TFLOP/s", 1e-12, 1),
    "bytes_s": Unit("GB/s", 1e-9, 1),
    "peak_bytes_s": Unit("GB/s", 1e-9, 0),
}
# Of all other names: by the words at the end, which are of the unit alone.
_BY_END = {"ns": MS, "bytes": MB, "gb_s": GB_S, "percent": PERCENT}


def unit_of(name: str) -> Unit | None:
    """Return the unit of a figure; None for a name that says none, as that of a count or a text."""
    return _BY_NAME.get(name) or _BY_END.get(_end(name))


def words_of(name: str) -> str:
    """Return the name of a figure as words, without those of its unit; empty if it has no others."""
    return name.removesuffix(_end(name)).strip("_").replace("_", " ")


def head_of(name: str) -> str:
    """Return the head of a figure's column: its words and the sign of its unit."""
    unit = unit_of(name)
    return f"{words_of(name)} {unit.sign if unit else ''}".strip()


def text_ms(ns: float) -> str:
    """Return a time as text in ms, with three digits that count, or in us if it is short."""
    if 0 < ns < SHORTEST_IN_MS:
        return f"{ns / 1e3:.2f} us"
    value = ns / 1e6
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms" if value >= 0.1 else f"{value:.3f} ms"


def factor_text(value: float) -> str:
    """Return how many times as much something is as text with three digits that count, or whole from 1,000 up."""
    if value < LEAST_FACTOR:
        return f"under {LEAST_FACTOR:g}"
    return f"{value:.3g}" if value < LEAST_WHOLE else f"{value:,.0f}"


def change_text(share: float) -> str:
    """Return a change, a part of the earlier time, in percent; from LONG_TIMES on as how many times as long."""
    return f"{factor_text(1 + share)} times as long" if 1 + share >= LONG_TIMES else f"{100 * share:+.1f} %"


def bytes_text(count: int, digits: int = 1) -> str:
    """Return a size as text, such as `1.5 GB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.{digits}f} {unit}"
    return f"{count} B"


def _end(name: str) -> str:
    return next((end for end in _BY_END if name == end or name.endswith(f"_{end}")), "")
