"""The SM clock beside metrics that are shares of its cycles.

Such a sample is a ratio of cycles, and the clock falls by a tenth or more while tensor cores work: in a sample that
holds several kernels each weighs by its cycles, not by its time. Times the clock, samples add up by time again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nsys2prv.analysis.frames import Pieces, Sampled
from nsys2prv.analysis.metrics.nnls import Floats
from nsys2prv.intervals.spans import Times
from nsys2prv.model.metric_names import CLOCK, holds_any


def with_clocks(samples: Sequence[Sampled], texts: Sequence[str]) -> tuple[Sampled, ...]:
    """Return the metrics whose names contain a text, with the clock of their GPU where they count its cycles."""
    clocks = {s.device: s.pieces for s in samples if CLOCK in s.metric.lower()}
    return tuple(
        s._replace(clock=clocks.get(s.device) if counts_cycles(s.metric) else None)
        for s in samples
        if holds_any(s.metric, texts)
    )


def counts_cycles(metric: str) -> bool:
    """Return True for shares of SM cycles; memory and links have clocks of their own."""
    name = metric.lower()
    return name.startswith(("sm ", "sms ", "tensor ")) or "warps in flight" in name


def clock_at(clock: Pieces | None) -> Callable[[Times], Floats]:
    """Return a function from times, which must not fall from call to call, to the clock.

    Its unit is the usual clock of the first samples above 0: a clock that stands reads 0. Without a clock it is 1.
    """
    if clock is None:
        return lambda times: np.ones(len(times))
    pieces = clock()
    held_time, held_value = np.zeros(0, np.int64), np.zeros(0)
    unit = 0.0

    def at(times: Times) -> Floats:
        nonlocal held_time, held_value, unit
        while not unit or held_time[-1] < times[-1]:
            piece = next(pieces, None)
            if piece is None:
                break
            held_time = np.concatenate([held_time, piece[0]])
            held_value = np.concatenate([held_value, piece[1].astype(np.float64)])
            if not unit and len(running := held_value[held_value > 0]):
                unit = float(np.median(running))
            elif not unit:
                # All are 0 until here, which the last one says as well.
                held_time, held_value = held_time[-1:], held_value[-1:]
        if not unit:
            return np.ones(len(times))
        found = np.maximum(np.searchsorted(held_time, times, side="right") - 1, 0)
        values = held_value[found] / unit
        held_time, held_value = held_time[found[-1] :], held_value[found[-1] :]
        return values

    return at
