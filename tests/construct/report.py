"""Copies of reports opened for change, and what their schema says about each table.

Nothing is known of a schema version: a table's time, string and process columns are found by their names and by the
comments that the exporter writes into its CREATE TABLE texts.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

Sources = Path | Sequence[Path]

TIMES = ("start", "end", "timestamp", "rawTimestamp")
GLOBAL_IDS = re.compile(r"^(end)?global[PT]id$", re.IGNORECASE)
PLAIN_PIDS = re.compile(r"^pid$|processId$", re.IGNORECASE)
STRINGS = ("jsonTextId", "fieldNameId", "etwProviderNameId", "etwTaskNameId")  # references that carry no comment

DEFINITIONS = ("MPI_COMMUNICATORS", "DIAGNOSTIC_EVENT")  # they have times, yet say what a report is, not what ran
NVTX_ACTIVITY = "(34, 35, 36, 37, 38, 59, 60, 65, 66, 67, 68, 69, 70, 71)"  # marks and ranges; the others give names
DEVICE_WORK = tuple("CUPTI_ACTIVITY_KIND_" + kind for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
CALLCHAINS = ("OSRT_CALLCHAINS", "CUDA_CALLCHAINS")
SAMPLE_CHAINS = "SAMPLING_CALLCHAINS"


@dataclass(frozen=True)
class Table:
    """One table and what its columns mean."""

    name: str
    sql: str
    columns: tuple[str, ...]
    key: str | None  # the column that is the rowid, if any
    strings: tuple[str, ...]  # columns that refer to StringIds

    @property
    def times(self) -> tuple[str, ...]:
        return tuple(column for column in self.columns if column in TIMES)

    @property
    def begin(self) -> str | None:
        return next((column for column in ("start", "timestamp") if column in self.columns), None)

    @property
    def global_ids(self) -> tuple[str, ...]:
        return tuple(column for column in self.columns if GLOBAL_IDS.match(column))

    @property
    def plain_pids(self) -> tuple[str, ...]:
        return tuple(column for column in self.columns if PLAIN_PIDS.search(column))

    @property
    def caused_by_call(self) -> bool:
        """Rows of the device's side that name the API call that caused them."""
        return "correlationId" in self.columns and "globalPid" in self.columns

    @property
    def is_event(self) -> bool:
        return (self.begin is not None and self.name not in DEFINITIONS) or self.caused_by_call

    @property
    def is_host_interval(self) -> bool:
        """Calls and ranges on host threads; not OS calls and the profiler's own, which are open nearly always."""
        bare = self.name not in ("OSRT_API", "PROFILER_OVERHEAD")
        return self.is_event and bare and {"start", "end", "globalTid"} <= set(self.columns)

    @property
    def activity(self) -> str:
        """The condition on its rows that they tell what ran (an NVTX table also holds names of domains and threads)."""
        return f"eventType IN {NVTX_ACTIVITY}" if self.name == "NVTX_EVENTS" else "1"

    @property
    def session_clock(self) -> str:
        """The condition on its rows that their times count from the session start."""
        return "timestampType = 1" if "timestampType" in self.columns else "1"


