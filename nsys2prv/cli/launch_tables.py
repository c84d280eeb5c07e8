"""Launches, queues, memory operations by kinds of memory, and NCCL bandwidths as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.cli.text_table import TABLE_ROWS, ms
from nsys2prv.errors import short


def launch_sections(analysis: Analysis) -> Iterator[tuple[str, str, list[str], list[list[str]]]]:
    """Yield name, title, column names and rows of each table."""
    yield "memory-kinds", "Memory operations by kinds of memory, all ranks", *_moved(analysis)
    yield "launches", "Launches", *_launches(analysis)
    yield "queues", "Queues of streams: launched and not started", *_queues(analysis)
    yield (
        "nccl-bandwidths",
        "NCCL bandwidths of whole kernels, with the time in which they wait",
        *_bandwidths(analysis),
    )


def _moved(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            row["name"],
            row["memory"] or "",
            str(row["instances"]),
            ms(row["total_ns"]),
            "" if row["bytes"] is None else f"{row['bytes'] / 1e6:.3f}",
            "" if row["gb_s"] is None else f"{row['gb_s']:.3f}",
        ]
        for row in analysis.memory_kinds.filter(pl.col("rank").is_null()).head(TABLE_ROWS).rows(named=True)
    ]
    return ["name", "memory", "instances", "total ms", "MB", "GB/s"], rows


def _launches(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    """Return launches over all ranks, then by name, then by rank."""
    table = analysis.launches
    by_name = table.filter(pl.col("rank").is_null()).head(TABLE_ROWS + 1)
    by_rank = table.filter(pl.col("rank").is_not_null() & pl.col("name").is_null()).head(TABLE_ROWS)
    rows = [
        [
            "all" if row["rank"] is None else str(row["rank"]),
            str(row["count"]),
            *(f"{row[f'wait_p{p}_ns'] / 1000:.3f}" for p in (50, 90, 99)),
            # Calls that were cut by --time have no length.
            *("" if row[c] is None else f"{row[c] / 1000:.3f}" for c in ("call_p50_ns", "kernel_p50_ns")),
            *(ms(row[c]) for c in ("call_ns", "kernel_ns")),
            short(row["name"] or ""),
        ]
        for row in pl.concat([by_name, by_rank]).rows(named=True)
    ]
    head = ["rank", "count", "to start p50 us", "p90 us", "p99 us", "call p50 us", "kernel p50 us", "calls ms"]
    return [*head, "kernels ms", "name"], rows


def _queues(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    table = analysis.queues.sort("mean", descending=True, maintain_order=True).head(TABLE_ROWS)
    rows = [[str(r), stream, str(n), str(most), f"{mean:.2f}"] for r, stream, n, most, mean in table.rows()]
    return ["rank", "stream", "activities", "longest", "mean"], rows


def _bandwidths(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    rates = ("algorithm_gb_s", "bus_gb_s", "bus_p50_gb_s")
    rows = [
        [
            str(row["rank"]),
            row["communicator"],
            row["operation"],
            str(row["ranks"] or ""),
            str(row["kernels"]),
            f"{row['bytes'] / 1e6:.3f}",
            *("" if row[c] is None else f"{row[c]:.3f}" for c in rates),
        ]
        for row in analysis.bandwidths.sort("bytes", descending=True, maintain_order=True)
        .head(2 * TABLE_ROWS)
        .rows(named=True)
    ]
    head = ["rank", "communicator", "operation", "ranks", "kernels", "MB", "algorithm GB/s", "bus GB/s", "bus p50 GB/s"]
    return head, rows
