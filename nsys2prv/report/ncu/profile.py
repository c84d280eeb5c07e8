"""Files of Nsight Compute: the figures of the kernels that it profiled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nsys2prv.errors import ReportError, UsageError
from nsys2prv.report.ncu.figures import figures, is_read
from nsys2prv.report.ncu.pages import read_page
from nsys2prv.report.ncu.tool import RAW, raw_page


class ProfileFile(NamedTuple):
    """A file of Nsight Compute, and the rank that was profiled; None: the rank whose kernels it has."""

    path: Path
    rank: int | None = None


class Profile(NamedTuple):
    """The kernels of a file in the order of their profiling: KERNEL_ID, FIGURES."""

    file: ProfileFile
    kernels: pl.DataFrame


def profile_file(text: str | Path) -> ProfileFile:
    """Return the file that a text `FILE` or `RANK=FILE` names. Raises UsageError."""
    rank = re.fullmatch(r"(\d{1,6})=(.+)", str(text), re.DOTALL)
    if not str(text).strip():
        raise UsageError("--ncu names no file; give a .csv or .ncu-rep of Nsight Compute, or RANK=FILE")
    return ProfileFile(Path(rank[2]), int(rank[1])) if rank else ProfileFile(Path(text))


def read_profile(file: ProfileFile) -> Profile:
    """Read a file of Nsight Compute: CSV of its raw or details page, or `.ncu-rep`. Raises ReportError."""
    path = file.path
    try:
        data = raw_page(path, is_read) if path.suffix == RAW else path.read_bytes()
    except OSError as error:
        advice = "give a .csv or .ncu-rep of Nsight Compute"
        raise ReportError(path, f"cannot be read ({error.strerror})", advice) from None
    return Profile(file, figures(read_page(path, data, is_read)))
