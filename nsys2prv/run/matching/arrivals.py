"""Arrivals: when the last rank that an operation needs has come to it, and which rank that is.

A rank waits in a collective from its own begin to that of the last rank, in an NCCL message to that of the other side,
in an MPI receive to that of the sender. In MPI's rooted collectives, ranks wait for the root that sends to them, or the
root for the ranks that send to it. A blocking MPI send waits for a blocking receive if it lasts until that begins, as
one that hands over a large message, and for nobody if it only copies. A call that only begins a collective waits for
nobody. The call that completes it (MPI_Wait) waits until the last rank has begun the collective. The rules are
Scalasca's Wait at NxN, Wait at Barrier, Late Broadcast, Early Reduce, Late Sender and Late Receiver (Geimer et al.
2010, "The Scalasca performance toolset architecture").
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from nsys2prv.families.mpi.mpi import FAMILY as MPI
from nsys2prv.model.frames import COLLECTIVE, COMPLETION, OF_COLLECTIVES, RECEIVE, SEND
from nsys2prv.model.function_numbers import MPI_VALUES
from nsys2prv.run.matching.communicators import UNKNOWN_NUMBER

# Columns that are equal for all ends of one operation.
OPERATION = ("family", "communicator", "source", "target", "tag", "sequence")
# Roles of an activity in an operation: others wait for its rank, and its rank waits for others.
ROLES = {"awaited": pl.Boolean(), "waits": pl.Boolean()}
# Arrival of an activity: `last`, when the last rank that it needs has come (merged ns), and the task of that rank, null
# if the activity needs no other.
ARRIVAL = {"last": pl.Int64(), "waited_for": pl.Int64()}

# A blocking receive is late if it begins at least so long after its send (ns), and the send still lasts. Sends that
# only copy end sooner. A receive that was begun before it is waited for (MPI_Irecv) holds no send up.
# MPI libraries copy small messages, Open MPI within a host those of less than EAGER bytes (btl_vader_eager_limit).
LATE_RECEIVER, EAGER = 20_000, 4096
_FROM_ROOT = [n for n, name in MPI_VALUES.items() if re.fullmatch(r"MPI_(Bcast|Scatterv?|Ibcast|Iscatterv?)", name)]
_TO_ROOT = [n for n, name in MPI_VALUES.items() if re.fullmatch(r"MPI_(Reduce|Gatherv?|Ireduce|Igatherv?)", name)]
_HANDS_OVER = [n for n, name in MPI_VALUES.items() if re.fullmatch(r"MPI_(Send|Ssend|Rsend|Sendrecv(_replace)?)", name)]
_TAKES = [n for n, name in MPI_VALUES.items() if re.fullmatch(r"MPI_(Recv|Mrecv|Sendrecv(_replace)?)", name)]
_AT_ONCE = [n for n, name in MPI_VALUES.items() if re.fullmatch(r"MPI_I(?!nit|nter)\w+", name)]


def with_operation(ends: pl.DataFrame) -> pl.DataFrame:
    """Add the missing columns of OPERATION to ends (JOINED): `source` and `target`.

    They are -1 for collectives, and for messages whose number tells enough.
    """
    sends, collective = pl.col("kind") == SEND, pl.col("kind").is_in(OF_COLLECTIVES)
    by_number = collective | pl.col("identified").fill_null(False)
    return ends.with_columns(
        source=pl.when(by_number).then(-1).when(sends).then("rank").otherwise("peer"),
        target=pl.when(by_number).then(-1).when(sends).then("peer").otherwise("rank"),
        tag=pl.when(collective).then(-1).otherwise("tag"),
    )


def with_arrivals(ends: pl.DataFrame) -> pl.DataFrame:
    """Add ROLES and ARRIVAL to ends (JOINED and OPERATION). An arrival is null where no other rank's end is known.

    Ends without an activity (`began` is null) and those of unknown ranks count for nothing. An end that is alone in its
    collective has no arrival: its rank may be a guess, and the root another.
    """
    known = pl.when(pl.col("kind").is_in(OF_COLLECTIVES)).then("device").otherwise("rank") != UNKNOWN_NUMBER
    taking_part = known & pl.col("began").is_not_null()
    enters = pl.col("kind") != COMPLETION
    needed, waits = (role & taking_part for role in _roles())
    seen_twice = ~pl.col("kind").is_in(OF_COLLECTIVES) | ((taking_part & enters).sum().over(OPERATION) > 1)
    in_role = ends.with_columns(
        needed=needed, awaited=needed & enters, waits=waits, waits_for_none=taking_part & ~waits & seen_twice
    )
    came = in_role.filter("awaited").sort("began", "task")
    last = came.group_by(OPERATION).agg(
        last_begin=pl.col("began").last(), latest=pl.col("task").last(), ends_known=pl.len().cast(pl.Int64)
    )
    joined = in_role.join(last, on=OPERATION, how="left", maintain_order="left")
    joined = _with_late_receivers(joined, taking_part)
    # The count includes the rank's own entry, also on the row of its completion.
    others = pl.col("ends_known").fill_null(0) > pl.col("needed").cast(pl.Int64)
    return joined.with_columns(
        waits=pl.col("waits") | pl.col("receive_began").is_not_null(),
        last=pl.when(pl.col("waits") & others)
        .then("last_begin")
        .otherwise(pl.coalesce("receive_began", pl.when("waits_for_none").then("began"))),
        waited_for=pl.when(pl.col("waits") & others).then("latest").otherwise("receiver"),
    ).drop("last_begin", "latest", "ends_known", "needed", "waits_for_none", "receive_began", "receiver")


def _with_late_receivers(ends: pl.DataFrame, taking_part: pl.Expr) -> pl.DataFrame:
    """Add `receive_began` and `receiver` to MPI sends that wait for a late receiver; else null.

    They are begin and task of the receive.
    """
    of_mpi, kind = (pl.col("family") == MPI.name) & taking_part, pl.col("kind")
    blocks = of_mpi & (kind == RECEIVE) & pl.col("operation").is_in(_TAKES)
    receives = ends.filter(blocks).sort("began", "task").unique(OPERATION, keep="first")
    known = ends.join(
        receives.select(*OPERATION, receive_began="began", receiver="task"),
        on=OPERATION,
        how="left",
        maintain_order="left",
    )
    late = pl.col("receive_began").is_between(pl.col("began") + LATE_RECEIVER, pl.col("ended"), closed="left")
    hands_over = of_mpi & (kind == SEND) & pl.col("operation").is_in(_HANDS_OVER)
    waits = hands_over & late & (pl.col("size") >= EAGER)
    return known.with_columns(pl.when(waits).then(c).alias(c) for c in ("receive_began", "receiver"))


def _roles() -> tuple[pl.Expr, pl.Expr]:
    """Return two conditions on ends: the operation needs the end's rank, and its rank waits for others."""
    mpi, kind, operation = pl.col("family") == MPI.name, pl.col("kind"), pl.col("operation")
    rooted = pl.col("peer").is_not_null() & kind.is_in(OF_COLLECTIVES)
    is_root = pl.col("rank") == pl.col("peer")
    from_root, to_root = (mpi & rooted & operation.is_in(names) for names in (_FROM_ROOT, _TO_ROOT))
    awaited = ~(mpi & (kind == RECEIVE)) & ~(from_root & ~is_root) & ~(to_root & is_root)
    at_once = mpi & (kind == COLLECTIVE) & operation.is_in(_AT_ONCE)
    waits = ~(mpi & (kind == SEND)) & ~(from_root & is_root) & ~(to_root & ~is_root) & ~at_once
    return awaited.fill_null(True), waits.fill_null(True)


