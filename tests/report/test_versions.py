"""Every version's export gives the same trace, but for what it has no column or table for (docs/versions.md)."""

from __future__ import annotations

import re
from pathlib import Path

import construct
import polars as pl
import pytest
from construct.versions import METRICS_SINCE, OF_SOURCES, VERSIONS
from runs import SAMPLES, records

import nsys2prv
from nsys2prv.families.registry import FAMILIES

RUNS = {
    "mpi-halo": sorted(SAMPLES.glob("mpi-halo/*.sqlite")),
    "saxpy": [SAMPLES / "single/saxpy.sqlite"],
    "graph-node": [SAMPLES / "single/graph-node.sqlite"],
}
# All that is drawn of a report; what the profiler says of itself is not compared.
CHOSEN = nsys2prv.Selection(tuple(f.name for f in FAMILIES if f.name not in {"overhead", "tensor_estimate"}))
ORDER = list(VERSIONS)
PAGE = (Path(__file__).parents[2] / "docs/versions.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_trace_is_the_same_whatever_the_version(version: str, run: str, tmp_path: Path) -> None:
    made = construct.of_version(RUNS[run], tmp_path / "made", version)
    for name, reports in (("native", RUNS[run]), ("made", made)):
        (tmp_path / name).mkdir(exist_ok=True)
        nsys2prv.translate(reports, tmp_path / name / "trace", selection=CHOSEN, execution=nsys2prv.Execution(jobs=1))
    native, other = (nsys2prv.read_prv(tmp_path / name / "trace.prv") for name in ("native", "made"))
    assert other.names == native.names
    assert _metrics_by_name(other) == _metrics_by_name(native)
    assert other.messages.equals(native.messages)
    if run != "saxpy" or ORDER.index(version) >= ORDER.index(METRICS_SINCE):
        made_at, native_at = tmp_path / "made", tmp_path / "native"
        assert records(made_at / "trace.prv") == records(native_at / "trace.prv")
        for name in ("trace.pcf", "trace.row"):
            assert (made_at / name).read_bytes() == (native_at / name).read_bytes()


def _metrics_by_name(trace: nsys2prv.Trace) -> list[tuple[object, ...]]:
    """Events, each of GPU metrics by its name: without their table metrics have no numbers of their own."""
    names = pl.col("type").replace_strict(dict(trace.types), default="")
    is_metric = pl.col("type").is_between(9400, 9499)
    key = pl.when(is_metric).then(names).otherwise(pl.col("type").cast(pl.String))
    return sorted(trace.events.select("time", "task", "thread", "value", key.alias("key")).rows())


def test_versions_in_one_run_are_one_trace(tmp_path: Path) -> None:
    """Four ranks, each recorded by another nsys."""
    versions = ("2023.3", "2023.4", "2025.6", "2026.2")
    made = [
        construct.of_version(report, tmp_path / version, version)[0]
        for report, version in zip(RUNS["mpi-halo"], versions, strict=True)
    ]
    for name, reports in (("native", RUNS["mpi-halo"]), ("made", made)):
        nsys2prv.translate(reports, tmp_path / name, selection=CHOSEN, execution=nsys2prv.Execution(jobs=1))
    assert records(tmp_path / "made.prv") == records(tmp_path / "native.prv")


def test_the_highest_form_of_a_table_is_read(tmp_path: Path) -> None:
    (report,) = construct.of_version(RUNS["saxpy"], tmp_path / "made", OF_SOURCES)
    with construct.report.Report(report) as changed:
        changed.run("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V3")
        changed.run("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V2 (start INTEGER)")
    for name, path in (("native", RUNS["saxpy"][0]), ("other", report)):
        nsys2prv.translate(path, tmp_path / name, execution=nsys2prv.Execution(jobs=1))
    assert records(tmp_path / "other.prv") == records(tmp_path / "native.prv")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_page_says_what_each_version_brought(version: str) -> None:
    row = re.search(rf"^\| {re.escape(version)}\b.*$", PAGE, re.MULTILINE)
    assert row is not None, f"docs/versions.md lacks {version}"
    told = VERSIONS[version]
    assert told.schema in row[0]
    columns = " ".join((*told.columns.values(), *told.dropped.values())).split()
    assert {n for n in (*told.tables, *columns) if f"`{n}`" not in row[0]} == set()
