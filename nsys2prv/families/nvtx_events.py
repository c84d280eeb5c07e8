"""NVTX events: ranges and marks with their domain, and NCCL's operations on the device told apart from them.

Advanced tracing of NCCL (nsys 2025.6.1, NCCL 2.28) writes ranges of host threads and operations on the device into one
domain. Their payloads tell them apart: that of an operation names its id, or its communicator with the rank on it. This
follows NVIDIA's documentation of recipes, which does not show the rows themselves. Fields are named by it and by NCCL's
profiler interface, in any spelling. `nccl/device_operations.py` joins the rows of each operation.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.families.payloads import PAYLOAD_KEYS, PAYLOAD_READS, UNREAD, Field, json_texts, payload_fields
from nsys2prv.model.global_ids import process_of
from nsys2prv.report import schema
from nsys2prv.report.tables import ReadTable

_NVTX_KEYS = ("start", "end", "eventType", "text", "textId", "globalTid", "domainId")
# With the payloads, which tell ranges from operations on the device.
NVTX_READS = {schema.NVTX: (*_NVTX_KEYS, *PAYLOAD_KEYS), **PAYLOAD_READS}

# Domains of the marks by which nsys keeps samples of Python stacks, the first as versions before 2024 call it.
PYTHON_SAMPLING, PYTHON_ON_CUDA = ("Python Backtrace", "Python Periodic Sampling"), "Python Backtrace on CUDA"
PYTHON_DOMAINS = (*PYTHON_SAMPLING, PYTHON_ON_CUDA)

NCCL_DOMAIN = "NCCL"


def _text(*names: str) -> Field:
    return Field(names, number=False, loose=True)


def _number(*names: str) -> Field:
    return Field(names, loose=True)


_FIELDS = {
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
# communicator (see read_nvtx_events).
_TELLING = ("id", "rank")


class NvtxEvents(NamedTuple):
    """NVTX events of a report, or of a slice of it: ranges and marks, and NCCL's operations on the device.

    `ranges`: see _ranges_and_marks. `operations`: the same rows with the columns of _FIELDS and payloads.UNREAD.
    """

    ranges: pl.DataFrame
    operations: pl.DataFrame


def read_nvtx_events(read: ReadTable, strings: pl.DataFrame) -> NvtxEvents:
    """Return the NVTX events of what `read` reads, which has at least NVTX_READS."""
    events = _ranges_and_marks(read, strings).with_row_index("row")
    candidates = _candidates(events, read, strings)
    # No payload is read where there is no candidate, as in every report of legacy tracing.
    fields = payload_fields(candidates, _FIELDS, read, strings) if candidates.height else None
    if fields is None:
        fields = pl.DataFrame(schema={name: field.dtype for name, field in _FIELDS.items()} | {UNREAD: pl.Int64()})
    found = pl.concat([candidates, fields], how="horizontal")
    member = pl.all_horizontal(pl.col("communicator", "rank").is_not_null())
    operations = found.filter(pl.col("id").is_not_null() | member)
    others = events.join(operations, on="row", how="anti", maintain_order="left") if operations.height else events
    return NvtxEvents(others.drop("row"), operations.drop("row"))


def _candidates(events: pl.DataFrame, read: ReadTable, strings: pl.DataFrame) -> pl.DataFrame:
    """Return the events of NCCL's domain whose payload has a field of _TELLING, or is binary and may have one."""
    own = events.filter((pl.col("domain") == NCCL_DOMAIN) & pl.any_horizontal(pl.col(PAYLOAD_KEYS).is_not_null()))
    if own.is_empty():
        return own
    patterns = [pattern for name in _TELLING for pattern in _FIELDS[name].patterns]
    json = json_texts(own, strings)
    distinct = json.unique().drop_nulls()
    telling = distinct.filter(pl.col("json").str.contains("|".join(f'"{pattern}"' for pattern in patterns)))["json"]
    names = read(schema.PAYLOAD_ENTRIES)["name"].unique()
    in_binary = any(_FIELDS[field].has(name) for field in _TELLING for name in names)
    binary = pl.lit(in_binary) & json["json"].is_null()
    return own.filter(json["json"].is_in(telling.implode()).fill_null(False) | binary)


def _ranges_and_marks(read: ReadTable, strings: pl.DataFrame) -> pl.DataFrame:
    """Return NVTX events: start, end (null: mark, or open), eventType, text, globalTid, domain (name; "" the default).

    Domain numbers are each process' own; DOMAIN rows name them. Where the table was read with its `category`, that is
    the category's name: CATEGORY rows name those of each domain.
    """
    registered = strings.select(textId="id", registered="text", held=pl.lit(True))
    rows = read(schema.NVTX).join(registered, on="textId", how="left", maintain_order="left")
    rows = rows.with_columns(
        text=pl.coalesce("text", "registered"),
        process=process_of(pl.col("globalTid")),
    )
    names = (
        rows.filter(pl.col("eventType") == schema.DOMAIN_NAME)
        .select("process", "domainId", domain="text")
        .unique(["process", "domainId"], keep="first", maintain_order=True)
    )
    events = rows.filter(pl.col("eventType").is_in(schema.RANGES_AND_MARKS))
    named = events.join(names, on=["process", "domainId"], how="left", nulls_equal=True, maintain_order="left")
    # A text that the report lacks is named by its number.
    lacking = pl.when(pl.col("held").is_null()).then(pl.format("string {}", "textId"))
    unnamed = pl.when(pl.col("domainId") == 0).then(pl.lit("")).otherwise(pl.format("domain {}", "domainId"))
    named = named.with_columns(domain=pl.coalesce("domain", unnamed), text=pl.coalesce("text", lacking, pl.lit("")))
    named = named.drop("held")
    return _name_categories(named, rows) if "category" in named.columns else named


def _name_categories(events: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the events with `category` by name instead of number; 0 is none."""
    key = ["process", "domainId", "category"]
    names = (
        rows.filter(pl.col("eventType") == schema.CATEGORY_NAME)
        .select(*key, name="text")
        .unique(key, keep="last", maintain_order=True)
    )
    named = events.join(names, on=key, how="left", nulls_equal=True, maintain_order="left")
    number = pl.when(pl.col("category") != 0).then(pl.format("category {}", "category"))
    return named.with_columns(category=pl.coalesce("name", number)).drop("name")


def from_profiler() -> pl.Expr:
    """Return True for ranges by nsys itself among the NVTX events: samples of Python stacks."""
    return pl.col("domain").is_in(PYTHON_DOMAINS) & pl.col("eventType").is_in(schema.MARKS)
