"""Rows of one report made rows of another: its times, its strings and, on request, its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from .report import Report, Table


class Arrivals:
    """Brings rows of the report at `source` into the open report, with times and strings made the latter's."""

    def __init__(self, report: Report, source: Path) -> None:
        self.report = report
        report.run("ATTACH :uri AS other", uri=f"{source.resolve().as_uri()}?mode=ro&immutable=1")
        self.tables: dict[str, Table] = report.tables("other")
        other_utc = report.value("SELECT utcEpochNs FROM other.TARGET_INFO_SESSION_START_TIME")
        self.later = int(other_utc or 0) - report.utc
        self._map_strings()

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for (name,) in self.report.rows("SELECT name FROM temp.sqlite_master WHERE type = 'table'"):
            self.report.run(f'DROP TABLE temp."{name}"')
        self.report.run("DETACH other")

    def _map_strings(self) -> None:
        """Add the strings that are new here, and note the number here of each number there."""
        self.report.run(
            "INSERT INTO main.StringIds(id, value)"
            " SELECT (SELECT max(id) FROM main.StringIds) + row_number() OVER (ORDER BY min(id)), value"
            " FROM other.StringIds WHERE value NOT IN (SELECT value FROM main.StringIds) GROUP BY value"
        )
        self.report.run("CREATE TEMP TABLE strings(old INTEGER PRIMARY KEY, new INTEGER)")
        self.report.run(
            "INSERT INTO strings SELECT there.id, min(here.id) FROM other.StringIds there"
            " JOIN main.StringIds here ON here.value = there.value GROUP BY there.id"
        )

    def map(self, name: str, numbers: Mapping[int, int]) -> None:
        """Make a table of numbers there and here, for `mapped`."""
        self.report.run(f"CREATE TEMP TABLE {name}(old INTEGER PRIMARY KEY, new INTEGER)")
        self.report.connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", numbers.items())

    @staticmethod
    def mapped(name: str, column: str) -> str:
        """The SQL expression of the number here of a column's number there; an unknown one stays."""
        return f'coalesce((SELECT new FROM temp.{name} WHERE old = "{column}"), "{column}")'

    def bring(self, name: str, changed: Mapping[str, str] | None = None, where: str = "1") -> None:
        """Insert the rows of a table there into the table here, created if it lacks; known primary keys stay."""
        there, here = self.tables[name], self.report.tables().get(name)
        if here is None:
            self.report.run(there.sql)
            here = there
        terms = {column: f'"{column}"' for column in there.columns if column in here.columns}
        later = f"CASE WHEN {there.session_clock} THEN {self.later} ELSE 0 END"
        terms.update({time: f'"{time}" + {later}' for time in there.times if time in terms})
        terms.update({text: self.mapped("strings", text) for text in there.strings if text in terms})
        terms.update({column: term for column, term in (changed or {}).items() if column in terms})
        names = ", ".join(f'"{column}"' for column in terms)
        self.report.run(
            f'INSERT {"OR IGNORE" if here.key else ""} INTO main."{name}" ({names})'
            f' SELECT {", ".join(terms.values())} FROM other."{name}" WHERE {where}'
        )
