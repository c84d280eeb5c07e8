"""Figures of Nsight Compute as tables for the terminal: its files, kernels, classes of kernels, a roofline."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis import shown_tables as shown
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.ncu.tables import COLUMNS
from nsys2prv.cli.text_table import TABLE_ROWS, Section, section

_FILE = ("file", "process", "rank", "kernels", "joined", "placed", "first", "places")
_ROOFLINE = ("class", "kernels", "ns", "flop", "bytes", "flop_byte", "flop_s", "peak_flop_s", "flop_percent", "bytes_s",
             "peak_bytes_s", "bytes_percent", "pipe", "bound")  # fmt: skip


def ncu_sections(analysis: Analysis) -> Iterator[Section]:
    """Yield name, title, heads and rows of each table; none without files of Nsight Compute."""
    if analysis.ncu is None:
        return
    yield section(shown.NCU_FILES, _FILE, analysis.ncu.files.to_dicts())
    classes = analysis.ncu.classes.head(TABLE_ROWS).to_dicts()
    yield section(shown.NCU_CLASSES, ("class", "ns", "kernels", *COLUMNS), classes)
    kernels = analysis.kernels.filter(pl.col("rank").is_null()).head(TABLE_ROWS).to_dicts()
    columns = ("time_percent", *COLUMNS, "class", "name")
    yield section(shown.KERNELS, columns, kernels, ", as Nsight Compute measured them")
    roofline = analysis.ncu.roofline.head(TABLE_ROWS).to_dicts()
    told = [{**row, "kernels": f"{row['kernels']} of {row['of']}"} for row in roofline]
    yield section(shown.ROOFLINE, _ROOFLINE, told)
