"""NVTX payloads as an export with `--include-blobs` holds them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from .report import Report, Sources, close, open_copies

# Type of an entry (NVTX_PAYLOAD_ENTRY_TYPE_*) -> how Python packs it; an enumeration has a type of its own.
_PACKED = {5: "<i", 18: "<Q", 22: "<Q"}
_ENUM = "<i"


def binary_payloads(sources: Sources, folder: Path, fourth_is_size: bool = False) -> list[Path]:
    """Replace the JSON text of NVTX payloads by binary data of the schemas that the report declares.

    The header's fourth number is where the payload begins or, with `fourth_is_size`, the size of everything: both are
    told of real exports.

    Truth: the payloads are the same, and so is the trace.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        _pack(report, fourth_is_size)
    return close(reports)


def _pack(report: Report, fourth_is_size: bool) -> None:
    entries = report.rows("SELECT domainId, schemaId, type, name, coalesce(offset, 0) FROM NVTX_PAYLOAD_SCHEMA_ENTRIES")
    sizes = {(d, s): n for d, s, n in report.rows("SELECT domainId, schemaId, payloadSize FROM NVTX_PAYLOAD_SCHEMAS")}
    values = "SELECT domainId, schemaId, name, coalesce(value, 0) FROM NVTX_PAYLOAD_ENUM_ENTRIES"
    enums = {(domain, kind, name): value for domain, kind, name, value in report.rows(values)}

    def packed(domain: int, text: str) -> bytes:
        fields = json.loads(text)
        names = {key: {name for d, s, _, name, _ in entries if (d, s) == key} for key in sizes}
        _, schema = next(key for key in sizes if key[0] == domain and names[key] == set(fields))
        body = bytearray(sizes[domain, schema])
        for d, s, kind, name, offset in entries:
            if (d, s) == (domain, schema):
                value = fields[name] if kind in _PACKED else enums[domain, kind, fields[name]]
                struct.pack_into(_PACKED.get(kind, _ENUM), body, offset, value)
        header = struct.pack("<4Q", domain, schema, len(body), 32 + len(body) if fourth_is_size else 32)
        return header + bytes(body)

    report.function("packed", 2, packed)
    changed = "binaryData = packed(domainId, jsonText), jsonText = NULL"
    report.run(f"UPDATE NVTX_EVENTS SET {changed} WHERE jsonText IS NOT NULL")
