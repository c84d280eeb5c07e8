"""gpt-ddp.0.0 against what NVIDIA's own `nsys stats` and `nsys recipe` print of it."""

from __future__ import annotations

import drawn
import polars as pl
import pytest
from runs import REPORTS, Runs, Translated, reports_of

pytestmark = pytest.mark.shared
ORACLE = REPORTS / "gpt-ddp-oracle"


@pytest.fixture
def rank0(translations: Runs) -> Translated:
    if not ORACLE.is_dir():
        pytest.skip("no results of NVIDIA's tools")
    return translations.alone(reports_of("gpt-ddp")[0])


def table(name: str, *columns: str) -> list[tuple[object, ...]]:
    """Columns of one of the CSV files, sorted."""
    return sorted(pl.read_csv(ORACLE / name, infer_schema_length=None).select(columns).rows())


def summed(rows: pl.DataFrame, label: pl.Expr | str = "label") -> list[tuple[object, ...]]:
    """(label, number, sum of durations) of intervals, sorted."""
    by = pl.col(label) if isinstance(label, str) else label
    ns = (pl.col("end") - pl.col("start")).sum()
    return sorted(rows.group_by(by.alias("label")).agg(n=pl.len(), ns=ns).rows())


def kernels(run: Translated) -> pl.DataFrame:
    return pl.concat([run.trace.intervals(63000006), run.trace.intervals(63000007)])


def test_api_calls(rank0: Translated) -> None:
    want = pl.read_csv(ORACLE / "stats__cuda_api_sum.csv").with_columns(pl.col("Name").str.replace(r"_v\d+$", ""))
    grouped = want.group_by("Name").agg(pl.col("Num Calls").sum(), pl.col("Total Time (ns)").sum())
    assert summed(rank0.trace.intervals(63000000)) == sorted(grouped.rows())


def test_kernels_by_short_name(rank0: Translated) -> None:
    assert summed(kernels(rank0)) == table("cuda_gpu_kern_sum/all_stats.csv", "Name", "Count", "Sum")


def test_memory_operations(rank0: Translated) -> None:
    operations = rank0.trace.intervals(63000001)
    name = pl.when(pl.col("label") == "Memset").then(pl.lit("[CUDA memset]"))
    name = name.otherwise(pl.format("[CUDA memcpy {}]", "label"))
    assert summed(operations, name) == table(
        "stats__cuda_gpu_mem_time_sum.csv", "Operation", "Count", "Total Time (ns)"
    )


def test_nvtx_ranges(rank0: Translated) -> None:
    got = [
        (f"{'' if domain == 'default' else domain}:{text}", n, ns)
        for number in rank0.trace.types
        if (kind := drawn.kind_of(rank0.trace, number)) and kind.startswith("NVTX ")
        for domain in [kind.removeprefix("NVTX ")]
        for text, n, ns in summed(rank0.trace.intervals(number))
    ]
    assert sorted(got) == table("stats__nvtx_sum.csv", "Range", "Instances", "Total Time (ns)")


def test_os_calls(rank0: Translated) -> None:
    known = table("stats__osrt_sum.csv", "Name", "Num Calls", "Total Time (ns)")
    got = summed(rank0.trace.intervals(70000003))
    # The tool leaves out a call without a name, of no length.
    assert [row for row in got if row[0] != "[Unknown]"] == known


def test_nccl_kernels_one_by_one(rank0: Translated) -> None:
    want = table("nccl_gpu_overlap_trace/rank_trace.csv", "Start", "End", "Name")
    want = [row for row in want if str(row[2]).startswith("nccl")]
    got = rank0.trace.intervals(63000007).select("start", "end", "label").rows()
    shift = int(str(want[0][0])) - min(row[0] for row in got)
    assert sorted((a + shift, b + shift, name) for a, b, name in got) == want


ATTRIBUTES = {
    "CorrId": 9200, "GrdX": 9101, "GrdY": 9102, "GrdZ": 9103, "BlkX": 9104, "BlkY": 9105, "BlkZ": 9106,
    "Reg/Trd": 9110, "StcSMem (MB)": 9107, "DymSMem (MB)": 9108, "Bytes (MB)": 63000002,
    "Throughput (MB/s)": 70000002,
}  # fmt: skip
SCALE = {"StcSMem (MB)": 1e6, "DymSMem (MB)": 1e6, "Bytes (MB)": 1e6, "Throughput (MB/s)": 1e6}


def test_every_activity_of_the_device(rank0: Translated) -> None:
    want = pl.read_csv(ORACLE / "stats__cuda_gpu_trace.csv", infer_schema_length=None).sort("Start (ns)", "CorrId")
    got = pl.concat([drawn.attributes(rank0.trace, n) for n in (63000001, 63000006, 63000007)], how="diagonal")
    got = got.sort("time", "a9200")
    assert got.height == want.height
    assert (got["time"] - want["Start (ns)"]).n_unique() == 1
    for column, number in ATTRIBUTES.items():
        mine = got[f"a{number}"].fill_null(0).cast(pl.Float64) / SCALE.get(column, 1)
        theirs = want[column].cast(pl.Float64).fill_null(0)
        # Printed with three decimals; their throughput is rounded on the way, to 2e-5 of it.
        assert ((mine - theirs).abs() <= 0.0005 + 2e-5 * theirs).all(), column
