"""Rows of the NVTX domain NCCL that are operations on the device, told apart from ranges of host threads.

This module lies outside the folder nccl, whose modules import families.source: that one imports it, to give families
of NVTX the ranges alone. `nccl/device_operations.py` joins the other rows to operations; `nccl/nccl_operations.py`
draws and matches these.

Advanced tracing of NCCL (nsys 2025.6.1, NCCL 2.28) writes both. Their payloads tell them apart: that of an operation
names its id, or its communicator with the rank on it. This follows NVIDIA's documentation of recipes, which does not
show the rows themselves. Fields are named by it and by NCCL's profiler interface, in any spelling.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.families.payloads import PAYLOAD_KEYS, UNREAD, Field, json_texts, payload_fields
from nsys2prv.families.relations import ranges
from nsys2prv.report import schema
from nsys2prv.report.tables import ReadTable

NCCL_DOMAIN = "NCCL"


def _text(*names: str) -> Field:
    return Field(names, number=False, loose=True)


def _number(*names: str) -> Field:
    return Field(names, loose=True)


FIELDS = {
    "id": _text("operation id", "op id"),
    "communicator": _text("comm hash", "communicator hash", "NCCL communicator ID"),
    "rank": _number("comm rank", "communicator rank"),
    "function": _text("func", "function", "operation", "operation name"),
    "class": _text("operation class"),
    "sequence": _number("seq number", "sequence number", "seq"),
    "channel": _number("channel id", "channel"),
    "count": _number("count", "element count"),
    "type": _text("data type"),
    "bytes": _number("message size bytes", "data size bytes", "bytes"),
    "root": _number("root", "root rank"),
    "peer": _number("peer", "peer rank"),
}
# A payload without any of these is no operation on the device, and need not be read. The rank counts only with a
# communicator (see nvtx_rows).
_TELLING = ("id", "rank")


class NvtxRows(NamedTuple):
    """NVTX events of a report, or of a slice of it: ranges and marks, and NCCL's operations on the device.

    `ranges`: see relations.ranges. `operations`: the same rows with the columns of FIELDS and payloads.UNREAD.
    """

    ranges: pl.DataFrame
    operations: pl.DataFrame


def nvtx_rows(read: ReadTable, strings: pl.DataFrame) -> NvtxRows:
    """Return the NVTX events of what `read` reads, which has at least NVTX_READS."""
    events = ranges(read, strings).with_row_index("row")
    candidates = _candidates(events, read, strings)
    # No payload is read where there is no candidate, as in every report of legacy tracing.
    fields = payload_fields(candidates, FIELDS, read, strings) if candidates.height else None
    if fields is None:
        fields = pl.DataFrame(schema={name: field.dtype for name, field in FIELDS.items()} | {UNREAD: pl.Int64()})
    found = pl.concat([candidates, fields], how="horizontal")
    member = pl.all_horizontal(pl.col("communicator", "rank").is_not_null())
    operations = found.filter(pl.col("id").is_not_null() | member)
    others = events.join(operations, on="row", how="anti", maintain_order="left") if operations.height else events
    return NvtxRows(others.drop("row"), operations.drop("row"))


def _candidates(events: pl.DataFrame, read: ReadTable, strings: pl.DataFrame) -> pl.DataFrame:
    """Return the events of NCCL's domain whose payload has a field of _TELLING, or is binary and may have one."""
    own = events.filter((pl.col("domain") == NCCL_DOMAIN) & pl.any_horizontal(pl.col(PAYLOAD_KEYS).is_not_null()))
    if own.is_empty():
        return own
    patterns = [pattern for name in _TELLING for pattern in FIELDS[name].patterns]
    json = json_texts(own, strings)
    distinct = json.unique().drop_nulls()
    telling = distinct.filter(pl.col("json").str.contains("|".join(f'"{pattern}"' for pattern in patterns)))["json"]
    names = read(schema.PAYLOAD_ENTRIES)["name"].unique()
    in_binary = any(FIELDS[field].has(name) for field in _TELLING for name in names)
    binary = pl.lit(in_binary) & json["json"].is_null()
    return own.filter(json["json"].is_in(telling.implode()).fill_null(False) | binary)
