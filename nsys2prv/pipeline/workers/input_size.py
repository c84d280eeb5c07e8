"""The size of the reports of a run, by which work is divided and its disk space forecast."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# Bytes that a report has as SQLite for each byte of Parquet, at least (a real one 8; some made longer 6 to 17).
_PACKED = 6


def input_size(paths: Sequence[Path]) -> int:
    """Add up the bytes of reports as a measure of their work. Parquet counts as the size of its SQLite form."""
    return sum(report_size(p) * (_PACKED if p.is_dir() and any(p.glob("*.parquet")) else 1) for p in paths)


def report_size(report: Path) -> int:
    """Return the bytes of a report; 0 if it is missing, such as a link to nowhere (an error when it is read)."""
    with suppress(OSError):
        if not report.is_dir():
            return report.stat().st_size
        with os.scandir(report) as files:
            return sum(file.stat().st_size for file in files)
    return 0
