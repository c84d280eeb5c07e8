"""Make a long Nsight Systems report by repeating a short real one in time.

    python benchmarks/make_long.py SOURCE.sqlite OUT.sqlite --repeat N [--metric-rows N] [--osrt-rows N] [--nested N]

The *long* case of the benchmarks is made from rank 0 of the data parallel GPT run:

    python benchmarks/make_long.py gpt-ddp.0.0.sqlite long.sqlite \
        --repeat 60 --metric-rows 1200000 --osrt-rows 60000

It holds 81,600 kernels, 25,440 memory operations, 307,620 CUDA API calls, 8,160 NVTX ranges and some 1.2 million
GPU metric rows. The *NVTX* case has seven nested ranges around each launch:

    python benchmarks/make_long.py gpt-ddp.0.0.sqlite nvtx.sqlite \
        --repeat 1620 --metric-rows 100000 --osrt-rows 60000 --nested 7

Every row of every event table comes back in each repetition with its times (ns) moved on by the same period (the
source's span plus a gap) and with the numbers that tie rows together moved on so that they stay unique. Definitions
(names, domains, communicators, graph nodes, devices, ...) keep their one row.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
from pathlib import Path

TIME_COLUMNS = {"start", "end", "timestamp"}
RAW_TIME_COLUMNS = {"rawTimestamp"}
"""Times that may count from somewhere else; they move on, but say nothing of the span."""
ID_COLUMNS = {"correlationId", "eventSyncId", "rangeId", "seqNo", "parallelId", "taskId", "newTaskId", "parentTaskId"}
TABLE_ID_COLUMNS = {"COMPOSITE_EVENTS": {"id"}, "SAMPLING_CALLCHAINS": {"id"}}
NO_ID = 2**32 - 1
"""What CUPTI writes for "none", like 0; neither is moved."""

DEFINITION_TABLES = {"CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS", "DIAGNOSTIC_EVENT", "MPI_COMMUNICATORS"}
"""Tables with times whose rows say what a thing is, or speak of the capture; they are not repeated."""
EVENT_ROWS = {"NVTX_EVENTS": "eventType IN (34, 59, 60, 70, 71)"}
"""Which rows of a table are events, where it holds definitions too: marks and ranges, not domains or thread names."""

SAMPLES = {
    "GPU_METRICS": "PARTITION BY typeId ORDER BY timestamp",
    "OSRT_API": "PARTITION BY globalTid ORDER BY start, rowid",
}
"""The tables that can be thinned, with the window that ranks their samples: rows of equal rank go or stay together."""

Columns = dict[str, list[str]]


def event_tables(db: sqlite3.Connection) -> Columns:
    """The columns of each table whose rows are events: those with a time or with a number that ties rows together."""
    tables = {}
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
        if table not in DEFINITION_TABLES and (TIME_COLUMNS | id_columns(table)) & set(columns):
            tables[table] = columns
    return tables


def id_columns(table: str) -> set[str]:
    """The columns of a table that hold a number which must differ from repetition to repetition."""
    return ID_COLUMNS | TABLE_ID_COLUMNS.get(table, set())


def event_rows(table: str) -> str:
    """The SQL condition that picks the event rows of a table."""
    return EVENT_ROWS.get(table, "TRUE")


def extremes(db: sqlite3.Connection, tables: Columns, names: set[str], condition: str = "TRUE") -> tuple[int, int]:
    """The least and greatest `value` for which the SQL condition holds, in the named columns of all event tables."""
    selects = ["SELECT NULL AS value"]
    selects += [
        f'SELECT "{column}" AS value FROM "{table}" WHERE {event_rows(table)}'
        for table, columns in tables.items()
        for column in columns
        if column in names
    ]
    query = f"SELECT MIN(value), MAX(value) FROM ({' UNION ALL '.join(selects)}) WHERE {condition}"
    low, high = db.execute(query).fetchone()
    return low or 0, high or 0


def is_id(column: str) -> str:
    """The SQL condition that a column holds a number that ties rows together, and not a mark for none."""
    return f"{column} > 0 AND {column} < {NO_ID}"


def thin(db: sqlite3.Connection, table: str, rows: float) -> None:
    """Keep about `rows` rows of a table, evenly spread: each k-th sample."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
        return
    (before,) = db.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()
    step = max(1, round(before / rows))
    ranked = f'SELECT rowid AS row, DENSE_RANK() OVER ({SAMPLES[table]}) - 1 AS sample FROM "{table}"'
    db.execute(f'DELETE FROM "{table}" WHERE rowid IN (SELECT row FROM ({ranked}) WHERE sample % {step} <> 0)')


