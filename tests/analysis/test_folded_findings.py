"""Findings that tell one fault by two rules become one, which says in short what the other says."""

from __future__ import annotations

import pytest
from programs import ALL_BUSY, findings_of, program

from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.folded_findings import fold_same_host


def test_hosts_that_are_all_busy_are_told_once_with_the_one_that_is_slowest() -> None:
    found = findings_of(program(ALL_BUSY))
    assert "late-rank" not in found
    host_bound = found["host-bound"]
    assert host_bound.cost_ns / 1e6 == pytest.approx(7.1 - 2.8, rel=0.06)
    # No device has nothing to do for 4.55 ms: rank 1's has for 7.65, rank 0's for none.
    said = "Host-bound: rank 1's GPU has no work while the host is busy between launches, 7.65 ms an iteration, and "
    assert host_bound.title == f"{said}others wait for it: faster hosts gain 4.55 ms"
    assert host_bound.ranks == (1,)
    late = (
        "Rank 1's host work before `NCCL AllReduce` delays rank 0 by 6.90 ms an iteration, in 6 of 6 iterations; "
        "removing this delay gains about 2.80 ms, as other hosts are busy, too. "
    )
    assert host_bound.advice.startswith(f"{late}See what the host does")
    assert host_bound.spare[-1] == late
    assert host_bound.evidence["waiting_ranks"] == [0]


def test_a_late_rank_whose_host_is_the_reason_for_all_is_told_once() -> None:
    """Rank 1 is late by more than hosts cost beyond it."""
    late, bound = _of_one_host(9e6, 4e6)
    (told,) = fold_same_host([bound, late])
    assert (told.id, told.cost_ns, told.evidence["also"]) == ("late-rank", 9e6, "host-bound")
    assert told.advice == "Host-bound: rank 1's GPU has no work, 7.65 ms an iteration. See what rank 1 does."
    other = late._replace(ranks=(0,))
    assert fold_same_host([bound, other]) == [bound, other]
    single = late._replace(evidence={"phase": "load"})
    assert fold_same_host([bound, single]) == [bound, single]


def _of_one_host(late_ns: float, bound_ns: float) -> tuple[Finding, Finding]:
    """Return a `late-rank` and a `host-bound` of rank 1, with their costs."""
    title = "Host-bound: rank 1's GPU has no work, 7.65 ms an iteration, and others wait for it: faster hosts gain 4 ms"
    late = Finding(
        "late-rank",
        "Rank 1's `busy` delays rank 0",
        late_ns,
        "See what rank 1 does.",
        ranks=(1,),
        evidence={"waiting_ranks": [0]},
    )
    return late, Finding("host-bound", title, bound_ns, "See the host.", ranks=(1,))
