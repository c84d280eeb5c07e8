"""Ranks without devices have shares of work, too: the time of their hosts outside of MPI."""

from __future__ import annotations

import polars as pl
import pytest
from programs import ROWS, UNIT, findings_of, program

from nsys2prv.analysis.frames import TEXT, Run


def hosts(*arrivals: int, before: str = "") -> Run:
    """Ranks that work until they come to a collective (units of 10 us), and then again; all leave it at 105.

    `before`: a call of the last rank in its work.
    """
    lines = [f"{n}| n @{at} {at}-105, mpi:MPI_Allreduce {at}-105" for n, at in enumerate(arrivals)]
    run = program("\n".join(lines) + before, every=106)
    of_mpi = run.parts.with_columns(row=ROWS * pl.col("task"), family=pl.lit("mpi", TEXT))
    return run._replace(work=run.work.clear(), devices=(), parts=of_mpi)


def test_shares_of_hosts_are_balanced_to_the_mean_of_their_work() -> None:
    found = findings_of(hosts(40, 50, 50, 100))
    uneven = found["imbalance"]
    assert "late-rank" not in found
    assert uneven.ranks == (3,)
    assert "Rank 3 works" in uneven.title
    # 100 less the mean of 40, 50, 50 and 100. The work before the first of six calls has no begin.
    assert uneven.cost_ns == pytest.approx(40 * UNIT * 5 / 6, rel=0.05)
    assert uneven.evidence["worked_ns"] - uneven.evidence["mean_worked_ns"] == pytest.approx(40 * UNIT, rel=0.05)


def test_equal_shares_and_named_calls_are_no_imbalance() -> None:
    assert "imbalance" not in findings_of(hosts(100, 100, 100, 100))
    sleeps = hosts(40, 50, 50, 100, before=", os:nanosleep 40-99")
    found = findings_of(sleeps)
    assert "imbalance" not in found
    assert "`nanosleep`" in found["late-rank"].title
