"""Disk space: what temporary files and the trace need of it, and what is free."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nsys2prv.errors import OutputError, ReportError
from nsys2prv.families.family import Family
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.selection import Selection
from nsys2prv.model.event_types import HELD_TYPES
from nsys2prv.model.units import bytes_text
from nsys2prv.pipeline.workers.input_size import report_size
from nsys2prv.report.report import open_report

# Bytes of temporary files for a byte of input, at most about (real reports of many kinds; the most, 1.5, where several
# processes divide the same tables of one report), by whether it is Parquet, which is packed.
_ABOUT = {False: 1.6, True: 20.0}
# Lowest number of bytes on disk for a row that becomes an interval: as two points, or whole.
POINTS_BYTES, INTERVAL_BYTES = 2 * 25, 30


def check_temporary(folder: Path, paths: Sequence[Path], selection: Selection, row_bytes: int = POINTS_BYTES) -> None:
    """Refuse to begin where the temporary files cannot fit. Raises OutputError.

    Rows (`row_bytes` each) are counted only if space may be short. Nothing is refused if a time is chosen: the number
    of its rows is not known yet.
    """
    fits = shutil.disk_usage(folder).free > _about_temporary(paths)
    if fits or selection.time or selection.nvtx or selection.reduction.min_duration:
        return
    families = [f for f in FAMILIES if f.name in selection.families and f.draws and _draws_intervals(f)]
    rows = 0
    for path in paths:
        # A report that cannot be read is reported when it is read.
        with suppress(ReportError), open_report(path) as report:
            rows += sum(family.rows_in(report) for family in families)
    # Not the folder itself, which is ours, and gone when the user reads the message.
    what = "reading these reports takes temporary files of at least"
    check_space(folder.parent, rows * row_bytes, what, "choose a folder with more by --spill-dir")


def _about_temporary(paths: Sequence[Path]) -> float:
    """Estimate the bytes that the points of these reports take. They rarely take more."""
    return sum(report_size(p) * _ABOUT[p.is_dir()] for p in paths)


def _draws_intervals(family: Family) -> bool:
    """Return True if all rows of a family become intervals. Samples that change nothing are not written."""
    held = [t for t in family.emits if any(t.number in r for r in HELD_TYPES)]
    return bool(family.emits) and not held and family.count is None


def check_space(folder: Path, needed: int, what: str, elsewhere: str) -> None:
    """Refuse to write more bytes than the folder's disk has free. Raises OutputError.

    `what`: what takes them; `elsewhere`: how to write to another disk.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(
            f"{folder}: {what} {bytes_text(needed)}, and {bytes_text(free)} are free; free space there, {elsewhere}, "
            "or choose less (--time, --nvtx, --ranks, --skip)"
        )


def folder_size(folder: Path) -> int:
    """Add up the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
