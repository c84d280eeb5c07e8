"""Tell a report from another of its name by its files, and by how these begin."""

from __future__ import annotations

import hashlib
from pathlib import Path

# Bytes of each file that count: an SQLite header with the first pages of the schema.
HASHED_BYTES = 1 << 16


def files_of(report: Path) -> list[Path]:
    """Return the files of a report, sorted: those in its folder, or itself. Raises OSError."""
    return sorted(file for file in report.iterdir() if file.is_file()) if report.is_dir() else [report]


def hash_of_begin(file: Path) -> str:
    """Return the SHA-256 of the first HASHED_BYTES of a file. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.sha256(opened.read(HASHED_BYTES)).hexdigest()
