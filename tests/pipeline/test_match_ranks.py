"""A synthetic run of many ranks matches whole, whatever the size of a partition."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from nsys2prv.model.limits import DEFAULT_LIMITS, Limits

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "match_ranks.py"


@pytest.mark.parametrize("partition_ends", [DEFAULT_LIMITS.match_rows, 1000])
def test_every_rank_of_a_ring_matches(partition_ends: int) -> None:
    """Full size: `python benchmarks/match_ranks.py`."""
    found = runpy.run_path(str(BENCHMARK))["run"](32, 400, Limits(match_rows=partition_ends))
    counts, distinct, parts, waiting = found
    assert parts == -(-32 * 400 // partition_ends)
    assert distinct == 32 * 50, "one message for each send"
    assert counts.operations == 200 + 4 * 100, "of the world, and of four nodes"
    # Each of 32 rows has 200 activities that carry one to four operations; all but every eighth row wait.
    assert waiting == 32 * 200 * 2 + 28 * 200 * 2
    assert (counts.left, counts.mismatched) == ({}, 0)
