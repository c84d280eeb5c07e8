"""Sums by name are those of NVIDIA's recipes and statistics."""

from __future__ import annotations

import csv
import re

import polars as pl
import pytest
from analysis_cases import SHARED, Analysed, Find
from polars.testing import assert_frame_equal

ORACLE = SHARED / "gpt-ddp-oracle"
# Names that NVIDIA gives to memory operations.
OPERATIONS = {"Device-to-Device": "memcpy Device-to-Device", "Host-to-Device": "memcpy Host-to-Device",
              "Device-to-Host": "memcpy Device-to-Host", "Memset": "memset"}  # fmt: skip


def rows_of(name: str) -> list[dict[str, str]]:
    with (ORACLE / name).open() as file:
        return list(csv.DictReader(file))


def test_kernels_are_those_of_cuda_gpu_kern_sum(analysed: Analysed, report: Find) -> None:
    report("gpt-ddp-oracle")
    columns = ("Count", "Sum", "Min", "Max", "Mean", "Median")
    said = {r["Name"]: tuple(float(r[c]) for c in columns) for r in rows_of("cuda_gpu_kern_sum/rank_stats.csv")}
    table = analysed("gpt-ddp").kernels.filter(pl.col("rank") == 0)
    # One name may have several classes (a launcher with another functor): their sums are the name's.
    whole = table.group_by("name").agg(
        pl.col("instances", "total_ns").sum(), pl.col("min_ns").min(), pl.col("max_ns").max()
    )
    assert {n: said[n][:4] for n in said} == {n: tuple(rest) for n, *rest in whole.rows()}
    single = table.filter(pl.len().over("name") == 1)
    for name, mean, median in single.select("name", "avg_ns", "med_ns").rows():
        assert (mean, median) == pytest.approx(said[name][4:], abs=0.051)


def test_api_calls_are_those_of_cuda_api_sum(analysed: Analysed, report: Find) -> None:
    report("gpt-ddp-oracle")
    said = {
        re.sub(r"_v\d+$", "", r["Name"]): [float(v) for k, v in r.items() if k != "Name"]
        for r in rows_of("stats__cuda_api_sum.csv")
    }
    table = analysed("gpt-ddp").api.filter((pl.col("rank") == 0) & (pl.col("kind") == "cuda"))
    columns = ("time_percent", "total_ns", "instances", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
    found = {row["name"]: [row[c] for c in columns] for row in table.rows(named=True)}
    assert found.keys() == said.keys()
    assert all(found[n] == pytest.approx(said[n], abs=0.051) for n in said)


def test_memory_operations_are_those_of_cuda_gpu_mem_time_sum(analysed: Analysed, report: Find) -> None:
    report("gpt-ddp-oracle")
    said = {r["Operation"]: (float(r["Time (%)"]), int(r["Total Time (ns)"]), int(r["Count"]), float(r["StdDev (ns)"]))
            for r in rows_of("stats__cuda_gpu_mem_time_sum.csv")}  # fmt: skip
    table = analysed("gpt-ddp").memory.filter(pl.col("rank") == 0)
    found = {
        f"[CUDA {OPERATIONS[row['name']]}]": (row["time_percent"], row["total_ns"], row["instances"], row["stddev_ns"])
        for row in table.rows(named=True)
    }
    assert found.keys() == said.keys()
    assert all(found[n] == pytest.approx(said[n], abs=0.051) for n in said)


def test_percentages_are_of_all_ranks_or_of_one(analysed: Analysed) -> None:
    sums = analysed("mpi-halo").classes.group_by("rank").agg(pl.col("time_percent").sum())
    assert sums["time_percent"].to_list() == pytest.approx([100.0] * 5)


def test_sums_of_a_single_rank_are_those_of_all(analysed: Analysed) -> None:
    found = analysed("single/saxpy.sqlite")
    for table in (found.kernels, found.classes, found.memory, found.api):
        over_all, of_rank = (
            table.filter(which).drop("rank") for which in (pl.col("rank").is_null(), pl.col("rank") == 0)
        )
        assert over_all.height == table.height / 2 > 0
        assert_frame_equal(over_all, of_rank)


def test_names_in_sums_are_texts(analysed: Analysed) -> None:
    """Who uses them in Python can look into them; in the frames of a run they are numbers of texts."""
    found = analysed("mpi-halo")
    assert found.run.calls.schema["name"] == pl.Categorical
    tables = found.kernels, found.classes, found.memory, found.api, found.overlap, found.gaps
    assert not any(kind == pl.Categorical for table in tables for kind in table.dtypes)
