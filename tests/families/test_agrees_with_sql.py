"""Everything in a trace is where plain SQL on the reports says, to the nanosecond."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import drawn
import oracle
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from runs import ALL_RUNS, FOLDERS, REPORTS, SHARED, Runs, Translated, parameters, records, reports_of

import nsys2prv


def shift(run: Translated) -> int:
    """UTC of the trace's time 0: one number for the whole run, here by the first interval."""
    return int(run.truth["start"].min() - run.intervals["start"].min())


@pytest.mark.parametrize("run", ALL_RUNS)
def test_every_interval_is_on_the_row_and_at_the_time_that_sql_says(run: str, translations: Runs) -> None:
    made = translations.whole(run)
    truth = made.truth.with_columns(pl.col("start", "end") - shift(made))
    for (kind,), want in truth.partition_by("kind", as_dict=True).items():
        got = made.intervals.filter(pl.col("kind") == kind)
        assert_frame_equal(got.sort(got.columns), want.sort(want.columns))
    assert set(made.intervals["kind"]) == set(truth["kind"])


@pytest.mark.parametrize("run", ALL_RUNS)
def test_every_sample_of_every_metric_is_the_value_that_the_trace_holds_then(run: str, translations: Runs) -> None:
    made = translations.whole(run)
    truth = pl.concat(oracle.metrics(report) for report in made.reports)
    truth = truth.with_columns(pl.col("time") - shift(made)).sort("time")
    written = drawn.metrics(made.trace)
    key = ["host", "place", "metric"]
    held = truth.join_asof(written.sort("time").drop("pid"), on="time", by=key, check_sortedness=False)
    assert held.filter(pl.col("value").ne_missing(pl.col("value_right"))).is_empty()
    assert written.join(truth, on=[*key, "time", "value"], how="anti").is_empty()
    users = {user for report in made.reports for user in oracle.gpu_users(report)}
    assert set(written.select("host", "place", "pid").unique().rows()) <= users


@pytest.mark.parametrize("run", ALL_RUNS)
def test_a_metric_is_written_when_it_changed_and_at_its_first_and_last_sample(run: str, translations: Runs) -> None:
    made = translations.whole(run)
    truth = pl.concat(oracle.metrics(report) for report in made.reports)
    metric = ["host", "place", "metric"]
    times = truth.sort("time", maintain_order=True).with_columns(before=pl.col("value").shift(1).over(metric))
    last = pl.col("time") == pl.col("time").max().over(metric)
    wanted = times.filter(pl.col("value").ne_missing(pl.col("before")) | last).select(*metric, "time", "value")
    written = drawn.metrics(made.trace).drop("pid").with_columns(pl.col("time") + shift(made))
    assert_frame_equal(written.sort(written.columns), wanted.sort(wanted.columns))


@pytest.mark.parametrize("run", ALL_RUNS)
def test_first_event_is_at_zero_and_the_header_holds_the_last(run: str, translations: Runs) -> None:
    trace = translations.default(run).trace
    assert trace.events["time"].min() == 0
    assert trace.events["time"].max() == trace.header.duration


ALONE = [
    pytest.param(run, position, marks=[pytest.mark.shared] if run in ("mesh-tp-pp", "mpi-cpu") else [])
    for run in FOLDERS
    for position in range(4)
]


@pytest.mark.parametrize(("run", "position"), ALONE)
def test_a_report_alone_has_the_numbers_and_durations_that_sql_counts(
    run: str, position: int, translations: Runs
) -> None:
    report = reports_of(run)[position]
    made = translations.alone(report)
    assert oracle.counts(made.intervals) == oracle.counts(oracle.intervals(report))


