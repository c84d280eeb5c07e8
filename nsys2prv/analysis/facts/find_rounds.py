"""Rounds: short sequences of kernels that a stream repeats many times, as in a loop over rows, cells or time steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.thresholds import LONGEST_ROUND, MANY_ROUNDS
from nsys2prv.intervals.spans import Indices


class Rounds(NamedTuple):
    """Rounds of the same kernels in a row: how many kernels a round has, and all rounds together.

    `first`: the position of the first kernel among all kernels, in order.
    """

    length: int
    kernels: int
    first: int


def rounds_of_streams(ordered: pl.DataFrame) -> tuple[Rounds, ...]:
    """Return the rounds that streams repeat in an iteration. `ordered`: see kernels_in_order."""
    numbered = ordered.select(pl.col("name").to_physical(), pl.struct("device", "row", "repeat", "number").rle_id())
    return tuple(find_rounds(*(numbers.to_numpy() for numbers in numbered)))


def find_rounds(kernel: Indices, group: Indices) -> list[Rounds]:
    """Find the rounds that repeat MANY_ROUNDS times in a row or more, each kernel in the shortest round that has it.

    `kernel`: what each is, in order; `group`: rounds are within one. A sequence repeats after n where each element
    equals the one n before it.
    """
    found, free = [], np.ones(len(kernel), dtype=bool)
    for length in range(1, round(LONGEST_ROUND.value) + 1):
        same = (kernel[length:] == kernel[:-length]) & (group[length:] == group[:-length])
        same &= free[length:] & free[:-length]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        begin, end = edges[::2], edges[1::2] + length
        long = end - begin >= MANY_ROUNDS.value * length
        for first, last in zip(begin[long].tolist(), end[long].tolist(), strict=True):
            free[first:last] = False
            found.append(Rounds(length, last - first, first))
    return found
