"""The columns of each table that are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nsys2prv.families.device_work import DEVICE_TABLES, DEVICE_WORK_READS
from nsys2prv.families.family import Family
from nsys2prv.families.nvtx_events import NVTX_READS
from nsys2prv.families.source_tables import TIME_COLUMNS
from nsys2prv.report.declaration import Table


def read_columns(
    families: Sequence[Family], ranges: bool = False, beside: Sequence[Family] = ()
) -> dict[Table, tuple[str, ...]]:
    """Return the columns of each table that families need, also for device work and NVTX events, and further look-ups.

    Families `beside` have a source of their own. In tables that they read, too, all columns that decide if a row is
    left out are included: so both sources leave out the same rows.
    """
    reads = [family.reads for family in families]
    if ranges:
        reads.append(NVTX_READS)
    if any(table in needed for needed in reads for table in DEVICE_TABLES):
        reads.append(DEVICE_WORK_READS)
    own = _columns_of_all(reads)
    if not beside:
        return own
    shared = {t: columns for t, columns in read_columns(beside).items() if t in own}
    telling = {t: [c for c in columns if c in TIME_COLUMNS or t.columns[c].required] for t, columns in shared.items()}
    return _columns_of_all([own, telling])


def _columns_of_all(reads: Iterable[Mapping[Table, Iterable[str]]]) -> dict[Table, tuple[str, ...]]:
    """Return columns of each table that any of several names, in the order of the table's declaration."""
    named: dict[Table, set[str]] = {}
    for needed in reads:
        for table, columns in needed.items():
            named.setdefault(table, set()).update(columns)
    return {table: tuple(sorted(c, key=list(table.columns).index)) for table, c in named.items()}
