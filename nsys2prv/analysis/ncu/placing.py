"""The place of the kernels of a profile among the launches of a process.

Nsight Compute numbers the kernels that it profiles in the order of their launches. With `--kernel-name`,
`--launch-skip` and `--launch-count` it leaves kernels out: the sequence of names, grids, blocks and registers is looked
for among the launches of kernels that have one of the profile's names.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.ncu.launches import SHAPE
from nsys2prv.intervals.spans import Indices
from nsys2prv.report.ncu.names import without_ranges

NOWHERE = -1
# Kernels without a place in launch order are those of the rank if it launched at least this share of them, too: else
# the file is of another program, or of another size of it.
LEAST_KNOWN = 0.5


class Placing(Enum):
    """Ways in which the kernels of a profile are placed among launches, in words for people."""

    IN_ORDER = "in launch order"
    AROUND = "in launch order, beyond those of the report"
    BY_OCCURRENCE = "by n-th occurrence: their order is not that of the launches"
    FEW = "in means alone: the rank launched few of them"
    MEANS_ALONE = "in means alone: another process of the file has the launches"
    NOWHERE = "nowhere: the reports have none of them"


class Placed(NamedTuple):
    """Kernels of a profile among the launches of a task.

    `at[n]` is the launch of the n-th kernel, NOWHERE without one. `known`: kernels of a name, grid, block and registers
    that the task launched, too. `places`: how many places fit (the first one counts).
    """

    at: Indices
    known: int
    how: Placing
    places: int = 0


def with_keys(profiled: pl.DataFrame, launches: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return kernels of a profile with `key`, the spelling of their names, and the column of launches to compare.

    Names may be whole (`key`), or functions alone (`short_key`, of `--print-kernel-base function`); NVTX ranges may
    stand before them.
    """
    found = {}
    for column in ("key", "short_key"):
        known = launches[column].unique().cast(pl.String).implode()
        inner = without_ranges(pl.col("key"))
        key = pl.when(~pl.col("key").is_in(known) & inner.is_in(known)).then(inner).otherwise("key")
        keyed = profiled.with_columns(key)
        found[column] = keyed, int(keyed["key"].is_in(known).sum())
    best = max(found, key=lambda column: found[column][1])
    return found[best][0], best


def place(profiled: pl.DataFrame, launches: pl.DataFrame, column: str) -> Placed:
    """Place the kernels of a profiled process among the launches of a task.

    `profiled`: `key` and SHAPE in the order of profiling; `launches`: ORDERED_LAUNCH; `column`: its column to compare
    `key` with.
    """
    launched, kernels = _numbered(profiled, launches, column)
    own, there = kernels.numbers, launched.numbers
    known = np.isin(own, there)
    if not known.any():
        return Placed(np.full(len(own), NOWHERE), 0, Placing.NOWHERE)
    if len(places := occurrences_of(own, there[launched.shared])):
        at = launched.shared[places[0] + np.arange(len(own))]
        return Placed(at, int(known.sum()), Placing.IN_ORDER, len(places))
    if known.mean() < LEAST_KNOWN:
        return Placed(np.full(len(own), NOWHERE), int(known.sum()), Placing.FEW)
    if len(places := occurrences_of(there[launched.shared], own[kernels.shared])):
        at = np.full(len(own), NOWHERE)
        at[kernels.shared[places[0] + np.arange(len(launched.shared))]] = launched.shared
        return Placed(at, int(known.sum()), Placing.AROUND, len(places))
    return Placed(_nth(own, there), int(known.sum()), Placing.BY_OCCURRENCE)


class _Numbered(NamedTuple):
    """Launches, or profiled kernels: a number for each, and the positions of those whose names the others share."""

    numbers: Indices
    shared: Indices


def _numbered(profiled: pl.DataFrame, launches: pl.DataFrame, column: str) -> tuple[_Numbered, _Numbered]:
    """Number launches and profiled kernels, those of one name and SHAPE alike.

    A shape that the profile lacks does not count.
    """
    shape = [c for c in SHAPE if profiled[c].null_count() < profiled.height]
    # Launches are many, kernels that differ are few.
    sorts, first = np.unique(launches["sort"].to_numpy(), return_index=True)
    distinct = launches[first]
    names = pl.concat([distinct[column].cast(pl.String), profiled["key"]])
    frame = pl.concat([distinct.select(shape), profiled.select(shape)]).with_columns(names.alias("key"))
    codes = frame.select(pl.struct(pl.all()).rank("dense").alias("code"))["code"].to_numpy().astype(np.int64)
    name = names.rank("dense").to_numpy()
    at = np.searchsorted(sorts, launches["sort"].to_numpy())
    count = len(sorts)
    alike, profiled_alike = np.isin(name[:count], name[count:])[at], np.isin(name[count:], name[:count])
    return (
        _Numbered(codes[:count][at], np.flatnonzero(alike)),
        _Numbered(codes[count:], np.flatnonzero(profiled_alike)),
    )


def occurrences_of(sequence: Indices, among: Indices) -> Indices:
    """Return the positions at which a sequence of numbers from 0 on stands among others, whole.

    Windows are compared by a polynomial hash modulo 2**64 over random numbers (Karp and Rabin, IBM J. Res. Dev. 31,
    1987). Only the first position is used: it is compared number by number, too.
    """
    length = len(sequence)
    if not 0 < length <= len(among):
        return np.zeros(0, dtype=np.int64)
    values = np.random.default_rng(0).integers(1, 2**63, int(max(sequence.max(), among.max())) + 1, dtype=np.uint64)
    powers = np.ones(len(among), dtype=np.uint64)
    powers[1:] = np.uint64(0x9E3779B97F4A7C15)
    powers = np.cumprod(powers, dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values[among] * powers, dtype=np.uint64)])
    own = np.sum(values[sequence] * powers[:length], dtype=np.uint64)
    found = np.flatnonzero(sums[length:] - sums[:-length] == own * powers[: len(among) - length + 1])
    while len(found) and not np.array_equal(among[found[0] : found[0] + length], sequence):
        found = found[1:]
    return found


def _nth(own: Indices, there: Indices) -> Indices:
    """Return for each number the position of the n-th like it, if it is the n-th itself."""
    frames = [
        pl.DataFrame({"code": codes}).with_row_index("at").with_columns(nth=pl.int_range(pl.len()).over("code"))
        for codes in (own, there)
    ]
    found = frames[0].join(frames[1], on=["code", "nth"], how="left", maintain_order="left")
    return found["at_right"].cast(pl.Int64).fill_null(NOWHERE).to_numpy()
