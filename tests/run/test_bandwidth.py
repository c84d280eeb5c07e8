"""Bandwidths are those of nccl-tests."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from nsys2prv.families.nccl.bandwidth import bandwidths
from nsys2prv.model.event_types import NCCL_OPERATION

NUMBER = {name: n for n, name in NCCL_OPERATION.values.items()}


@pytest.mark.parametrize(
    ("operation", "ranks", "algorithm", "bus"),
    [
        ("AllReduce", 4, 1000, 1500),
        ("AllGather", 4, 4000, 3000),
        ("ReduceScatter", 8, 8000, 7000),
        ("Broadcast", 4, 1000, 1000),
        ("Send and Recv", 0, 1000, 1000),
        ("AllReduce", 0, 1000, None),
        ("AllGather", 0, None, None),
        ("Several", 4, None, None),
    ],
)
def test_bandwidths_of_1000_bytes_a_second(operation: str, ranks: int, algorithm: int | None, bus: int | None) -> None:
    found = bandwidths(pl.Series([1000]), pl.Series([NUMBER[operation]]), np.array([ranks]))
    assert [f.to_list() for f in found] == [[algorithm], [bus]]
