"""Small inputs: the first rows of real reports, so that a translation takes a fraction of a second."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from exports import MAIN
from nccl_reports import RANGE, call, operation, report

TESTS = Path(__file__).resolve().parents[1]
SAMPLES = TESTS.parent / "sample_reports"
ROWS = 16
# Report -> the folder it is in. Between them: every family that the repository has a report of.
SOURCES = (
    SAMPLES / "gpt-ddp/gpt-ddp.0.0.sqlite",
    SAMPLES / "mpi-halo/mpi-halo.0.sqlite",
    SAMPLES / "single/graph-node.sqlite",
    SAMPLES / "single/nvtx-attributes.sqlite",
    SAMPLES / "single/openmp.sqlite",
    SAMPLES / "single/saxpy.sqlite",
    TESTS / "data/mpi-requests/mpi-requests.0.sqlite",
    TESTS / "data/nccl-launches/nccl-launches.0.sqlite",
    TESTS / "data/python-sampling/python-cuda.sqlite",
    TESTS / "data/system-calls/system-calls.sqlite",
)
# Columns of texts: a number in them is one.
TEXTS = ("value", "text", "jsonText", "metricName")
PAYLOADS = ("NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES", "NVTX_PAYLOAD_ENUMS", "NVTX_PAYLOAD_ENUM_ENTRIES")


def small(source: Path) -> bytes:
    """A report's database with ROWS rows of each table of events, and only the strings that some column names."""
    with closing(sqlite3.connect(":memory:")) as small, closing(sqlite3.connect(source)) as whole:
        whole.backup(small)
        names = [n for (n,) in small.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
        for name in names:
            columns = [row[1] for row in small.execute(f'PRAGMA table_info("{name}")')]
            if name == "NVTX_EVENTS":
                # Those that name domains and carry payloads say what the others are.
                payload = " OR jsonText IS NOT NULL" if "jsonText" in columns else ""
                first = f"SELECT rowid FROM NVTX_EVENTS WHERE eventType < 70 AND NOT (0{payload}) LIMIT {ROWS}"
                carrying = f"SELECT rowid FROM NVTX_EVENTS WHERE eventType >= 70{payload} LIMIT {ROWS}"
                keep = f"SELECT * FROM ({first}) UNION SELECT * FROM ({carrying})"
                small.execute(f"DELETE FROM NVTX_EVENTS WHERE rowid NOT IN ({keep})")
            elif name not in ("StringIds", *PAYLOADS) and not name.startswith("ENUM_"):
                small.execute(f'DELETE FROM "{name}" WHERE rowid NOT IN (SELECT rowid FROM "{name}" LIMIT {ROWS})')
        _drop_strings(small, names)
        small.commit()
        small.execute("VACUUM")
        return small.serialize()


def _drop_strings(small: sqlite3.Connection, names: list[str]) -> None:
    """Remove the strings that nothing refers to."""
    used: set[int] = set()
    for name in set(names) - {"StringIds"}:
        for row in small.execute(f'SELECT * FROM "{name}"'):
            used |= {value for value in row if isinstance(value, int) and 0 <= value < 1 << 31}
    small.execute("CREATE TEMP TABLE used(id INTEGER PRIMARY KEY)")
    small.executemany("INSERT INTO used VALUES (?)", [(value,) for value in used])
    small.execute("DELETE FROM StringIds WHERE id NOT IN (SELECT id FROM used)")
    small.execute("DROP TABLE used")


def tables(folder: Path) -> dict[str, pl.DataFrame]:
    """Tables of a columnar export, the first rows of each."""
    return {f.stem: pl.read_parquet(f).head(2 * ROWS) for f in sorted(folder.glob("*.parquet"))}


def as_database(frames: Mapping[str, pl.DataFrame]) -> sqlite3.Connection:
    """The same tables in SQLite: ids beyond 2**63 are negative there, and what is no value of SQLite's is NULL."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    for name, given in frames.items():
        frame = given.with_columns(
            pl.col(c).cast(pl.String) for c in TEXTS if c in given.columns and not _has_texts(given.schema[c])
        )
        columns = [f'"{c}"' for c in frame.columns]
        database.execute(f'CREATE TABLE "{name}"({", ".join(columns)})')
        database.executemany(
            f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})',
            zip(*(map(_storable, frame[c]) for c in frame.columns), strict=True),
        )
    return database


def _has_texts(kind: pl.DataType) -> bool:
    """Whether values are texts, or no texts can be made of them."""
    return kind in (pl.String, pl.Categorical, pl.Binary) or kind.is_nested() or kind.is_temporal()


def _storable(value: object) -> int | float | str | bytes | None:
    if isinstance(value, int) and value >= 1 << 63:
        return value - (1 << 64)
    return value if isinstance(value, int | float | str | bytes) else None


def with_generic_metrics() -> bytes:
    """A report of a version that has GPU metrics as generic events, in JSON."""
    with closing(sqlite3.connect(":memory:")) as made:
        made.deserialize(small(SOURCES[5]))
        made.executescript(
            r"""
            DROP TABLE IF EXISTS GENERIC_EVENTS; DROP TABLE IF EXISTS GENERIC_EVENT_TYPES;
            DROP TABLE IF EXISTS GENERIC_EVENT_SOURCES;
            CREATE TABLE GENERIC_EVENTS(rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, data TEXT);
            CREATE TABLE GENERIC_EVENT_TYPES(typeId INTEGER, sourceId INTEGER, data TEXT);
            CREATE TABLE GENERIC_EVENT_SOURCES(sourceId INTEGER, data TEXT);
            INSERT INTO GENERIC_EVENT_SOURCES VALUES (1, '{"Name": "GpuMetrics"}'), (2, '{"Name": "ftrace"}');
            INSERT INTO GENERIC_EVENT_TYPES VALUES (900, 1, '{"Fields": [{"Name": "SM Active"}, {"Name": "é \"q\""}]}');
            INSERT INTO GENERIC_EVENTS VALUES (1, 1, 900, '{"SM Active": "5", "é \"q\"": 7}');
            INSERT INTO GENERIC_EVENTS VALUES (2, 2000, 900, '{"SM Active": "6"}'), (3, 3000, 900, '{}');
            """
        )
        return made.serialize()


def with_nccl_operations() -> bytes:
    """A report of advanced tracing of NCCL: operations on the device, by channel, and calls of the host."""
    kernels = [(100, 900, 7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), (950, 1500, 7, "ncclDevKernel_SendRecv")]
    rows = [
        call(90, 104),
        operation(105, 850, channelId=0, seqNumber=3),
        operation(110, 800, channelId=1, seqNumber=3),
        operation(300, 700, "ncclAllGather", channelId=0, seqNumber=4, operationId=None),
        operation(310, 880, "ncclAllGather", channelId=1, seqNumber=4, operationId=None),
        call(940, 951, "ncclSend", **{"Peer rank": 1}),
        operation(960, 1400, "Send", peer=1, operationId=8),
        operation(970, 1450, "Recv", peer=1, operationId=None),
        operation(2000, 2500, "Broadcast", root=0, operationId=2**64 - 9, commRank=None),
        (50, 60, RANGE, MAIN, 1, "AllReduce", json.dumps({"count": 1024, "dataType": "ncclFloat32", "rank": 0})),
    ]
    with TemporaryDirectory() as folder:
        return report(Path(folder) / "r.sqlite", rows, [*kernels, (1600, 1700, 8, "gemm")]).read_bytes()


# Reports of kinds that no real one is there of.
MADE = (with_generic_metrics, with_nccl_operations)
COLUMNAR = TESTS / "data/formats/rep.1_pqtdir"
