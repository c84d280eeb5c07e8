"""Match keys: numbers that are equal for all ends of one operation, in every report."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.model.frames import IDENTITY

KEY_LIMIT = 1 << 62

Keys = npt.NDArray[np.int64]


def end_keys(ends: pl.DataFrame, communicators: Sequence[str]) -> Keys:
    """Return a number in [0, KEY_LIMIT) for each end, evenly spread, and equal for ends that can belong together.

    A single report knows the communicator and the sequence number of both sides of a message, or the number that both
    have (IDENTITY). `communicators`: names of the members' communicators.
    """
    hashes = [int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") for name in communicators]
    mixed = np.array(hashes, dtype=np.uint64)[ends["member"].to_numpy()]
    known = [c for c in (IDENTITY, "sequence") if c in ends.columns]
    sequence = ends.select(pl.coalesce(*known, 0)).to_series().to_numpy()
    # splitmix64 (Steele, Lea, Flood 2014): neighbors in sequence get distant keys.
    mixed += sequence.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    keys: Keys = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)
    return keys