def nest(db: sqlite3.Connection, levels: int) -> None:
    """Add so many nested NVTX ranges around each call that launched a kernel, a nanosecond longer on each side."""
    for level in range(levels):
        db.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) "
            "SELECT call.start - ?1, call.end + ?1, 59, 'level ' || ?2, call.globalTid, 0 "
            "FROM CUPTI_ACTIVITY_KIND_RUNTIME AS call JOIN CUPTI_ACTIVITY_KIND_KERNEL AS kernel "
            "USING (correlationId)",
            (levels - level, level),
        )


def repeat(db: sqlite3.Connection, repetitions: int, gap: int) -> None:
    """Write every event `repetitions` times, each time later by the span of all events plus `gap` (ns)."""
    tables = event_tables(db)
    first, last = extremes(db, tables, TIME_COLUMNS)
    period = last - first + gap
    low, high = extremes(db, tables, ID_COLUMNS.union(*TABLE_ID_COLUMNS.values()), is_id("value"))
    stride = high - low + 1
    for table, columns in tables.items():
        values = ", ".join(moved(table, column, period, stride) for column in columns)
        db.execute(
            "WITH RECURSIVE repetition(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM repetition WHERE k + 1 < ?1) "
            f'INSERT INTO "{table}" SELECT {values} FROM repetition CROSS JOIN "{table}" '
            f"WHERE {event_rows(table)} AND k < ?1",
            (repetitions,),
        )
    added = (repetitions - 1) * period
    db.execute("UPDATE ANALYSIS_DETAILS SET duration = duration + ?1, stopTime = stopTime + ?1", (added,))


def moved(table: str, column: str, period: int, stride: int) -> str:
    """The SQL value of a column in repetition k: times move by `period` (ns), ids by `stride`, the rest stays."""
    name = f'"{column}"'
    if column in TIME_COLUMNS | RAW_TIME_COLUMNS:
        return f"{name} + k * {period}"
    if column in id_columns(table):
        return f"IIF({is_id(name)}, {name} + k * {stride}, {name})"
    return name


def make_long(
    source: Path, out: Path, repetitions: int, gap: int, rows: dict[str, int], nested: int = 0
) -> dict[str, int]:
    """Write the long report and return the number of rows of each of its event tables.

    `gap` is in ns; `rows` says of which tables the long report shall hold about how many rows and not all; `nested`:
    NVTX ranges to add around each launch.
    """
    shutil.copyfile(source, out)
    db = sqlite3.connect(out)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    for table, wanted in rows.items():
        thin(db, table, wanted / repetitions)
    nest(db, nested)
    repeat(db, repetitions, gap)
    db.commit()
    counts = {table: db.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0] for table in event_tables(db)}
    db.close()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a long report by repeating a short one in time.")
    parser.add_argument("source", type=Path, help="a report as SQLite, which is left as it is")
    parser.add_argument("out", type=Path, help="the long report; overwritten")
    parser.add_argument("--repeat", type=int, required=True, metavar="N", help="how often the source's events occur")
    parser.add_argument("--gap", type=int, default=1_000_000, metavar="NS", help="pause between repetitions (1 ms)")
    parser.add_argument("--metric-rows", type=int, metavar="N", help="keep each k-th GPU metric sample, N rows or so")
    parser.add_argument("--osrt-rows", type=int, metavar="N", help="keep each k-th OS call of a thread, N rows or so")
    parser.add_argument("--nested", type=int, default=0, metavar="N", help="nested NVTX ranges around each launch")
    args = parser.parse_args()
    wanted = {"GPU_METRICS": args.metric_rows, "OSRT_API": args.osrt_rows}
    rows = {table: count for table, count in wanted.items() if count is not None}
    counts = make_long(args.source, args.out, args.repeat, args.gap, rows, args.nested)
    for table, count in sorted(counts.items()):
        print(f"{count:>12,}  {table}")


if __name__ == "__main__":
    main()
