"""Payloads of NVTX events: fields by name, from JSON text and from binary data with its schemas.

Every distinct JSON text is read once. Binary data is a header of four 64-bit numbers (domain, schema, size of the
payload, and where it begins or the size of everything, as versions differ) and the payload, whose fields lie where
NVTX_PAYLOAD_SCHEMA_ENTRIES says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.report import schema
from nsys2prv.report.tables import ReadTable

PAYLOAD_HEADER_BYTES = 32
JSON_COLUMNS = ("jsonText", "jsonTextId")
PAYLOAD_KEYS = (*JSON_COLUMNS, "binaryData")
PAYLOAD_READS = {
    t: tuple(t.columns) for t in (schema.PAYLOAD_ENTRIES, schema.PAYLOAD_ENUMS, schema.PAYLOAD_ENUM_ENTRIES)
}

# NVTX_PAYLOAD_ENTRY_TYPE_* of NVTX's nvToolsExtPayload.h -> how the bytes read (on 64-bit Linux).
_TYPES = {
    1: "<i1", 2: "<u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<i8", 8: "<u8", 9: "<i8", 10: "<u8",
    11: "<i1", 12: "<u1", 13: "<i2", 14: "<u2", 15: "<i4", 16: "<u4", 17: "<i8", 18: "<u8", 22: "<u8", 23: "<u8",
}  # fmt: skip
# Size of an enumeration (bytes) -> how its values read.
_ENUM_TYPES = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}
UNREAD = "unread"
# Characters between the words of a name that is spelled loosely.
_MARKS = '[^"A-Za-z0-9]*'


class Field(NamedTuple):
    """A field of payloads: the names that versions give it. Its value is a number (Int64), or a text.

    `loose`: names may be spelled otherwise, in upper or lower case and with marks or nothing between their words.
    """

    names: tuple[str, ...]
    number: bool = True
    loose: bool = False

    @property
    def dtype(self) -> pl.DataType:
        """Return the type of its values."""
        return pl.Int64() if self.number else pl.String()

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return a regular expression for each of its names."""
        if not self.loose:
            return tuple(map(re.escape, self.names))
        words = (re.findall("[A-Za-z0-9]+", name) for name in self.names)
        return tuple(f"(?i:{_MARKS.join(['', *own, ''])})" for own in words)

    def has(self, name: str | None) -> bool:
        """Return True if it is called so."""
        return name is not None and any(re.fullmatch(pattern, name) for pattern in self.patterns)


def payload_fields(
    events: pl.DataFrame, fields: Mapping[str, Field], read: ReadTable, strings: pl.DataFrame
) -> pl.DataFrame:
    """Return one column a field, one row an event (null: not in its payload). `events` has PAYLOAD_KEYS.

    UNREAD is the number of fields that cannot be read, or 1 for binary data of an unknown schema.
    """
    found = _from_json(json_texts(events, strings), fields)
    # nsys exports most payloads in both forms; the text is the quicker one.
    no_text = found.select(pl.all_horizontal(pl.col(*fields).is_null())).to_series()
    blobs = events["binaryData"].zip_with(no_text, pl.Series([None], dtype=pl.Binary))
    if blobs.null_count() < len(blobs):
        binary = _from_binary(blobs, fields, read)
        both = [found[name].fill_null(binary[name]) for name in fields]
        found = pl.DataFrame([*both, found[UNREAD] + binary[UNREAD]])
    return found


def json_texts(events: pl.DataFrame, strings: pl.DataFrame) -> pl.DataFrame:
    """Return `json`: the payload of each event (with JSON_COLUMNS) as text; null: it has none."""
    texts = events.select("jsonText", id="jsonTextId").join(strings, on="id", how="left", maintain_order="left")
    return texts.select(json=pl.coalesce("jsonText", "text"))


def _from_json(texts: pl.DataFrame, fields: Mapping[str, Field]) -> pl.DataFrame:
    """Return the fields and UNREAD of JSON texts (column `json`; null: none)."""
    distinct = texts.unique().drop_nulls()
    values = {key: pl.coalesce(_value(name) for name in f.patterns) for key, f in fields.items()}
    typed = {key: value.cast(fields[key].dtype, strict=False) for key, value in values.items()}
    unread = pl.sum_horizontal(values[key].is_not_null() & typed[key].is_null() for key in fields)
    read = distinct.with_columns(**typed, **{UNREAD: unread.cast(pl.Int64)})
    found = texts.join(read, on="json", how="left", maintain_order="left")
    return found.select(*fields, pl.col(UNREAD).fill_null(0))


def _value(pattern: str) -> pl.Expr:
    """Return text of a number or string in a JSON object without nesting. `pattern`: of its name."""
    value = f'"{pattern}"' + r'\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?[0-9.eE+-]+))'
    return pl.coalesce(pl.col("json").str.extract(value, 1), pl.col("json").str.extract(value, 2))


