"""From the rows of advanced tracing of NCCL to operations, and to the kernel that ran each.

An operation is one row, or one row for each channel. Rows of one rank belong together by the operation's id, or where a
row lacks it by communicator, operation and NCCL's sequence number.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.families.nccl.nccl_calls import MESSAGE_CALLS, OPERATION_NUMBERS
from nsys2prv.model.event_types import NCCL_OPERATION
from nsys2prv.model.global_ids import process_of

# Sizes of elements (bytes) by name without `nccl`, and by NCCL's number of the type (nccl.h, ncclDataType_t).
_SIZES = {
    1: ("int8", "uint8", "char", "float8e4m3", "float8e5m2", "fp8e4m3", "fp8e5m2", "0", "1", "10", "11"),
    2: ("float16", "half", "bfloat16", "fp16", "bf16", "6", "9"),
    4: ("int32", "int", "uint32", "float32", "float", "fp32", "2", "3", "7"),
    8: ("int64", "uint64", "float64", "double", "fp64", "4", "5", "8"),
}
ELEMENT_BYTES = {name: size for size, names in _SIZES.items() for name in names}
# Longer names first: `ReduceScatter` begins with `Reduce`.
_NAMES = sorted(OPERATION_NUMBERS, key=len, reverse=True)
_NAME = rf"(?i)^(?:nccl)?({'|'.join(_NAMES)}|Bcast)(?:[^a-z]|$)"
_NUMBER_OF = {name.lower(): n for name, n in OPERATION_NUMBERS.items()} | {"bcast": OPERATION_NUMBERS["Broadcast"]}
# 2**64 divided by the golden ratio, as a signed number.
_SPREAD = 0x9E3779B97F4A7C15 - 2**64
# Columns that rows of one operation share: see operations_of.
_SHARED = ("process", "communicator", "rank", "name", "id", "of_sequence", "alone")


def as_rows(events: pl.DataFrame) -> pl.DataFrame:
    """Return rows of Source.nccl_operations (with an end) with plain values.

    `process`: globalPid; `id`: Int64 with the bits of the 64-bit number; `communicator`: decimal text, as in NCCL's
    calls; `operation`: value of NCCL_OPERATION, null for another; `name`: label of the operation, else its text.
    """
    lower = pl.coalesce(pl.col(c).str.extract(_NAME, 1) for c in ("function", "text")).str.to_lowercase()
    operation = lower.replace_strict(_NUMBER_OF, default=None, return_dtype=pl.Int64)
    label = operation.replace_strict(NCCL_OPERATION.values, default=None, return_dtype=pl.String)
    element = pl.col("type").str.replace("(?i)^nccl", "").str.to_lowercase()
    size = element.replace_strict(ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    return events.with_columns(
        process=process_of(pl.col("globalTid")),
        id=unsigned(pl.col("id")).reinterpret(signed=True),
        communicator=pl.coalesce(unsigned(pl.col("communicator")).cast(pl.String), "communicator"),
        operation=operation,
        name=pl.coalesce(label, "text"),
        type=pl.col("type").str.replace("(?i)^nccl", ""),
        bytes=pl.coalesce("bytes", pl.col("count") * size),
    )


def unsigned(text: pl.Expr) -> pl.Expr:
    """Return the 64-bit number that a text gives in decimals, unsigned or signed, or hexadecimal; null: none."""
    negative = text.cast(pl.Int64, strict=False).reinterpret(signed=False)
    digits = text.str.extract(r"^0[xX]([0-9a-fA-F]{1,16})$", 1)
    # Two halves, since no hexadecimal text beyond 2**63 can be read at once.
    high = digits.str.zfill(16).str.head(8).str.to_integer(base=16, strict=False).cast(pl.UInt64)
    low = digits.str.zfill(16).str.tail(8).str.to_integer(base=16, strict=False).cast(pl.UInt64)
    return pl.coalesce(text.cast(pl.UInt64, strict=False), negative, high * 2**32 + low)


def operations_of(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return operations from rows (see as_rows), and for each row the index of its operation (`at`).

    Operations have the columns of rows, from the first begin to the last end, with `channels`, their number.
    """
    of_number = ("process", "communicator", "rank", "name", "sequence")
    counted = _is_counted(pl.col("sequence"), pl.col("operation"))
    told = pl.when(counted).then(pl.col("id").max().over(of_number))
    rows = rows.with_row_index("row").with_columns(id=pl.coalesce("id", told))
    without = pl.col("id").is_null()
    keyed = rows.with_columns(
        of_sequence=pl.when(without & counted).then("sequence"),
        alone=pl.when(without & ~counted).then("row"),
    ).sort(_SHARED)
    keyed = keyed.with_columns(at=pl.struct(_SHARED).rle_id())
    found = keyed.group_by("at", maintain_order=True).agg(
        pl.col("start").min(),
        pl.col("end").max(),
        *(pl.col(c).first() for c in ("process", "communicator", "rank", "name", "id", "operation")),
        *(pl.col(c).max() for c in ("sequence", "count", "bytes", "type", "root", "peer", "class", "globalTid")),
        # A row that does not name its channel counts as one.
        channels=pl.col("channel").drop_nulls().n_unique() + pl.col("channel").is_null().sum(),
    )
    return found, keyed.sort("row")["at"]