NUMBER_AND_SUM = 'count(*), sum(max("end" - start, 1))'
KERNELS = f"SELECT value, {NUMBER_AND_SUM} FROM {oracle.KERNEL} JOIN StringIds s ON s.id = shortName"
COPIES = f"{oracle.MEMCPY} JOIN ENUM_CUDA_MEMCPY_OPER e ON e.id = copyKind"
RANGES = "NVTX_EVENTS LEFT JOIN StringIds s ON s.id = textId WHERE eventType = 59 AND domainId = 0"
SUMS = {
    63000000: f"SELECT unversioned(value), {NUMBER_AND_SUM} FROM {oracle.RUNTIME} JOIN StringIds s ON s.id = nameId"
    " GROUP BY 1",
    63000006: f"{KERNELS} WHERE NOT {oracle.IS_NCCL} GROUP BY 1",
    63000007: f"{KERNELS} WHERE {oracle.IS_NCCL} GROUP BY 1",
    63000001: f"SELECT label, {NUMBER_AND_SUM} FROM {COPIES} GROUP BY 1"
    f" UNION ALL SELECT 'Memset', {NUMBER_AND_SUM} FROM {oracle.MEMSET}",
    70000003: f"SELECT value, {NUMBER_AND_SUM} FROM OSRT_API JOIN StringIds s ON s.id = nameId GROUP BY 1",
    9600: f"SELECT coalesce(text, value), {NUMBER_AND_SUM} FROM {RANGES} GROUP BY 1",
}


@pytest.mark.parametrize("number", SUMS)
def test_sums_by_name_are_those_of_a_group_by(number: int, translations: Runs, gpt_ddp: list[Path]) -> None:
    for report in gpt_ddp:
        rows = translations.alone(report).trace.intervals(number)
        summed = rows.group_by("label").agg(n=pl.len(), ns=(pl.col("end") - pl.col("start")).sum())
        assert sorted(summed.rows()) == sorted(oracle.sql(report, SUMS[number]))


# Column of a kernel or memory operation -> event type of the same line.
KERNEL_COLUMNS = {
    "gridX": 9101, "gridY": 9102, "gridZ": 9103, "blockX": 9104, "blockY": 9105, "blockZ": 9106,
    "staticSharedMemory": 9107, "dynamicSharedMemory": 9108, "localMemoryPerThread": 9109, "registersPerThread": 9110,
    "correlationId": 9200,
}  # fmt: skip


def said(trace: nsys2prv.Trace, number: int, types: list[int]) -> list[tuple[int, ...]]:
    """(time, values of the types) of every begin of an event type; what is not written is 0."""
    rows = drawn.attributes(trace, number)
    wanted = [pl.col(f"a{t}") if f"a{t}" in rows.columns else pl.lit(0).alias(f"a{t}") for t in types]
    return rows.select("time", *wanted).fill_null(0).rows()


@pytest.mark.parametrize("run", ALL_RUNS)
def test_attributes_of_kernels_equal_sql(run: str, translations: Runs) -> None:
    made = translations.whole(run)
    types = list(KERNEL_COLUMNS.values())
    got = [row for number in (63000006, 63000007) for row in said(made.trace, number, types)]
    columns = ", ".join(f"coalesce({c}, 0)" for c in KERNEL_COLUMNS)
    want = [
        row
        for report in made.reports
        if oracle.KERNEL in oracle.tables(report)
        for row in oracle.sql(
            report, f"SELECT start + {oracle.epoch(report) - shift(made)}, {columns} FROM {oracle.KERNEL}"
        )
    ]
    assert sorted(got) == sorted(want)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_bytes_and_throughput_of_memory_operations_equal_sql(run: str, translations: Runs) -> None:
    made = translations.whole(run)
    got = said(made.trace, 63000001, [63000002, 70000002, 9200])
    rate = 'CAST(round(bytes * 1e9 / max("end" - start, 1)) AS INTEGER)'
    want = [
        row
        for report in made.reports
        for table in sorted({oracle.MEMCPY, oracle.MEMSET} & oracle.tables(report))
        for row in oracle.sql(
            report, f"SELECT start + {oracle.epoch(report) - shift(made)}, bytes, {rate}, correlationId FROM {table}"
        )
    ]
    assert sorted(row[:2] + row[3:] for row in got) == sorted(row[:2] + row[3:] for row in want)
    # Halves round one way here and another way there.
    assert all(abs(a[2] - b[2]) <= 1 for a, b in zip(sorted(got), sorted(want), strict=True))


