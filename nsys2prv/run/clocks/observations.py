"""Observations of each pair of units from the anchors. A unit has one clock: a host, or a report of its own.

An operation's end on a unit is that of its first rank to leave: a rank's own delay makes its end late, never early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.intervals.spans import Times
from nsys2prv.model.frames import ANCHOR
from nsys2prv.run.clocks.clock import Clock
from nsys2prv.run.clocks.renumbering import renumbered

# Number of operations compared for one pair of units, and number of spans that keep their tightest bounds.
PER_PAIR = 512
BOUND_SPANS = 32


class Pair(NamedTuple):
    """Ends of common operations on units `a` and `b` (UTC-aligned ns), and ns since each unit's epoch."""

    a: int
    b: int
    end_a: Times
    end_b: Times
    elapsed_a: Times
    elapsed_b: Times


def shared_anchors(anchors: Sequence[pl.DataFrame], clocks: Sequence[Clock]) -> pl.DataFrame:
    """Collect the anchors of all reports: report, kind, group (communicator), operation, start, end, origin.

    Times are UTC-aligned ns; `origin` is the session start. Operations and messages that only one report has are left
    out.
    """
    parts = [pl.DataFrame(schema={"report": pl.Int64(), "origin": pl.Int64(), **ANCHOR})]
    for report, (rows, clock) in enumerate(zip(anchors, clocks, strict=True)):
        to_utc = clock.offset - clock.start
        parts.append(
            rows.select(
                pl.lit(report, pl.Int64).alias("report"),
                pl.lit(clock.offset, pl.Int64).alias("origin"),
                *(pl.col(c) + to_utc if c in ("start", "end") else pl.col(c) for c in ANCHOR),
            )
        )
    rows = renumbered(pl.concat(parts)).with_columns(group=pl.col("communicator").rank("dense").cast(pl.Int64))
    rows = rows.with_columns(operation=pl.col("group") * (1 << 40) + pl.col("sequence"))
    shared = pl.col("report").n_unique().over("operation") > 1
    return rows.filter(shared).drop("communicator", "sequence", "ranks")


def by_unit(anchors: pl.DataFrame, kinds: Sequence[str]) -> pl.DataFrame:
    """Reduce operations to units: group, operation, unit, first end and last start, and the unit's epoch.

    `anchors`: of shared_anchors, with the `unit` of each report and its `epoch` (ns).
    """
    chosen = anchors.filter(pl.col("kind").is_in(kinds))
    return chosen.group_by("group", "operation", "unit").agg(
        pl.col("end").min(), pl.col("start").max(), pl.col("epoch").first()
    )


def chosen_pairs(operations: pl.DataFrame) -> pl.DataFrame:
    """Choose pairs of units to compare, a < b: in each communicator those 1, 2, 4, ... apart in a circle.

    With few units that is every pair; with many, enough pairs for a well connected graph.
    """
    members = operations.group_by("group").agg(pl.col("unit").unique().sort())["unit"].unique()
    pairs = {
        (min(u[i], u[(i + s) % len(u)]), max(u[i], u[(i + s) % len(u)]))
        for u in (m.to_list() for m in members)
        for s in (1 << n for n in range(max(len(u) - 1, 0).bit_length()))
        for i in range(len(u))
    }
    rows = sorted((a, b) for a, b in pairs if a != b)
    return pl.DataFrame(rows, schema={"a": pl.Int64(), "b": pl.Int64()}, orient="row")


def common(operations: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Join the operations of both units of each pair: the columns of by_unit with `_a` and `_b`."""
    columns = ["end", "start", "epoch"]
    one, other = (operations.select("operation", "unit", *(pl.col(c).alias(c + s) for c in columns)) for s in _SIDES)
    return pairs.join(one, left_on="a", right_on="unit").join(
        other, left_on=["b", "operation"], right_on=["unit", "operation"]
    )


_SIDES = ("_a", "_b")


def pairs_of(rows: pl.DataFrame) -> Iterator[Pair]:
    """Yield pairs from the rows of `common`: at most PER_PAIR operations each, evenly in time."""
    ordered = rows.sort("a", "b", "end_a")
    place = pl.int_range(pl.len()).over("a", "b")
    step = (pl.len().over("a", "b") / PER_PAIR).ceil().cast(pl.Int64)
    for part in ordered.filter(place % step == 0).partition_by("a", "b", maintain_order=True):
        time = {c: part[c].to_numpy() for c in ("end_a", "end_b", "epoch_a", "epoch_b")}
        yield Pair(
            part["a"][0],
            part["b"][0],
            time["end_a"],
            time["end_b"],
            time["end_a"] - time["epoch_a"],
            time["end_b"] - time["epoch_b"],
        )


def bounds(rows: pl.DataFrame, anchors: pl.DataFrame) -> pl.DataFrame:
    """Return the order that causality demands: `sooner` and `later` (units), times and times since the epochs, all ns.

    Nobody leaves a collective before the last has entered, and nothing is received before it was sent. Of each pair and
    direction the tightest in each of BOUND_SPANS spans of time.
    """
    sides = [
        rows.select(
            sooner=u,
            later=v,
            sooner_at=f"start_{u}",
            sooner_elapsed=pl.col(f"start_{u}") - pl.col(f"epoch_{u}"),
            later_at=f"end_{v}",
            later_elapsed=pl.col(f"end_{v}") - pl.col(f"epoch_{v}"),
        )
        for u, v in (("a", "b"), ("b", "a"))
    ]
    found = pl.concat([*sides, _messages(anchors)]).filter(pl.col("sooner") != pl.col("later"))
    if found.is_empty():
        return found
    first = found["sooner_at"].to_numpy().min()
    width = int(np.ptp(found["sooner_at"].to_numpy())) // BOUND_SPANS + 1
    spans = found.with_columns(
        span=pl.Series((found["sooner_at"].to_numpy() - first) // width), slack=pl.col("later_at") - pl.col("sooner_at")
    )
    return spans.sort("slack").unique(["sooner", "later", "span"], keep="first", maintain_order=True)


def _messages(anchors: pl.DataFrame) -> pl.DataFrame:
    """Return the messages with both ends, once each."""
    sent, received = (anchors.filter(pl.col("kind") == k).unique("operation", keep="none") for k in ("send", "recv"))
    both = sent.join(received, on="operation", suffix="_r")
    return both.select(
        sooner="unit",
        later="unit_r",
        sooner_at="start",
        sooner_elapsed=pl.col("start") - pl.col("epoch"),
        later_at="end_r",
        later_elapsed=pl.col("end_r") - pl.col("epoch_r"),
    )