class _Blobs(NamedTuple):
    """Binary payloads end to end: bytes, and the begin, length and header numbers of each.

    A header may hold any numbers. They are unsigned, and no sum may exceed their range.
    """

    data: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    header: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, blobs: pl.Series) -> _Blobs:
        """Return all blobs. A blob too short for a header gets a header of zeros, which belongs to no schema."""
        filled = blobs.fill_null(b"")
        length = filled.bin.size("b").cast(pl.Int64).to_numpy()
        start = np.cumsum(length) - length
        data = np.frombuffer(b"".join(filled.to_list()), dtype=np.uint8)
        header = np.zeros((len(filled), 4), dtype="<u8")
        whole = np.flatnonzero(length >= PAYLOAD_HEADER_BYTES)
        header[whole] = data[start[whole, None] + np.arange(PAYLOAD_HEADER_BYTES)].view("<u8")
        return cls(data, start, length, header)

    def by_schema(self) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
        """Yield domain and number of each schema, and the rows of its payloads."""
        filled = self.length > 0
        # Ids beyond 2**63 are negative in tables.
        ids = self.header[:, :2].astype(np.int64)
        for domain, number in np.unique(ids[filled], axis=0).tolist():
            yield domain, number, np.flatnonzero(filled & (ids[:, 0] == domain) & (ids[:, 1] == number))

    def numbers(
        self, rows: npt.NDArray[np.int64], offset: int, dtype: str
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.generic]]:
        """Return the rows that hold a number at an offset of their payload, and the numbers."""
        size = np.dtype(dtype).itemsize
        length, bytes_of, body = self.length[rows], self.header[rows, 2], self.header[rows, 3]
        whole = length.astype(np.uint64)
        # Where the fourth number is the size of everything, the payload follows the header.
        fits = (body >= PAYLOAD_HEADER_BYTES) & (body <= whole) & (bytes_of <= whole - body)
        begin = np.where(fits, body, PAYLOAD_HEADER_BYTES).astype(np.int64)
        inside = (offset >= 0) & (offset <= length - begin - size)
        where = (self.start[rows] + begin)[inside] + (offset if inside.any() else 0)
        return rows[inside], self.data[where[:, None] + np.arange(size)].view(dtype)[:, 0]


def _from_binary(blobs: pl.Series, fields: Mapping[str, Field], read: ReadTable) -> pl.DataFrame:
    """Return the fields and UNREAD of binary payloads, read by the schemas that the report declares."""
    schemas = _Schemas(read(schema.PAYLOAD_ENTRIES), read(schema.PAYLOAD_ENUMS), read(schema.PAYLOAD_ENUM_ENTRIES))
    parsed = _Blobs.of(blobs)
    columns: dict[str, list[pl.DataFrame]] = {key: [] for key in fields}
    unread = np.zeros(len(blobs), dtype=np.int64)
    for domain, number, rows in parsed.by_schema():
        own = schemas.entries_of(domain, number)
        if own.is_empty():
            unread[rows] += 1
        for kind, name, offset in own.select("type", "name", "offset").rows():
            key = next((k for k, f in fields.items() if f.has(name)), None)
            if key is None:
                continue
            values = schemas.values(parsed, rows, domain, kind, offset)
            known = values.cast({"value": fields[key].dtype}, strict=False).drop_nulls()
            unread[rows] += 1
            unread[known["row"].to_numpy()] -= 1
            columns[key].append(known)
    index = pl.DataFrame({"row": np.arange(len(blobs))})
    found = [_column(index, key, fields[key], parts) for key, parts in columns.items()]
    return pl.DataFrame([*found, pl.Series(UNREAD, unread)])


class _Schemas(NamedTuple):
    """Types of binary payloads as a report declares them: three of its tables."""

    entries: pl.DataFrame
    enums: pl.DataFrame
    enum_entries: pl.DataFrame

    def entries_of(self, domain: int, number: int) -> pl.DataFrame:
        """Return entries of a schema."""
        return self.entries.filter((pl.col("domainId") == domain) & (pl.col("schemaId") == number))

    def dtype(self, domain: int, kind: int) -> str | None:
        """Return the NumPy type of the bytes of a type; None if it is no number."""
        own = self.enums.filter((pl.col("domainId") == domain) & (pl.col("schemaId") == kind))
        sizes = own["size"].to_list()
        return _TYPES.get(kind) or (_ENUM_TYPES.get(sizes[-1]) if sizes else None)

    def values(self, blobs: _Blobs, rows: npt.NDArray[np.int64], domain: int, kind: int, offset: int) -> pl.DataFrame:
        """Return `row` and `value` of the payloads that hold a value of a type at an offset; none of unknown types."""
        dtype = self.dtype(domain, kind)
        if dtype is None:
            return pl.DataFrame(schema={"row": pl.Int64(), "value": pl.Int64()})
        some, numbers = blobs.numbers(rows, offset, dtype)
        return pl.DataFrame({"row": some, "value": self.named(domain, kind, pl.Series("value", numbers))})

    def named(self, domain: int, kind: int, values: pl.Series) -> pl.Series:
        """Return the values of an enumeration as their names, and other values unchanged."""
        if kind in _TYPES:
            return values
        own = self.enum_entries.filter((pl.col("domainId") == domain) & (pl.col("schemaId") == kind))
        names = dict(own.select("value", "name").rows())
        # Entries may have values that the bytes of the enumeration cannot hold.
        return values.cast(pl.Int64, strict=False).replace_strict(names, default=None, return_dtype=pl.String())


def _column(index: pl.DataFrame, key: str, field: Field, parts: list[pl.DataFrame]) -> pl.Series:
    if not parts:
        return pl.Series(key, [None] * index.height, dtype=field.dtype)
    known = pl.concat(parts).unique("row", keep="first")
    return index.join(known, on="row", how="left", maintain_order="left")["value"].alias(key)
