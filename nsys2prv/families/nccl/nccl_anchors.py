"""NCCL collectives as anchors between clocks: those that all ranks leave together."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.nccl.nccl_calls import OPERATIONS
from nsys2prv.model.frames import Anchors
from nsys2prv.model.interning import UNKNOWN_GPU

# Collectives that no rank leaves before all have entered: every rank's result needs every rank's part.
SYNCHRONOUS_OPERATIONS = [OPERATIONS[f"nccl{name}"] for name in ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll")]

# Begins the names of NCCL's communicators among anchors, which those of MPI do not begin with.
_NAMED = "nccl "


def anchored_communicators(anchors: pl.DataFrame) -> pl.Series:
    """Return the ids of NCCL's communicators in anchors (ANCHOR), with the operation where that has its own numbers."""
    names = anchors["communicator"].unique().drop_nulls()
    return names.filter(names.str.starts_with(_NAMED)).str.strip_prefix(_NAMED)


def collective_anchors(kernels: pl.DataFrame, calls: pl.DataFrame, members: pl.DataFrame) -> Anchors:
    """Return the kernels of synchronous collectives, by communicator and number.

    `kernels` and `calls` come from Settled, `members` from members_of. Operations of an unknown GPU are no anchors.
    """
    numbered = pl.col("number").is_not_null() & (pl.col("device").fill_null(0) != UNKNOWN_GPU)
    synchronous = pl.col("operation").is_in(SYNCHRONOUS_OPERATIONS) & numbered
    operations = calls.with_row_index("call").filter(synchronous)
    carrying = members.filter("counts")
    work = kernels.select(began="start", ended="end").with_row_index("kernel")
    found = operations.join(carrying.select("call", "kernel"), on="call").join(work, on="kernel")
    return Anchors(
        found.select(
            kind=pl.lit("collective"),
            communicator=pl.format(f"{_NAMED}{{}}", "communicator"),
            sequence="sequence",
            ranks=pl.lit(None, pl.Int64),
            start="began",
            end="ended",
        )
    )


def operation_anchors(operations: pl.DataFrame) -> Anchors:
    """Return the kernels of synchronous collectives, by communicator, operation and NCCL's own sequence number.

    `operations` come from operations_of, with `began` and `ended` of their kernels. NCCL counts each operation of a
    communicator by itself, on all ranks alike.
    """
    synchronous = pl.col("operation").is_in(SYNCHRONOUS_OPERATIONS)
    found = operations.filter(synchronous, pl.col("sequence") >= 0)
    return Anchors(
        found.select(
            "sequence",
            kind=pl.lit("collective"),
            communicator=pl.format(f"{_NAMED}{{}} {{}}", "communicator", "name"),
            ranks=pl.lit(None, pl.Int64),
            start="began",
            end="ended",
        )
    )
