"""The reference pipeline: what translating a report costs at the least, with the same libraries.

    python benchmarks/reference.py REPORT.sqlite OUT.csv [--threads N]

It reads the columns that a translation of the main families needs (ADBC to Arrow to Polars), makes one row a PRV
line, sorts them by time and writes them as text. All objects have number 1, and there are no labels, clocks, lanes or
states; a metric is written at every sample. Prints seconds, counted from before the imports, and the peak resident
memory in MB. Times in the reports and in the lines are ns.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

STARTED = time.perf_counter()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read, make lines, sort, write: a plain translation to compare with.")
    parser.add_argument("report", help="a report as SQLite")
    parser.add_argument("out", help="the text file to write")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads that Polars may use (1)")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = arguments()
    os.environ["POLARS_MAX_THREADS"] = str(OPTIONS.threads)  # Polars reads it when it is imported

import adbc_driver_sqlite.dbapi as sqlite  # noqa: E402
import polars as pl  # noqa: E402

BATCH_ROWS = 65_536
DEVICE_COLUMNS = ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"]
QUERIES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": ["start", "end", "globalTid", "correlationId", "nameId"],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        *DEVICE_COLUMNS, "shortName", "demangledName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread", "registersPerThread", "graphNodeId",
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [*DEVICE_COLUMNS, "bytes", "copyKind"],
    "CUPTI_ACTIVITY_KIND_MEMSET": [*DEVICE_COLUMNS, "bytes"],
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [*DEVICE_COLUMNS, "syncType"],
    "NVTX_EVENTS": ["start", "end", "eventType", "text", "textId", "globalTid", "endGlobalTid", "domainId", "rangeId"],
    "OSRT_API": ["start", "end", "nameId", "globalTid"],
    "GPU_METRICS": ["timestamp", "typeId", "metricId", "value"],
}  # fmt: skip

NVTX_KINDS = {34, 59, 60}
"""Marks, push/pop ranges and start/end ranges."""

KERNEL, COPY, MEMSET_VALUE, COPY_BYTES, METRIC, LAUNCH_TAG = 63000006, 63000001, 6, 63000002, 9400, 55001
WORK_PAIRS: dict[str, dict[int, str | pl.Expr]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": {
        KERNEL: "shortName", 9101: "gridX", 9102: "gridY", 9103: "gridZ", 9104: "blockX", 9105: "blockY",
        9106: "blockZ", 9107: "staticSharedMemory", 9108: "dynamicSharedMemory", 9109: "localMemoryPerThread",
        9110: "registersPerThread", 9200: "correlationId", 70000000: "demangledName",
    },
    "CUPTI_ACTIVITY_KIND_MEMCPY": {COPY: "copyKind", COPY_BYTES: "bytes"},
    "CUPTI_ACTIVITY_KIND_MEMSET": {COPY: pl.lit(MEMSET_VALUE), COPY_BYTES: "bytes"},
}  # fmt: skip
"""The type:value pairs on the begin line of each kind of device work; the first is set to 0 at its end."""
HOST_PAIRS: dict[str, dict[int, str | pl.Expr]] = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": {63000000: "nameId"},
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {70000001: "syncType"},
    "OSRT_API": {70000002: "nameId"},
    "NVTX_EVENTS": {9600: pl.coalesce("textId", pl.col("text").rank("dense"))},
}
"""The same for what happens on threads."""


def read(report: str) -> dict[str, pl.DataFrame]:
    """The needed columns of each table that the report has."""
    with sqlite.connect(report) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        cursor.execute("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'")
        present = set(cursor.fetchall())
        tables = {}
        for table, columns in QUERIES.items():
            found = [f'"{column}"' for column in columns if (table, column) in present]
            if found:
                cursor.execute(f"SELECT {', '.join(found)} FROM {table}")
                tables[table] = pl.DataFrame(cursor.fetch_arrow_table())
        return tables


def intervals(rows: pl.DataFrame, pairs: dict[int, str | pl.Expr]) -> list[pl.DataFrame]:
    """A begin line with the given type:value pairs, and an end line that sets the first type to 0, for each row."""
    fields = [field for number, value in pairs.items() for field in (pl.lit(number), value)]
    first = next(iter(pairs))
    return [
        rows.select(kind=2, time="start", rest=pl.concat_str(fields, separator=":")),
        rows.select(kind=2, time="end", rest=pl.lit(f"{first}:0")),
    ]


def metric_samples(metrics: pl.DataFrame) -> pl.DataFrame:
    """A line for each sample time of a GPU, with all its metrics."""
    pair = pl.concat_str(METRIC + pl.col("metricId"), "value", separator=":")
    samples = metrics.group_by("timestamp", "typeId").agg(rest=pair.str.join(":"))
    return samples.select(kind=2, time="timestamp", rest="rest")


def correlations(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """A line from the API call to the device work that it launched, for each such pair."""
    launches = calls.select("correlationId", pid=pl.col("globalTid") // 2**24, sent="start")
    pairs = work.with_columns(pid=pl.col("globalPid") // 2**24).join(launches, on=["pid", "correlationId"])
    rest = pl.format(f"{{}}:1:1:1:1:{{}}:{{}}:0:{LAUNCH_TAG}", "sent", "start", "start")
    return pairs.select(kind=3, time="sent", rest=rest)


def nvtx_events(rows: pl.DataFrame) -> pl.DataFrame:
    """The marks and ranges among the NVTX rows; a mark, or an open range, ends where it starts."""
    events = rows.filter(pl.col("eventType").is_in(NVTX_KINDS))
    return events.with_columns(pl.col("end").fill_null(pl.col("start")))


def lines(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """All lines, unsorted: the kind of record, its time (ns) and all that follows the time."""
    found: list[pl.DataFrame] = []
    for table, pairs in (WORK_PAIRS | HOST_PAIRS).items():
        if table in tables:
            rows = nvtx_events(tables[table]) if table == "NVTX_EVENTS" else tables[table]
            found += intervals(rows, pairs)
    for table in WORK_PAIRS.keys() & tables.keys():
        found.append(correlations(tables[table], tables["CUPTI_ACTIVITY_KIND_RUNTIME"]))
    if "GPU_METRICS" in tables:
        found.append(metric_samples(tables["GPU_METRICS"]))
    return pl.concat(found)


def main() -> None:
    tables = read(OPTIONS.report)
    read_seconds = time.perf_counter() - STARTED
    record = lines(tables).sort("time").select("kind", pl.lit("1:1:1:1").alias("object"), "time", "rest")
    record.write_csv(OPTIONS.out, separator=":", include_header=False, quote_style="never")
    seconds = time.perf_counter() - STARTED
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{record.height:,} lines in {seconds:.2f} s ({read_seconds:.2f} s until read), peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