def identity(number: pl.Expr, sequence: pl.Expr, operation: pl.Expr) -> pl.Expr:
    """Return a number that all ranks' parts of an operation have: its id, else one of sequence and operation.

    NCCL counts each operation of a communicator by itself, but for messages. Null: neither is known.
    """
    counted = pl.when(_is_counted(sequence, operation)).then(sequence)
    # Spread over all numbers of 64 bits, as ids are: neither is taken for the other.
    return pl.coalesce(number, counted * _SPREAD + operation)


def _is_counted(sequence: pl.Expr, operation: pl.Expr) -> pl.Expr:
    """Return True where NCCL's sequence number tells an operation from others of its kind."""
    message = operation.is_in(MESSAGE_CALLS).fill_null(False)
    return (sequence >= 0).fill_null(False) & ~message


def kernels_of(operations: pl.DataFrame, kernels: pl.DataFrame) -> pl.Series:
    """Return for each operation the kernel (row of `kernels`) of its process that overlaps it most; null: none.

    `kernels`: process, place, start, end; none of one place overlap. Of several the shortest counts.
    """
    start, end = (operations[c].to_numpy() for c in ("start", "end"))
    pairs = [pl.DataFrame(schema={"at": pl.Int64, "kernel": pl.UInt32, "overlap": pl.Int64, "ns": pl.Int64})]
    # A kernel whose process is not known runs no operation of another.
    known = kernels.with_row_index("kernel").drop_nulls("process")
    for (process, _), of_place in known.group_by("process", "place", maintain_order=True):
        own = np.flatnonzero((operations["process"] == process).fill_null(False).to_numpy())
        of_place = of_place.sort("start")
        begins, ends = (of_place[c].to_numpy() for c in ("start", "end"))
        first = np.searchsorted(ends, start[own], side="right")
        count = np.maximum(np.searchsorted(begins, end[own], side="left") - first, 0)
        at = np.repeat(own, count)
        # Kernels of each operation follow each other.
        kernel = np.arange(len(at)) + np.repeat(first - np.cumsum(count) + count, count)
        overlap = np.minimum(end[at], ends[kernel]) - np.maximum(start[at], begins[kernel])
        frame = {"at": at, "kernel": of_place["kernel"].to_numpy()[kernel], "overlap": overlap}
        pairs.append(pl.DataFrame({**frame, "ns": ends[kernel] - begins[kernel]}))
    best = pl.concat(pairs).sort("overlap", "ns", "kernel", descending=[True, False, False])
    best = best.unique("at", keep="first", maintain_order=True)
    rows = pl.select(at=pl.int_range(operations.height))
    return rows.join(best, on="at", how="left", maintain_order="left")["kernel"]
