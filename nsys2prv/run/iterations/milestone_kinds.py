"""Kinds of work by which iterations are found, and the frame of launches in which they are looked for."""

from __future__ import annotations

import polars as pl

# Family of classes of the kernels that an optimizer launches.
OPTIMIZER = "optimizer"
# Milestones are launches of the work by which iterations are found. Kinds of that work: kernels of an optimizer, which
# count together; graphs; collectives; kernels at equal places in the order of launches; collective calls of MPI at
# such places; calls there in which a rank waits for a message. They are in order of trust, but graphs and collectives
# are trusted alike.
OF_OPTIMIZER, OF_GRAPH, OF_COLLECTIVE, OF_ORDER, OF_MPI_COLLECTIVE, OF_MESSAGE = range(6)
# Kinds that are calls of MPI.
CALLS_OF_MPI = (OF_MPI_COLLECTIVE, OF_MESSAGE)

# Device work with its launch (ns), and calls of MPI, launched when they begin. `process`: any number of the process;
# `kind`: the kind of milestone that it may be, null for none.
LAUNCHED_WORK = {
    "process": pl.Int64(),
    "launched": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "name": pl.Categorical(),
    "bytes": pl.Int64(),
    "kind": pl.UInt8(),
}


def milestone_kind(*conditions: pl.Expr) -> pl.Expr:
    """Return `kind` of LAUNCHED_WORK, given a condition for each kind in order: the first that holds."""
    first = pl.coalesce(pl.when(of_kind).then(number) for number, of_kind in enumerate(conditions))
    return first.cast(LAUNCHED_WORK["kind"]).alias("kind")