@pytest.mark.parametrize("run", parameters("gpt-ddp", "unified-memory"))
def test_full_names_of_kernels_equal_sql(run: str, translations: Runs) -> None:
    made = translations.whole(run)
    names = made.trace.values[70000001]
    got = [
        (time, names[value]) for number in (63000006, 63000007) for time, value in said(made.trace, number, [70000001])
    ]
    want = [
        (time, " ".join(name.split()))
        for report in made.reports
        for time, name in oracle.sql(
            report,
            f"SELECT start + {oracle.epoch(report) - shift(made)}, value FROM {oracle.KERNEL}"
            " JOIN StringIds s ON s.id = demangledName",
        )
    ]
    assert sorted((time, " ".join(name.split())) for time, name in got) == sorted(want)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_a_line_goes_from_each_call_to_the_activity_that_it_launched(run: str, translations: Runs) -> None:
    made = translations.whole(run)
    got = made.trace.messages.filter(pl.col("tag") == 55001).select("sent", "received", "size")
    want = [
        (*row, 0)
        for report in made.reports
        for table in (oracle.KERNEL, oracle.MEMCPY, oracle.MEMSET, oracle.GRAPH)
        if {table, oracle.RUNTIME} <= oracle.tables(report)
        for row in oracle.sql(
            report,
            f"SELECT c.start + {oracle.epoch(report) - shift(made)}, a.start + {oracle.epoch(report) - shift(made)}"
            f" FROM {table} a JOIN {oracle.RUNTIME} c ON c.correlationId = a.correlationId"
            " AND c.globalTid >> 24 = a.globalPid >> 24",
        )
    ]
    assert sorted(got.rows()) == sorted(want)


@pytest.mark.shared
@pytest.mark.parametrize("run", ALL_RUNS)
def test_check_trace_finds_nothing(run: str, translations: Runs) -> None:
    made = translations.default(run)
    tool = SHARED / "tools" / "check-trace"
    if not tool.exists():
        pytest.skip("no check-trace")
    done = subprocess.run([sys.executable, tool, made.prv, *made.reports], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.shared
def test_a_columnar_export_gives_the_numbers_of_its_parquet_files(tmp_path: Path) -> None:
    export = REPORTS / "columnar" / "mesh-tp-pp.0.0_pqtdir"
    if not export.is_dir():
        pytest.skip("no columnar export")
    made = nsys2prv.translate(export, tmp_path / "t")
    trace = nsys2prv.read_prv(tmp_path / "t.prv")
    names = pl.read_parquet(export / "StringIds.parquet").select(pl.col("id").cast(pl.Int64), "value")
    length = (pl.col("end").cast(pl.Int64) - pl.col("start").cast(pl.Int64)).sum()

    def summed(table: str, name: str) -> pl.DataFrame:
        rows = pl.read_parquet(export / f"{table}.parquet").with_columns(pl.col(name).cast(pl.Int64))
        joined = rows.join(names, left_on=name, right_on="id")
        label = pl.col("value").str.replace(r"_v\d+$", "")
        return joined.group_by(label=label).agg(n=pl.len().cast(pl.Int64), ns=length)

    kernels = pl.concat([trace.intervals(63000006), trace.intervals(63000007)])
    for got, want in (
        (trace.intervals(63000000), summed(oracle.RUNTIME, "nameId")),
        (kernels, summed(oracle.KERNEL, "shortName")),
    ):
        mine = got.group_by("label").agg(n=pl.len().cast(pl.Int64), ns=length)
        assert_frame_equal(mine.sort("label"), want.sort("label"))
    assert (
        made.rows["nvtx"] + trace.intervals(9500).height
        == pl.read_parquet(export / "NVTX_EVENTS.parquet").filter(pl.col("eventType").cast(pl.Int64) == 59).height
    )


@pytest.mark.shared
def test_a_columnar_export_gives_the_trace_of_its_sqlite_export(tmp_path: Path) -> None:
    # The SQLite one was made later, with the metrics of half the time.
    without = nsys2prv.Selection(tuple(f for f in nsys2prv.Selection().families if f != "gpu_metrics"))
    export = REPORTS / "columnar" / "mesh-tp-pp.0.0_pqtdir"
    if not export.is_dir():
        pytest.skip("no columnar export")
    nsys2prv.translate(export, tmp_path / "columnar", selection=without)
    nsys2prv.translate(reports_of("mesh-tp-pp")[0], tmp_path / "sqlite", selection=without)
    assert records(tmp_path / "columnar.prv") == records(tmp_path / "sqlite.prv")
    for ending in (".pcf", ".row"):
        assert (tmp_path / f"columnar{ending}").read_bytes() == (tmp_path / f"sqlite{ending}").read_bytes()
