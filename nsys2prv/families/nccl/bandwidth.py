"""NCCL's bandwidths, by the formulas of nccl-tests (doc/PERFORMANCE.md).

Algorithm bandwidth is the size of the operation over its time. The size of an operation with parts is the sum of its
parts. Bus bandwidth multiplies this by a factor that makes it comparable with the speed of a link for any number n of
ranks: 2 (n - 1) / n for an all-reduce, (n - 1) / n for operations with parts, 1 for the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.families.nccl.nccl_calls import OPERATION_NUMBERS

ALL_REDUCE = OPERATION_NUMBERS["AllReduce"]
# Operations for which the report has the size of one rank's part.
PARTED = [OPERATION_NUMBERS[name] for name in ("AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter")]
WHOLE = [OPERATION_NUMBERS[name] for name in ("Broadcast", "Reduce", "Send", "Recv", "Send and Recv")]


def bandwidths(rate: pl.Series, operation: pl.Series, ranks: npt.NDArray[np.int64]) -> tuple[pl.Series, pl.Series]:
    """Return algorithm and bus bandwidth (null: unknown) from `rate`, the size in the report over time.

    They have the unit of the rate. `ranks` is 0 where the number of ranks is not known.
    """
    n = pl.col("ranks")
    whole = pl.col("operation").is_in(WHOLE)
    parted = pl.col("operation").is_in(PARTED) & (n > 0)
    reduce = pl.col("operation") == ALL_REDUCE
    frame = pl.DataFrame({"rate": rate, "operation": operation, "ranks": ranks})
    found = frame.select(
        algorithm=pl.when(whole | reduce).then(pl.col("rate")).when(parted).then(pl.col("rate") * n),
        bus=pl.when(whole)
        .then(pl.col("rate").cast(pl.Float64))
        .when(parted)
        .then(pl.col("rate") * (n - 1))
        .when(reduce & (n > 0))
        .then(pl.col("rate") * 2 * (n - 1) / n),
    )
    return found["algorithm"], found["bus"]
