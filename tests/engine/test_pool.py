"""`nsys2prv.engine.pool`: how processes share the cores."""

from __future__ import annotations

import os

import pytest

from nsys2prv.engine.pool import pool

CORES = os.sched_getaffinity(0)


@pytest.mark.skipif(len(CORES) == 1, reason="one core")
def test_as_many_workers_as_cores_have_one_each() -> None:
    with pool(len(CORES)) as mapped:
        own = list(mapped(os.sched_getaffinity, [0] * 3 * len(CORES)))
    assert {len(cores) for cores in own} == {1}
    assert set.union(*own) <= CORES


@pytest.mark.parametrize(("jobs", "parts"), [(len(CORES) + 1, None), (len(CORES) + 1, 1)])
def test_other_workers_share_all_cores(jobs: int, parts: int | None) -> None:
    with pool(jobs, parts) as mapped:
        assert list(mapped(os.sched_getaffinity, [0] * 2)) == [CORES] * 2
