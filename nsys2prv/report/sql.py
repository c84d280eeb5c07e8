"""SQL that reads an SQLite export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from nsys2prv.report.declaration import Column, HeldColumns


def columns_of(kind: str, schema: str = "main") -> str:
    """Return columns of every `table` or `view` of a schema (`temp`: temporary ones), under SQLite's own names.

    sqlite_master may have others if damaged.
    """
    return (
        "SELECT CAST(t.name AS BLOB) AS 'table', CAST(c.name AS BLOB) AS 'column' "
        "FROM pragma_table_list AS t, pragma_table_info(t.name, t.schema) AS c "
        f"WHERE t.schema = '{schema}' AND t.type = '{kind}' AND t.name <> 'sqlite_schema' ORDER BY t.name, c.cid"
    )


def address(path: Path) -> str:
    """Return the URI that opens a file for reading only, as one that nobody else writes."""
    return f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"


def row_ids(name: str) -> str:
    """Return first and last rowid of a table, as low and high."""
    # Two queries: in a single query for both SQLite scans the whole table.
    low, high = (f"(SELECT {end}(rowid) FROM {quoted(name)})" for end in ("min", "max"))
    return f"SELECT {low} AS low, {high} AS high"


def every(name: str, rows: int) -> str:
    """Return the rowid of a table's first row and of every `rows`-th after it, as first."""
    numbered = f"SELECT rowid AS first, row_number() OVER (ORDER BY rowid) - 1 AS n FROM {quoted(name)}"
    return f"SELECT first FROM ({numbered}) WHERE n % {rows} = 0 ORDER BY n"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def selection(name: str, columns: HeldColumns, integer: Callable[[str], str], where: str) -> str:
    """Return the query of columns; `integer` makes the expression of one that holds integers."""
    expressions = (f"{_expression(source, c, integer)} AS {quoted(n)}" for n, (source, c) in columns.items())
    return f"SELECT {', '.join(expressions)} FROM {quoted(name)}{where}"


def _expression(source: str, column: Column, integer: Callable[[str], str]) -> str:
    """Return the SQL expression of a column, in a form that Polars reads as its declared kind."""
    name = quoted(source)
    if column.kind == "text":
        # A column that begins with NULLs would be inferred as integers. As bytes, since Polars takes a text on trust.
        return f"coalesce(CAST(CAST({name} AS TEXT) AS BLOB), x'')"
    if column.kind == "blob":
        return f"coalesce(CAST({name} AS BLOB), x'')"
    if column.kind == "real":
        # As text for the same reason; 17 digits give every double back.
        return f"CASE WHEN {name} IS NULL THEN '' ELSE printf('%!.17g', {name}) END"
    return integer(source)


def integers(column: str) -> str:
    """Return the expression of a column's integers. A text that is no number is NULL, not 0 as in SQLite's cast."""
    name = quoted(column)
    whole = f"CAST({name} AS INTEGER)"
    exact = f"typeof({name}) = 'real' AND {name} = {whole} OR CAST({name} AS TEXT) = CAST({whole} AS TEXT)"
    return f"CASE WHEN typeof({name}) = 'integer' THEN {name} WHEN {exact} THEN {whole} END"
