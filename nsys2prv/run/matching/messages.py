"""Matching across ranks: sends with their receives, collectives with those of the other ranks.

All functions work on ends of any reports together (columns of JOINED). Which of them come together does not matter, as
long as those of one key do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from nsys2prv.families.mpi.mpi import FAMILY as MPI
from nsys2prv.families.nccl.nccl import FAMILY as NCCL
from nsys2prv.model.event_types import NCCL_OPERATION
from nsys2prv.model.frames import COLLECTIVE, RECEIVE, SEND
from nsys2prv.model.function_numbers import MPI_VALUES
from nsys2prv.model.losses import Loss
from nsys2prv.run.matching.arrivals import with_operation
from nsys2prv.run.matching.communicators import UNKNOWN_NUMBER

# Ends of all reports: family, kind, communicator, rank (on it), peer, tag, sequence, operation, size, time, began and
# ended (merged ns), row (of the trace), task, device and identified (see Communicators). On identified communicators
# `sequence` is the number that all ends of an operation or message have.
JOINED = {
    "family": pl.String(),
    "kind": pl.UInt8(),
    "communicator": pl.Int64(),
    "rank": pl.Int64(),
    "peer": pl.Int64(),
    "tag": pl.Int64(),
    "sequence": pl.Int64(),
    "operation": pl.Int64(),
    "size": pl.Int64(),
    "time": pl.Int64(),
    "began": pl.Int64(),
    "ended": pl.Int64(),
    "row": pl.Int64(),
    "task": pl.Int64(),
    "device": pl.Int64(),
    "identified": pl.Boolean(),
}
MESSAGE_KEY = ("communicator", "source", "target", "tag", "sequence")
# Highest tag of a line: a 32-bit number. Tags of messages may be higher.
HIGHEST_LINE_TAG = 2**31 - 1
# Number of mismatches of a run that are listed one by one.
MOST_MISMATCHES_TOLD = 5
UNMATCHED = {SEND: Loss.NO_RECEIVE, RECEIVE: Loss.NO_SEND}


@dataclass(slots=True)
class MatchCounts:
    """Counts of matching: messages drawn by family, ends left over by family and loss, mismatched collectives."""

    messages: dict[str, int] = field(default_factory=dict)
    left: dict[tuple[str, Loss], int] = field(default_factory=dict)
    operations: int = 0
    # (communicator, sequence, what differs), the first ones of all.
    mismatches: list[tuple[int, int, str]] = field(default_factory=list)
    mismatched: int = 0

    def add(self, other: MatchCounts) -> None:
        """Add the counts of other ends."""
        for family, n in other.messages.items():
            self.messages[family] = self.messages.get(family, 0) + n
        for key, n in other.left.items():
            self.left[key] = self.left.get(key, 0) + n
        self.operations += other.operations
        self.mismatched += other.mismatched
        self.mismatches = sorted(self.mismatches + other.mismatches)[:MOST_MISMATCHES_TOLD]

    def draw(self, messages: pl.DataFrame) -> None:
        """Count drawn messages."""
        for family, n in messages.group_by("family").len().rows():
            self.messages[family] = self.messages.get(family, 0) + n

    def leave(self, ends: pl.DataFrame, loss: Loss) -> None:
        """Count ends that are left over."""
        for family, n in ends.group_by("family").len().rows():
            self.left[family, loss] = self.left.get((family, loss), 0) + n


def match_messages(ends: pl.DataFrame) -> tuple[pl.DataFrame, MatchCounts]:
    """Join ends (JOINED) to messages: family, time, row, received, to_row, size, tag. No end is matched twice.

    Return also how many ends are in none of them, by family and loss: of unknown rank or peer, of a message that
    another end claims, without their other end.
    """
    counts = MatchCounts()
    sides = ends.filter(pl.col("kind").is_in([SEND, RECEIVE]))
    known = sides.filter(pl.col("rank") != UNKNOWN_NUMBER)
    counts.leave(sides.filter(pl.col("rank") == UNKNOWN_NUMBER), Loss.NO_RANK)
    is_send = pl.col("kind") == SEND
    numbered = with_operation(known)
    # An end that lacks a value of the key equals no other end, and not even itself.
    lacking = pl.any_horizontal(pl.col(MESSAGE_KEY).is_null())
    counts.leave(numbered.filter(lacking), Loss.NO_PEER)
    ordered = numbered.filter(~lacking).sort("task", "row", "time", "size")
    is_first = ordered.select(pl.struct("kind", *MESSAGE_KEY).is_first_distinct()).to_series()
    once = ordered.filter(is_first)
    counts.leave(ordered.filter(~is_first), Loss.CLAIMED_TWICE)
    sends = once.filter(is_send)
    receives = once.filter(~is_send)
    other = receives.select(*MESSAGE_KEY, received="time", to_row="row", received_size="size")
    messages = sends.join(other, on=MESSAGE_KEY, how="inner")
    for kind, side, opposite in ((SEND, sends, receives), (RECEIVE, receives, sends)):
        counts.leave(side.join(opposite, on=MESSAGE_KEY, how="anti"), UNMATCHED[kind])
    # A receive's size may be that of its buffer.
    size = pl.coalesce("size", "received_size", 0).alias("size")
    tag = pl.col("tag").clip(upper_bound=HIGHEST_LINE_TAG)
    return messages.select("family", "time", "row", "received", "to_row", size, tag), counts


def check_collectives(ends: pl.DataFrame, ranks: Sequence[int]) -> MatchCounts:
    """Compare each collective over its ranks: operation, root, size, and number of ranks.

    `ranks` of each communicator (0: not known).
    """
    collectives = ends.filter((pl.col("kind") == COLLECTIVE) & (pl.col("device") != UNKNOWN_NUMBER))
    key = ["family", "communicator", "sequence"]
    compared = collectives.group_by(key).agg(
        pl.col("operation").drop_nulls().unique().sort(),
        sizes=pl.col("size").drop_nulls().unique().sort(),
        roots=pl.col("peer").drop_nulls().unique().sort(),
        present=pl.struct("task", "device").n_unique(),
    )
    counts = MatchCounts(operations=compared.height)
    of_all = pl.col("communicator").replace_strict(dict(enumerate(ranks)), default=0, return_dtype=pl.Int64)
    wrong = compared.with_columns(ranks=of_all).filter(
        (pl.col("operation").list.len() > 1)
        | (pl.col("sizes").list.len() > 1)
        | (pl.col("roots").list.len() > 1)
        | (pl.col("present") < pl.col("ranks"))
    )
    counts.mismatched += wrong.height
    for row in wrong.sort(key).head(MOST_MISMATCHES_TOLD).rows(named=True):
        counts.mismatches.append((row["communicator"], row["sequence"], _difference(row)))
    return counts


def mismatch_warnings(counts: MatchCounts, names: Sequence[str]) -> list[str]:
    """Warn of collectives that differ between ranks; `names` of the communicators."""
    # Numbers that all ranks have are unsigned ones of 64 bits.
    warnings = [f"collective {k % 2**64} of communicator {names[c]}: {what}" for c, k, what in counts.mismatches]
    if (more := counts.mismatched - len(warnings)) > 0:
        warnings.append(f"{more} more collectives differ between ranks; did all reports begin at the same operation?")
    return warnings


_OPERATION_NAMES: Mapping[str, Mapping[int, str]] = {NCCL.name: NCCL_OPERATION.values, MPI.name: MPI_VALUES}


def _difference(row: Mapping[str, object]) -> str:
    """Describe the difference between the ranks of one collective."""
    operations, sizes, roots = row["operation"], row["sizes"], row["roots"]
    assert isinstance(operations, list)
    assert isinstance(sizes, list)
    assert isinstance(roots, list)
    names = [_OPERATION_NAMES.get(str(row["family"]), {}).get(o, str(o)) for o in operations]
    texts = [" or ".join(names) if names else "operation"]
    if len(sizes) > 1:
        texts.append(f"of {' or '.join(map(str, sizes))} bytes")
    if len(roots) > 1:
        texts.append(f"with root {' or '.join(map(str, roots))}")
    texts.append(f"on {row['present']} of {row['ranks'] or '?'} ranks")
    return " ".join(texts)