def with_rooted_arrivals(ends: pl.DataFrame, operation: Sequence[str], clock_error: int) -> pl.DataFrame:
    """Return ends of NCCL Broadcasts and Reduces, in any order, with `awaited` and ARRIVAL by their begins and ends.

    A rank waits for the last of those that began before it ended: for the root, or for a rank that hands data on. It
    waits for none that began later, and is awaited by none that ended before.
    """
    # Every rank has begun before it ended, so that one that began before two have ended is awaited by another.
    until = pl.col("ended") + clock_error
    another_lasts = pl.col("began") < until.top_k(2).min().over(operation)
    known = ends.drop(ARRIVAL).with_columns(pl.col("awaited") & another_lasts, until=until).sort("ended")
    came = ends.filter("awaited").select(*operation, came="began", last="began", waited_for="task")
    came = came.sort("came", "waited_for").unique([*operation, "came"], keep="last", maintain_order=True)
    found = _latest_before(known, came, operation, "ended")
    # By another clock, the one that was waited for may seem to begin after the end.
    late = _latest_before(known.select(*operation, "until"), came, operation, "until").select(*ARRIVAL)
    unexplained = pl.col("ended") - pl.col("last") > clock_error
    both = found.with_columns(late.select(pl.all().name.prefix("late_")))
    both = both.with_columns(pl.when(unexplained).then(f"late_{c}").otherwise(c).alias(c) for c in ARRIVAL)
    return both.select(ends.columns)


def _latest_before(ends: pl.DataFrame, came: pl.DataFrame, operation: Sequence[str], time: str) -> pl.DataFrame:
    """Return ends with ARRIVAL: the latest of `came` in their operation before a time. Both come in order of time."""
    return ends.join_asof(
        came,
        left_on=time,
        right_on="came",
        by=list(operation),
        allow_exact_matches=False,
        # In order of time as a whole, they are so within each operation: that Polars cannot check.
        check_sortedness=False,
    )


def latest_arrivals(arrivals: pl.DataFrame, activity: Sequence[str]) -> pl.DataFrame:
    """Return the latest ARRIVAL of each activity, which may carry several operations, with the columns that name it.

    Activities without a known arrival are left out.
    """
    known = arrivals.filter(pl.col("last").is_not_null())
    return known.sort("last", "waited_for", nulls_last=False).group_by(activity).agg(pl.col(*ARRIVAL).last())
