"""Which columns of which tables are read."""

from __future__ import annotations

from collections.abc import Sequence

from nsys2prv.activities.anchors import READS as ANCHOR_READS
from nsys2prv.activities.family import Family
from nsys2prv.activities.relations import DEVICE_TABLES, DEVICE_WORK_READS, NVTX_KEYS
from nsys2prv.report import schema
from nsys2prv.report.schema import Table, together


def read_columns(
    families: Sequence[Family], anchors: bool = False, ranges: bool = False
) -> dict[Table, tuple[str, ...]]:
    """Columns of each table that is needed by any of the families, their relations, or what else is asked for."""
    reads = [family.reads for family in families]
    if anchors:
        reads.append(ANCHOR_READS)
    if ranges:
        reads.append({schema.NVTX: NVTX_KEYS})
    if any(table in needed for needed in reads for table in DEVICE_TABLES):
        reads.append(DEVICE_WORK_READS)
    return together(reads)
