"""Steps of a clock that was set during the run: the differences between two units jump, and stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.run.clocks.estimate import Values, block_modes, theil_sen

# Lowest size of a jump, in ns and in multiples of the blocks' misfit. A jump must also make the fit this many times
# better. Anything less may be noise.
SMALLEST_STEP_NS = 50_000.0
STEP_MISFITS = 6.0
LEAST_MISFIT_RATIO = 3.0
# Number of blocks that a step needs on either side.
FEWEST_BLOCKS_BESIDE = 2


class Step(NamedTuple):
    """A step between units: `b` is later than `a` by `size` ns from `time` (UTC-aligned ns) on."""

    a: int
    b: int
    time: float
    size: float


class Jump(NamedTuple):
    """A unit whose clock is ahead by `size` ns from `time` on, or else the unit `other` is behind."""

    unit: int
    other: int | None
    time: float
    size: float


def find_step(time: Values, values: Values) -> tuple[float, float] | None:
    """Find time and size of the jump that explains the differences better than any drift; None if there is none.

    Two lines of one slope are fitted to the modes of blocks of time, split where they fit best. They are a jump if they
    fit several times better than a single line.
    """
    at, modes = block_modes(time, values)
    if len(at) < 2 * FEWEST_BLOCKS_BESIDE + 2:
        return None
    drift = modes - theil_sen(at, modes) * at
    if np.ptp(drift) < SMALLEST_STEP_NS / 2:
        return None
    places = range(FEWEST_BLOCKS_BESIDE, len(at) - FEWEST_BLOCKS_BESIDE + 1)
    size, misfit, place = min((_two_lines(at, modes, p) for p in places), key=lambda found: found[1])
    if abs(size) < max(SMALLEST_STEP_NS, STEP_MISFITS * misfit) or _misfit(drift) < LEAST_MISFIT_RATIO * misfit:
        return None
    return float(at[place - 1] + at[place]) / 2, size


def _misfit(levels: Values) -> float:
    return float(np.mean(np.abs(levels - np.median(levels))))


def _two_lines(at: Values, modes: Values, place: int) -> tuple[float, float, int]:
    """Return the jump between the blocks before and from `place` on, the misfit of two parallel lines, and `place`."""
    after = np.arange(len(at)) >= place
    level = modes - theil_sen(at, modes, after.astype(np.int64)) * at
    low, high = float(np.median(level[~after])), float(np.median(level[after]))
    return high - low, float(np.mean(np.abs(level - np.where(after, high, low)))), place


def attribute(steps: Sequence[Step]) -> list[Jump]:
    """Attribute each step to one unit: the one that all its pairs have in common, or the second of a lone pair."""
    left, jumps = list(steps), []
    while left:
        unit, count = Counter(u for s in left for u in (s.b, s.a)).most_common(1)[0]
        own = [s for s in left if unit in (s.a, s.b)]
        size = float(np.median([s.size if s.b == unit else -s.size for s in own]))
        time = float(np.median([s.time for s in own]))
        other = own[0].a if own[0].b == unit else own[0].b
        jumps.append(Jump(unit, other if count == 1 else None, time, size))
        left = [s for s in left if s not in own]
    return jumps


def longer_side(anchors: pl.DataFrame, jumps: Sequence[Jump]) -> pl.DataFrame:
    """Drop the anchors of a unit on the side of its jump where it has fewer."""
    for jump in jumps:
        own, late = pl.col("unit") == jump.unit, pl.col("end") > round(jump.time)
        after = anchors.filter(own & late).height
        before = anchors.filter(own).height - after
        anchors = anchors.filter(~own | (late if after > before else ~late))
    return anchors


def describe(jump: Jump, names: Sequence[str]) -> str:
    """Return the warning of a jump."""
    who = names[jump.unit] if jump.other is None else f"{names[jump.other]} or {names[jump.unit]}"
    return (
        f"the clock of {who} steps by {abs(jump.size) / 1e3:,.0f} us about {jump.time / 1e9:.3f} s after the first "
        "session's start: it is aligned by the side with more anchors, and the other side is off by the step"
    )