class Report:
    """A copy of a report, open for change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None, uri=True)
        for pragma in ("journal_mode = off", "synchronous = off", "locking_mode = exclusive", "temp_store = memory"):
            self.connection.execute(f"PRAGMA {pragma}")

    def __enter__(self) -> Report:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.connection.close()

    def run(self, sql: str, **values: Any) -> None:
        self.connection.execute(sql, values)

    def rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def value(self, sql: str, **values: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.connection.execute(sql, values).fetchone()
        return row[0] if row else None

    def function(self, name: str, arguments: int, body: Callable[..., Any]) -> None:
        self.connection.create_function(name, arguments, body)

    def tables(self, schema: str = "main") -> dict[str, Table]:
        """Every table but the enumerations, by name."""
        found = {}
        for name, sql in self.rows(f"SELECT name, sql FROM {schema}.sqlite_master WHERE type = 'table' ORDER BY name"):
            if not name.startswith(("ENUM_", "sqlite_")):
                found[name] = self._table(schema, name, sql)
        return found

    def _table(self, schema: str, name: str, sql: str) -> Table:
        info = self.rows(f'PRAGMA {schema}.table_info("{name}")')
        columns = tuple(str(row[1]) for row in info)
        keys = [(str(row[1]), str(row[2]).upper()) for row in info if row[5]]
        key = keys[0][0] if len(keys) == 1 and keys[0][1] == "INTEGER" else None
        named = set(re.findall(r"^\s*\"?(\w+)\"?[^\n]*--[^\n]*REFERENCES StringIds\(id\)", sql, re.MULTILINE))
        return Table(name, sql, columns, key, tuple(c for c in columns if c in named or c in STRINGS))

    @property
    def events(self) -> list[Table]:
        return [table for table in self.tables().values() if table.is_event]

    @property
    def utc(self) -> int:
        """The session start on the wall clock, in ns."""
        return int(self.value("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME") or 0)

    @property
    def host(self) -> str:
        return str(self.value("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'"))

    @property
    def process(self) -> int:
        """The globalPid of the one process that the report is about."""
        found = self.rows("SELECT globalPid FROM PROCESSES")
        if len(found) != 1:
            raise ValueError(f"{self.path.name} is about {len(found)} processes, not one")
        return int(found[0][0])

    def drop(self, *names: str) -> None:
        for name in names:
            self.run(f'DROP TABLE IF EXISTS "{name}"')

    def change_times(self, changed: Callable[[str], str], skip: Sequence[str] = (), **values: Any) -> None:
        """Give every session time t, in events and definitions, the value of the SQL expression changed(t)."""
        for table in self.tables().values():
            terms = ", ".join(f'"{time}" = {changed(quoted(time))}' for time in table.times if time not in skip)
            if terms:
                self.run(f'UPDATE "{table.name}" SET {terms} WHERE {table.session_clock}', **values)

    def move_session_start(self, by: int) -> None:
        """Change what the report says of the wall clock at its time 0."""
        row = self.rows("SELECT utcEpochNs, utcTime, localTime FROM TARGET_INFO_SESSION_START_TIME")[0]
        later = timedelta(seconds=(row[0] + by) // 10**9 - row[0] // 10**9)
        texts = [text and (datetime.fromisoformat(text) + later).isoformat() for text in row[1:]]
        self.run(
            "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = :start, utcTime = :utc, localTime = :local",
            start=row[0] + by,
            utc=texts[0],
            local=texts[1],
        )


def quoted(column: str) -> str:
    return f'"{column}"'


def listed(sources: Sources) -> list[Path]:
    return [sources] if isinstance(sources, Path) else list(sources)


def place(source: Path, folder: Path, name: str | None = None) -> Path:
    """Where a constructed file goes, with nothing there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / (name or source.name)
    if target.exists():
        if source.exists() and target.samefile(source):
            raise ValueError(f"{source} would be written over")
        target.unlink()
    return target


def open_copy(source: Path, folder: Path, name: str | None = None) -> Report:
    """A copy of the report in the folder, open for change."""
    target = place(source, folder, name)
    shutil.copyfile(source, target)
    return Report(target)


def open_copies(sources: Sources, folder: Path) -> list[Report]:
    return [open_copy(source, folder) for source in listed(sources)]


def close(reports: Sequence[Report]) -> list[Path]:
    for report in reports:
        report.connection.close()
    return [report.path for report in reports]


def by_host(reports: Sequence[Report]) -> Mapping[str, list[Report]]:
    """The reports of each host, hosts and reports in the order given."""
    hosts: dict[str, list[Report]] = {}
    for report in reports:
        hosts.setdefault(report.host, []).append(report)
    return hosts
