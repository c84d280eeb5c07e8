"""Payloads of NVTX events: fields by name, from JSON text and from binary data with its schemas.

Every distinct JSON text is read once. Binary data is a header of four 64-bit numbers (domain, schema, size of the
payload, and where it begins or the size of everything, as versions differ) and the payload, whose fields lie where
NVTX_PAYLOAD_SCHEMA_ENTRIES says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.activities.relations import ReadTable
from nsys2prv.report import schema

HEADER_BYTES = 32
JSON_COLUMNS = ("jsonText", "jsonTextId")
PAYLOAD_KEYS = (*JSON_COLUMNS, "binaryData")
PAYLOAD_READS = {
    t: tuple(t.columns)
    for t in (schema.PAYLOAD_SCHEMAS, schema.PAYLOAD_ENTRIES, schema.PAYLOAD_ENUMS, schema.PAYLOAD_ENUM_ENTRIES)
}

# NVTX_PAYLOAD_ENTRY_TYPE_* of NVTX's nvToolsExtPayload.h -> how the bytes read (on 64-bit Linux).
_TYPES = {
    1: "<i1", 2: "<u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<i8", 8: "<u8", 9: "<i8", 10: "<u8",
    11: "<i1", 12: "<u1", 13: "<i2", 14: "<u2", 15: "<i4", 16: "<u4", 17: "<i8", 18: "<u8", 22: "<u8", 23: "<u8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field of payloads: the names that versions give it. A number (Int64), or text (what a number is printed as)."""

    names: tuple[str, ...]
    number: bool = True

    @property
    def dtype(self) -> pl.DataType:
        return pl.Int64() if self.number else pl.String()


def payload_fields(
    events: pl.DataFrame, fields: Mapping[str, Field], read: ReadTable, strings: pl.DataFrame
) -> pl.DataFrame:
    """One column a field, one row an event (null: not in its payload). `events` has PAYLOAD_KEYS."""
    texts = events.select("jsonText", id="jsonTextId").join(strings, on="id", how="left", maintain_order="left")
    found = _from_json(texts.select(json=pl.coalesce("jsonText", "text")), fields)
    # nsys exports most payloads in both forms; the text is the quicker one.
    binary_only = found.select(pl.all_horizontal(pl.all().is_null())).to_series() & events["binaryData"].is_not_null()
    if binary_only.any():
        binary = _from_binary(events["binaryData"], fields, read)
        found = pl.DataFrame([found[name].fill_null(binary[name]) for name in fields])
    return found


def _from_json(texts: pl.DataFrame, fields: Mapping[str, Field]) -> pl.DataFrame:
    distinct = texts.unique().drop_nulls()
    values = distinct.with_columns(
        pl.coalesce(_value(name) for name in f.names).cast(f.dtype, strict=False).alias(key)
        for key, f in fields.items()
    )
    return texts.join(values, on="json", how="left", maintain_order="left").select(*fields)


def _value(name: str) -> pl.Expr:
    """Text of a number or string in a JSON object without nesting."""
    pattern = f'"{re.escape(name)}"' + r'\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?[0-9.eE+-]+))'
    return pl.coalesce(pl.col("json").str.extract(pattern, 1), pl.col("json").str.extract(pattern, 2))


@dataclass(frozen=True, slots=True)
class _Blobs:
    """Binary payloads end to end: bytes, and for each where it begins, how long it is and its header's numbers."""

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    header: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, blobs: pl.Series) -> _Blobs:
        """All blobs; those too short for a header have one of zeros, which is no schema's."""
        values = [b or b"" for b in blobs]
        length = np.array([len(b) for b in values], dtype=np.int64)
        start = np.cumsum(length) - length
        data = np.frombuffer(b"".join(values), dtype=np.uint8)
        header = np.zeros((len(values), 4), dtype="<u8")
        whole = np.flatnonzero(length >= HEADER_BYTES)
        header[whole] = data[start[whole, None] + np.arange(HEADER_BYTES)].view("<u8")
        return cls(data, start, length, header)

    def numbers(
        self, rows: npt.NDArray[np.int64], offset: int, dtype: str
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.generic]]:
        """The rows that hold a number at an offset of their payload, and the numbers."""
        size = np.dtype(dtype).itemsize
        body = self.header[rows, 3].astype(np.int64)
        # Where the fourth number is the size of everything, the payload follows the header.
        fits = (body >= HEADER_BYTES) & (body + self.header[rows, 2].astype(np.int64) <= self.length[rows])
        at = np.where(fits, body, HEADER_BYTES) + offset
        inside = at + size <= self.length[rows]
        where = self.start[rows[inside]] + at[inside]
        return rows[inside], self.data[where[:, None] + np.arange(size)].view(dtype)[:, 0]


def _from_binary(blobs: pl.Series, fields: Mapping[str, Field], read: ReadTable) -> pl.DataFrame:
    entries, enums = read(schema.PAYLOAD_ENTRIES), read(schema.PAYLOAD_ENUM_ENTRIES)
    sizes = dict(read(schema.PAYLOAD_ENUMS).select("schemaId", "size").rows())
    parsed = _Blobs.of(blobs)
    columns: dict[str, list[pl.DataFrame]] = {key: [] for key in fields}
    for domain, number in np.unique(parsed.header[:, :2], axis=0).tolist():
        rows = np.flatnonzero((parsed.header[:, 0] == domain) & (parsed.header[:, 1] == number))
        own = entries.filter((pl.col("domainId") == domain) & (pl.col("schemaId") == number))
        for kind, name, offset in own.select("type", "name", "offset").rows():
            key = next((k for k, f in fields.items() if name in f.names), None)
            dtype = _TYPES.get(kind, f"<i{sizes.get(kind, 0)}" if kind in sizes else "")
            if key is None or not dtype:
                continue
            some, values = parsed.numbers(rows, offset, dtype)
            column = pl.Series("value", values)
            if kind in sizes:
                names = enums.filter((pl.col("domainId") == domain) & (pl.col("schemaId") == kind))
                named = dict(names.select("value", "name").rows())
                column = column.replace_strict(named, default=None, return_dtype=pl.String())
            columns[key].append(pl.DataFrame({"row": some, "value": column.cast(fields[key].dtype, strict=False)}))
    index = pl.DataFrame({"row": np.arange(len(blobs))})
    return pl.DataFrame([_column(index, key, fields[key], parts) for key, parts in columns.items()])


def _column(index: pl.DataFrame, key: str, field: Field, parts: list[pl.DataFrame]) -> pl.Series:
    if not parts:
        return pl.Series(key, [None] * index.height, dtype=field.dtype)
    known = pl.concat(parts).unique("row", keep="first")
    return index.join(known, on="row", how="left", maintain_order="left")["value"].alias(key)
