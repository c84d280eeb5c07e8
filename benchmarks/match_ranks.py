"""Match a synthetic run of many ranks and say what it took: `python benchmarks/match_ranks.py [RANKS] [OPERATIONS]`.

Of each rank's operations a half are collectives of all ranks, a quarter collectives of its node of eight, and the rest
messages around a ring: as many sends to the next rank as receives from the one before.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.model.frames import COLLECTIVE, OPERATION_END, RECEIVE, SEND
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.pipeline.match.match import MatchedPartition, match, partition_borders
from nsys2prv.pipeline.match.sequences import MatchKeys
from nsys2prv.pipeline.match.waiting import store_waiting
from nsys2prv.pipeline.store.points import Points
from nsys2prv.pipeline.store.spill import SpillOf, read_spill, write_spill
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.run.clocks import Clock
from nsys2prv.run.matching.communicators import SOLE_MEMBER, Communicators
from nsys2prv.run.matching.match_keys import end_keys
from nsys2prv.run.matching.messages import MatchCounts

ON_NODE = 8
STEP_NS = 1000


def ends_of(rank: int, ranks: int, operations: int) -> pl.DataFrame:
    """One rank's ends: members 0 and 1 are the world and the node."""
    world, node, each = operations // 2, operations // 4, operations // 8
    kinds: list[tuple[int, int, int, int | None]] = [(COLLECTIVE, 0, world, None), (COLLECTIVE, 1, node, None)]
    kinds += [(SEND, 0, each, (rank + 1) % ranks), (RECEIVE, 0, each, (rank - 1) % ranks)]
    parts = []
    for kind, member, count, peer in kinds:
        sequence = np.arange(1, count + 1)
        part = pl.DataFrame({"sequence": sequence}).with_columns(
            kind=pl.lit(kind),
            member=pl.lit(member),
            peer=pl.lit(peer, pl.Int64),
            tag=pl.lit(0),
            operation=pl.lit(1),
            size=pl.lit(1024),
            time=pl.col("sequence") * STEP_NS + (kind == RECEIVE) * STEP_NS // 2,
            # Ranks come one after the other: all wait for the last of them.
            began=pl.col("sequence") * STEP_NS + rank % ON_NODE,
            ended=pl.col("sequence") * STEP_NS + STEP_NS // 2,
            place=pl.lit(0),
        )
        parts.append(part.select(pl.col(c).cast(t) for c, t in OPERATION_END.items()))
    return pl.concat(parts)


def synthetic(folder: Path, ranks: int, operations: int) -> tuple[Any, MatchKeys]:
    """Make what matching needs of a plan, and store the match keys of one report a rank in the folder."""
    ends_of_ranks = []
    for rank in range(ranks):
        ends = ends_of(rank, ranks, operations)
        keys = end_keys(ends, ["world", f"node {rank // ON_NODE}"])
        keyed = ends.with_columns(pl.Series("key", keys)).sort("key")
        spill = write_spill(folder / f"{rank}.arrow", SpillOf("ends", "nccl"), Points(keyed), DEFAULT_LIMITS.batch_rows)
        ends_of_ranks.append((spill,))
    nodes = -(-ranks // ON_NODE)
    members = np.array([min(ON_NODE, ranks - ON_NODE * n) for n in range(nodes)])
    known = Communicators(
        names=("world", *(f"node {n}" for n in range(nodes))),
        ranks=np.array([ranks, *members]),
        number=tuple(np.array([0, 1 + r // ON_NODE]) for r in range(ranks)),
        rank=tuple(np.array([r, r % ON_NODE]) for r in range(ranks)),
        task=tuple(np.array([r, r]) for r in range(ranks)),
        device=tuple(np.array([SOLE_MEMBER, SOLE_MEMBER]) for _ in range(ranks)),
        identified=np.zeros(1 + nodes, dtype=np.bool_),
        called=tuple(np.ones(2, dtype=np.bool_) for _ in range(ranks)),
        counted={},
    )
    plan = SimpleNamespace(
        communicators=known,
        clocks=[Clock(0, 0)] * ranks,
        objects=SimpleNamespace(row_of=[np.array([r]) for r in range(ranks)]),
        duration=(operations + 1) * STEP_NS,
    )
    return plan, MatchKeys(tuple(ends_of_ranks), ())


def matched(plan: Any, keys: MatchKeys, folder: Path, limits: Limits) -> Iterator[tuple[MatchedPartition, int]]:
    """Results of each partition, and how many messages it has by sender, receiver and time."""
    borders = partition_borders(keys, limits)
    for number in range(len(borders) - 1):
        result = match(plan, keys, borders, folder, limits, True, number)
        messages = [read_spill(spill, range(len(spill.first))) for spill in result.messages]
        yield result, sum(m.select("row", "to_row", "time").n_unique() for m in messages)


class Found(NamedTuple):
    """Counts of matching, distinct messages by sender and time, partitions, and points of waiting events."""

    counts: MatchCounts
    messages: int
    partitions: int
    waiting: int


def run(ranks: int, operations: int, limits: Limits = DEFAULT_LIMITS) -> Found:
    """Match a synthetic run, with its waits."""
    total, distinct, arrivals = MatchCounts(), 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan, keys = synthetic(folder, ranks, operations)
        for result, messages in matched(plan, keys, folder, limits):
            total.add(result.counts)
            distinct += messages
            arrivals.append(result.arrivals)
        workers = Workers(map, 1, folder, limits, Progress(quiet=True))
        waiting = store_waiting([spill for spill in arrivals if spill], plan.duration, workers)
    return Found(total, distinct, len(arrivals), sum(spill.rows for spill in waiting))


def main(ranks: int = 1024, operations: int = 10_000) -> None:
    """Print what matching took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    counts, distinct, parts, waiting = run(ranks, operations)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{ranks} ranks, {operations} operations each: {distinct:,} messages, {counts.operations:,} collectives,")
    print(f"{waiting:,} points of waiting events,")
    print(f"{sum(counts.left.values())} ends left, {counts.mismatched} mismatches, {parts} partitions,")
    peak = f"peak {after / 1024:.0f} MiB, of it {before / 1024:.0f} at the start"
    print(f"{seconds:.1f} s (making the ends included), {peak}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
