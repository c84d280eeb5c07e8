"""Runs made of anchors alone, whose clocks are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nsys2prv.model.frames import ANCHOR
from nsys2prv.report.identity import read_identity
from nsys2prv.report.tables import DTYPES
from nsys2prv.run.clocks import Alignment, align
from nsys2prv.run.hosts import find_hosts
from nsys2prv.run.report_summary import PLACE_USE, SAMPLE_EDGE, Summary

SECOND = 1_000_000_000
UTC = 1_795_000_000 * SECOND
EMPTY = pl.DataFrame(schema=ANCHOR)


@dataclass(frozen=True)
class Clocks:
    """What is wrong with a host: its clock is ahead by `ahead` ns and runs fast by `ppm`, from each session start."""

    ahead: int = 0
    ppm: float = 0.0


def summary(
    name: str,
    host: str,
    anchors: pl.DataFrame = EMPTY,
    utc: int | None = UTC,
    system: int | None = None,
    shift: int = 0,
    rank: int | None = None,
) -> Summary:
    """A report of which nothing is known but its clock and its anchors."""
    environment = {} if rank is None else {"RANK": str(rank)}
    nobody = read_identity(
        lambda table: pl.DataFrame(schema={n: DTYPES[c.kind] for n, c in table.columns.items()}), lambda: EMPTY
    )
    identity = nobody._replace(
        host=host, environment=environment, utc_epoch_ns=utc, time_shift_ns=shift, system_clock_ns=system
    )
    return Summary(
        path=Path(name), name=name, identity=identity, places=EMPTY, uses=pl.DataFrame(schema=PLACE_USE),
        edges=pl.DataFrame(schema=SAMPLE_EDGE), members=EMPTY, operation_ends=(), slots=(), rows_by_type={}, labels={},
        preferred={}, spills=(), counts={}, off={}, range_span=None, diagnostics=(), anchors=anchors,
    )  # fmt: skip


def collectives(
    leave: np.ndarray, duration: np.ndarray, communicator: str = "world", kind: str = "collective"
) -> pl.DataFrame:
    """One rank's part of a communicator's operations, by when it leaves them and how long it was in them (ns)."""
    return pl.DataFrame(
        {
            "kind": kind,
            "communicator": communicator,
            "sequence": np.arange(len(leave)),
            "ranks": None,
            "start": np.rint(leave - duration).astype(np.int64),
            "end": np.rint(leave).astype(np.int64),
        },
        schema=ANCHOR,
    )


def run(
    hosts: Sequence[Clocks],
    ranks_per_host: int = 2,
    operations: int = 200,
    span: float = 5.0,
    late: Callable[[np.random.Generator, int, int], np.ndarray] | None = None,
    communicators: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
) -> list[Summary]:
    """Ranks that leave each collective of `span` s together, up to 5 us apart and `late(dice, rank, count)` ns late.

    Every session of rank r starts 10 ms after that of rank r - 1. `communicators` are lists of ranks (all of them by
    default); each has its own operations.
    """
    dice = np.random.default_rng(seed)
    count = len(hosts) * ranks_per_host
    parts: list[list[pl.DataFrame]] = [[] for _ in range(count)]
    for number, members in enumerate(communicators or [range(count)]):
        instant = SECOND + np.sort(dice.uniform(0, span * SECOND, operations))
        for rank in members:
            clock, began = hosts[rank // ranks_per_host], rank * 10_000_000
            leave = instant + dice.uniform(0, 5_000, operations)
            leave += 0 if late is None else late(dice, rank, operations)
            # Whoever enters last is in for 20 us, others wait for up to 2 ms.
            waited = leave - instant + 20_000 + dice.uniform(0, 2_000_000, operations)
            fast = 1 + clock.ppm / 1e6
            parts[rank].append(collectives((leave - began) * fast, waited * fast, f"c{number}"))
    return [
        summary(
            f"rank{r}",
            f"host{r // ranks_per_host}",
            pl.concat(parts[r]) if parts[r] else EMPTY,
            UTC + r * 10_000_000 + hosts[r // ranks_per_host].ahead,
            rank=r,
        )
        for r in range(count)
    ]


def aligned(summaries: Sequence[Summary], how: str = "auto", **more: object) -> Alignment:
    """As the plan aligns them."""
    hosts = find_hosts([s.identity for s in summaries], [s.name for s in summaries], {})
    return align(summaries, hosts, how, **more)  # type: ignore[arg-type]
