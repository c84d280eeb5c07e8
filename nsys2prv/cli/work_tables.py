"""Tables of the work of devices for the terminal: launches, memory operations, NCCL bandwidths, Nsight Compute."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis import shown_tables as shown
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.ncu.tables import COLUMNS
from nsys2prv.cli.text_table import ALL_RANKS, TABLE_ROWS, Section, section

_MOVED = ("name", "memory", "instances", "total_ns", "bytes", "gb_s")
_BANDWIDTHS = ("rank", "communicator", "operation", "ranks", "kernels", "bytes", "algorithm_gb_s", "bus_gb_s",
               "bus_p50_gb_s")  # fmt: skip
_FILE = ("file", "process", "rank", "kernels", "joined", "placed", "first", "places")
_ROOFLINE = ("class", "kernels", "ns", "flop", "bytes", "flop_byte", "flop_s", "peak_flop_s", "flop_percent", "bytes_s",
             "peak_bytes_s", "bytes_percent", "pipe", "bound")  # fmt: skip


def launch_sections(analysis: Analysis) -> Iterator[Section]:
    """Yield name, title, heads and rows of each table."""
    kinds = analysis.memory_kinds.filter(pl.col("rank").is_null()).head(TABLE_ROWS)
    yield section(shown.MEMORY_KINDS, _MOVED, kinds.to_dicts(), ALL_RANKS)
    yield _launches(analysis)
    queues = analysis.queues.sort("mean", descending=True, maintain_order=True).head(TABLE_ROWS)
    yield section(shown.QUEUES, queues.columns, queues.to_dicts())
    # The number of ranks is 0 where it is not known.
    bandwidths = analysis.bandwidths.with_columns(pl.col("ranks").replace(0, None))
    most_bytes = bandwidths.sort("bytes", descending=True, maintain_order=True).head(2 * TABLE_ROWS)
    yield section(shown.NCCL_BANDWIDTHS, _BANDWIDTHS, most_bytes.to_dicts())


def _launches(analysis: Analysis) -> Section:
    """Return launches over all ranks, then by name, then by rank."""
    table = analysis.launches
    by_name = table.filter(pl.col("rank").is_null()).head(TABLE_ROWS + 1)
    by_rank = table.filter(pl.col("rank").is_not_null() & pl.col("name").is_null()).head(TABLE_ROWS)
    columns = [c for c in table.columns if c != "name"]
    return section(shown.LAUNCHES, [*columns, "name"], pl.concat([by_name, by_rank]).to_dicts())


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
    rows = [{**row, "kernels": f"{row['kernels']} of {row['of']}"} for row in roofline]
    yield section(shown.ROOFLINE, _ROOFLINE, rows)
