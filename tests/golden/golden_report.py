"""Small reports written as text: sections of a file, tables in them, and the SQLite export that they describe.

README.md explains the format.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

# Tables that a report has even if its section does not show them.
DEFAULTS = """
PROCESSES
  globalPid  name
  100        app
TARGET_INFO_SESSION_START_TIME
  utcEpochNs
  1000000000000000000
TARGET_INFO_SYSTEM_ENV
  name      value
  Hostname  node1
"""
HOST = 1 << 48
# Columns that refer to StringIds: a cell has the text.
STRINGS = {
    "nameId", "textId", "shortName", "demangledName", "symbol", "module", "CpuInstruction", "srcFile", "varName",
    "kernelName", "apiCallId",
}  # fmt: skip

Table = tuple[list[str], list[list[str]]]
# Texts and their numbers.
Strings = dict[str, int]


def sections(text: str) -> list[tuple[str, str]]:
    """Split a file into (title, body). The first section has no title and states the rule."""
    first, *others = re.split(r"^--- ", text, flags=re.MULTILINE)
    return [("", first), *((title, body) for title, _, body in (part.partition("\n") for part in others))]


def tables(body: str) -> dict[str, Table]:
    """Return the tables of a section by name.

    After its name a table has indented lines: its columns, then its rows, cells two blanks apart or more.
    """
    found: dict[str, Table] = {}
    for line in filter(None, map(str.rstrip, re.sub(r"\\\n *", "", body).splitlines())):
        if not line.startswith(" "):
            found[line] = columns, rows = [], []
            continue
        cells = re.split(r" {2,}", line.strip())
        if columns:
            assert len(cells) == len(columns), f"not {len(columns)} cells: {line}"
            rows.append(cells)
        else:
            columns.extend(cells)
    return found


def write_report(path: Path, body: str) -> None:
    """Write an SQLite export with the tables of a section and those of DEFAULTS that it lacks."""
    shown = tables(DEFAULTS) | tables(body)
    # A section shows StringIds where its numbers matter; further texts are numbered after them.
    strings = {text: int(n) for n, text in shown.pop("StringIds", ([], []))[1]}
    with sqlite3.connect(path) as connection:
        for name, (columns, rows) in shown.items():
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(f"{c!r}" for c in columns)})')
            for cells in rows:
                insert(connection, name, columns, cells, strings)
        connection.execute("CREATE TABLE StringIds (id, value)")
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [(n, text) for text, n in strings.items()])
    connection.close()


def insert(connection: sqlite3.Connection, name: str, columns: list[str], cells: list[str], strings: Strings) -> None:
    """Insert one row, or one for each number of a cell `FIRST..LAST/STEP`; `+N` adds N to that number."""
    spans = [found for cell in cells if (found := re.fullmatch(r"(\d+)\.\.(\d+)/(\d+)", cell))]
    first, last, step = spans[0].groups() if spans else (0, 0, 1)
    terms, values = [], []
    for column, cell in zip(columns, cells, strict=True):
        counted = bool(spans) and (cell == spans[0][0] or cell.startswith("+"))
        terms.append(f"n + {int(cell) if cell.startswith('+') else 0}" if counted else "?")
        values += [] if counted else [value_of(column, cell, strings)]
    numbers = f"WITH k(n) AS (VALUES({first}) UNION ALL SELECT n + {step} FROM k WHERE n + {step} <= {last})"
    connection.execute(f'INSERT INTO "{name}" {numbers} SELECT {", ".join(terms)} FROM k', values)


def value_of(column: str, cell: str, strings: Strings) -> object:
    """Return the value of a cell: `-` is null, `PID:TID` a globalTid, a text in quotes never a number."""
    if cell == "-":
        return None
    if column in STRINGS:
        return strings.setdefault(cell, len(strings) + 1)
    if column.lower().endswith(("globaltid", "globalpid")):
        pid, _, thread = cell.partition(":")
        return HOST | int(pid) << 24 | int(thread or 0)
    if re.fullmatch(r"-?\d+", cell):
        return int(cell)
    return float(cell) if re.fullmatch(r"-?\d+\.\d+", cell) else cell.removeprefix('"').removesuffix('"')
