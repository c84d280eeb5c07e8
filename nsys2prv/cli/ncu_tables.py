"""Figures of Nsight Compute as tables for the terminal: its files, kernels, classes of kernels, a roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.cli.explanation_tables import Section
from nsys2prv.cli.text_table import TABLE_ROWS, ms
from nsys2prv.errors import short

_HEAD = ("SM %", "tensor %", "tensor estimate %", "DRAM MB", "L2 MB", "occupancy %", "registers", "main stall")
_COUNTS = ("exact", "same kernel's mean", "class mean", "without")


def ncu_sections(analysis: Analysis) -> Iterator[Section]:
    """Yield name, title, column names and rows of each table; none without files of Nsight Compute."""
    if analysis.ncu is None:
        return
    yield "ncu", "Files of Nsight Compute", *_files(analysis.ncu.files)
    classes = [
        [short(row["class"]), ms(row["ns"]), str(row["kernels"]), *figure_cells(row), *count_cells(row)]
        for row in analysis.ncu.classes.head(TABLE_ROWS).rows(named=True)
    ]
    title = "Kernels by class, as Nsight Compute measured them: shares weighted by time, bytes a kernel"
    yield "ncu", title, ["class", "total ms", "kernels", *_HEAD, *_COUNTS], classes
    kernels = [
        [f"{row['time_percent']:.1f}", *figure_cells(row), *count_cells(row), short(row["class"]), short(row["name"])]
        for row in analysis.kernels.filter(pl.col("rank").is_null()).head(TABLE_ROWS).rows(named=True)
    ]
    yield "kernels", "Kernels, as Nsight Compute measured them", ["time %", *_HEAD, *_COUNTS, "class", "name"], kernels
    yield "roofline", "Roofline by class, each kernel alone under the profiler", *_roofline(analysis.ncu.roofline)


def figure_cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of the columns of _HEAD."""
    shares = ("sm_percent", "tensor_percent", "tensor_estimate_percent")
    return [
        *(_number(row[c], 1) for c in shares),
        *(_number(row[c], 3, 1e6) for c in ("dram_bytes", "l2_bytes")),
        _number(row["occupancy_percent"], 1),
        _number(row["registers"], 0),
        row["stall"] or "",
    ]


def count_cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of the columns of _COUNTS."""
    return [_number(row[c], 0) for c in ("exact", "same_kernel", "class_mean", "without")]


def _number(value: float | None, digits: int, unit: float = 1) -> str:
    return "" if value is None else f"{value / unit:.{digits}f}"


def _files(files: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            short(row["file"]),
            str(row["process"]),
            _number(row["rank"], 0),
            str(row["kernels"]),
            str(row["joined"]),
            row["placed"],
            _number(row["first"], 0),
            str(row["places"]),
        ]
        for row in files.rows(named=True)
    ]
    return ["file", "process", "rank", "kernels", "joined", "how", "first launch", "places that fit"], rows


def _roofline(table: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            short(row["class"]),
            f"{row['kernels']} of {row['of']}",
            ms(row["ns"]),
            _number(row["flop"], 3, 1e9),
            _number(row["bytes"], 3, 1e6),
            _number(row["flop_byte"], 2),
            _number(row["flop_s"], 3, 1e12),
            _number(row["peak_flop_s"], 1, 1e12),
            _number(row["flop_percent"], 1),
            _number(row["bytes_s"], 1, 1e9),
            _number(row["peak_bytes_s"], 0, 1e9),
            _number(row["bytes_percent"], 1),
            row["pipe"] or "",
            row["bound"] or "",
        ]
        for row in table.head(TABLE_ROWS).rows(named=True)
    ]
    head = [
        "class",
        "kernels",
        "total ms",
        "GFLOP",
        "DRAM MB",
        "FLOP/byte",
        "TFLOP/s",
        "peak",
        "%",
        "GB/s",
        "peak",
        "%",
    ]
    return [*head, "pipe", "lower roof"], rows
