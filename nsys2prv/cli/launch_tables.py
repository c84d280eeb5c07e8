"""Launches, queues, memory operations by kinds of memory, and NCCL bandwidths as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis import shown_tables as shown
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.cli.text_table import ALL_RANKS, TABLE_ROWS, Section, section

_MOVED = ("name", "memory", "instances", "total_ns", "bytes", "gb_s")
_BANDWIDTHS = ("rank", "communicator", "operation", "ranks", "kernels", "bytes", "algorithm_gb_s", "bus_gb_s",
               "bus_p50_gb_s")  # fmt: skip


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
