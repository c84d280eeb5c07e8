"""Kernels and copies that a report records without a length are drawn 1 ns long, and count no time in any sum."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from exports import MAIN, PROCESS, Drawn, export, query

import nsys2prv

LAUNCHES = [(n * 10, n * 10 + 5, MAIN, "cudaLaunchKernel", n) for n in range(1, 7)]
KERNELS = [(100, 100), (200, 230), (300, 300), (400, 440)]
Copy = tuple[int, int, int]
COPIES = [(500, 500, 1000), (600, 610, 4000)]


def report(folder: Path, kernels: Sequence[tuple[int, int]] = KERNELS, copies: Sequence[Copy] = COPIES) -> Path:
    device = "start end deviceId contextId streamId correlationId globalPid"
    return export(
        folder / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", LAUNCHES),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            f"{device} shortName demangledName",
            [(*times, 0, 1, 7, n, PROCESS, "k", "k()") for n, times in enumerate(kernels, 1)],
        ),
        CUPTI_ACTIVITY_KIND_MEMCPY=(
            f"{device} bytes copyKind",
            [(a, b, 0, 1, 7, n, PROCESS, size, 1) for n, (a, b, size) in enumerate(copies, 5)],
        ),
    )


def test_sums_are_those_of_sql(tmp_path: Path) -> None:
    path = report(tmp_path)
    found = nsys2prv.analyze(path, question=nsys2prv.Question(window="trace"))
    columns = ["instances", "total_ns", "min_ns", "max_ns"]
    for table, of in ((found.kernels, "KERNEL"), (found.memory, "MEMCPY")):
        sums = f"SELECT count(*), sum(end - start), min(end - start), max(end - start) FROM CUPTI_ACTIVITY_KIND_{of}"
        assert table.filter(pl.col("rank").is_null()).select(columns).rows() == query(path, sums)
    assert found.launches["kernel_ns"][0] == 70
    # Of 5,000 bytes in 10 ns.
    assert found.memory.select("bytes", "gb_s").row(0) == (5000, 500.0)


def test_they_are_drawn(tmp_path: Path) -> None:
    drawn = Drawn(report(tmp_path), "cuda_api", "kernels")
    assert [(start, end) for _, start, end, _ in drawn.intervals(63000006)] == [
        (100, 101),
        (200, 230),
        (300, 301),
        (400, 440),
    ]


def test_where_nothing_lasts_nothing_has_a_share_or_a_bandwidth(tmp_path: Path) -> None:
    """Figures are numbers, or there are none: JSON has no others."""
    found = nsys2prv.analyze(report(tmp_path, [(100, 100), (200, 150)], [(500, 500, 1000)]))
    assert set(found.kernels["time_percent"]) == set(found.memory["time_percent"]) == {0.0}
    assert set(found.memory["gb_s"]) == {None}
    json.dumps(found.as_json(), allow_nan=False)
