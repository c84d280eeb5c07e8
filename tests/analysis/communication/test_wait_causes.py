"""Causes of waiting on small drawn runs, and their sums on real ones."""

from __future__ import annotations

import polars as pl
import pytest
from pictures import US, drawn
from runs import SAMPLES

import nsys2prv
from nsys2prv.analysis.communication.wait_causes import wait_causes
from nsys2prv.analysis.communication.waiting import carried, find_exchanges
from nsys2prv.analysis.frames import RANGES, Run
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.iterations.phases import OCCURRENCE
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import one_span

# Rank 1 computes for 15 us longer.
COMPUTE = """
0| k @0 10-30, n @1 32-60
1| k @0 10-45, n @1 47-60
"""
# The host of rank 1 launches 15 us late.
LAUNCH = """
0| k @0 10-12, k @1 12-30, n @2 32-60
1| k @0 10-12, k @16 25-45, n @17 47-60
"""
# Rank 2 computes for 20 us longer, so rank 1 waits 20 us and comes late to the operation with rank 0. Rank 0 waits
# 25 us: two thirds for the computation, one for the 10 us of transfer to rank 1.
CHAIN = """
0| k @0 10-30, n2 @2 40-70
1| k @0 10-30, n1 @1 32-62, n2 @2 65-70
2| k @0 10-50, n1 @1 52-62
"""
# Rank 0 waits 10 us at each operation: rank 1 computed for 10 us longer before the first one and as long as rank 0
# before the second one, to which rank 0 comes as soon as the first one is over.
AHEAD = """
0| k @0 10-30, N @1 30-45, k @2 30-60, N @3 60-75
1| k @0 10-40, N @1 40-45, k @2 40-70, N @3 70-75
"""
# Ranks that only communicate: the host of rank 1 launches 15 us late.
ALONE = """
0| N @0 10-30, N @2 32-60
1| N @0 10-30, N @17 47-60
"""


def causes(run: Run, ranges: pl.DataFrame, steps: pl.DataFrame) -> list[tuple[int, str, str, int]]:
    operations = carried(run)
    graph, found = dependencies(run, operations), find_exchanges(run, operations)
    table = wait_causes(run, graph, found, ranges, steps, one_span(0, 100 * US))
    waited = found.select((pl.col("ready") - pl.col("start")).sum()).item()
    assert abs(table["ns"].sum() - waited) <= table.height
    return table.select("rank", "kind", "name", pl.col("ns") // US).rows()


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (COMPUTE, [(1, "compute", "kernel", 15)]),
        (LAUNCH, [(1, "host work", "load", 15)]),
        (CHAIN, [(2, "compute", "kernel", 36), (1, "transfer", "", 8)]),
        (AHEAD, [(1, "compute", "kernel", 20)]),
        (ALONE, [(1, "host work", "load", 15)]),
    ],
)
def test_causes_are_those_reasoned_by_hand(picture: str, expected: list[tuple[int, str, str, int]]) -> None:
    run = drawn(picture)
    spans = {"step 0": (0, 100), "load": (1, 15)}
    rows = [
        (rank, 2 * rank + 1, *(t * US for t in span), "", text) for rank in range(3) for text, span in spans.items()
    ]
    ranges = pl.DataFrame(rows, schema=RANGES, orient="row")
    steps = ranges.filter(pl.col("text") == "step 0").with_columns(number=0, repeat=0)
    run = run._replace(ranges=ranges)
    assert causes(run, ranges, steps.select(pl.col(c).cast(t) for c, t in OCCURRENCE.items())) == expected


def test_equal_ranks_cause_nothing() -> None:
    run = drawn("0| k @0 10-30, n @1 32-60\n1| k @0 10-30, n @1 32-60")
    assert causes(run, run.ranges, pl.DataFrame(schema=OCCURRENCE)) == []


@pytest.mark.parametrize("reports", ["gpt-ddp", "mpi-halo"])
@pytest.mark.parametrize("window", ["steady", "device", "trace"])
def test_all_waiting_is_charged(reports: str, window: str) -> None:
    found = nsys2prv.analyze(SAMPLES / reports, question=Question(window=window)).explanation
    waiting = found.waiting["waiting_ns"].sum() - found.exposed["unrecorded_ns"].sum()
    assert abs(found.causes["ns"].sum() - waiting) <= found.causes.height


def test_rank_3_of_mpi_halo_delays_the_others() -> None:
    found = nsys2prv.analyze(SAMPLES / "mpi-halo").explanation.causes
    assert found.row(0, named=True)["rank"] == 3
    assert found.filter(rank=3)["ns"].sum() > 0.7 * found["ns"].sum()
