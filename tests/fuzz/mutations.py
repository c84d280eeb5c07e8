"""What is done to a report: each mutation takes its dice and says in words what it did."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable

import polars as pl

ABSURD = (
    None, 0, -1, 1, 255, -(2**31), 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63),
    1.5, -0.0, 1e308, float("inf"), "", "0", "12", "1e3", "0x10", " 7 ", b"", b"\xff\x00\xfe",
)  # fmt: skip
HOSTILE = (
    "a\nb", "a\r\nb\tc", "nul\x00inside", "\x1b[31mred", "$(touch pwned)", "`touch pwned`; rm -rf .", "| tee pwned",
    "../../pwned", "/tmp/pwned", "C:\\pwned", "..", ".", "'; DROP TABLE StringIds; --", '" OR 1=1 --', "%s%n%x{0}",
    "<script>alert(1)</script>", "--output=pwned", "", " ", "VALUES", "EVENT_TYPE", "0 1 2", "a:b:c", "#Paraver",
    "\ufeffbom", "x" * 70_000, "NVTX\u2028line", "\u202eltr", "\u00e9\u4e2d\U0001f600", "\ud7ff\ue000\uffff",
    *(chr((plane << 16) + 0x1234) for plane in range(17)),
)  # fmt: skip
JSON = (
    "", "{", "[]", "null", "{}", "1", '"text"', "[" * 5000, '{"a":' * 2000, '{"Message size [bytes]": 1e400}',
    '{"Message size [bytes]": "many"}', '{"Message size [bytes]": 99999999999999999999}',
    '{"Message size [bytes]": -5}',
    '{"NCCL communicator ID": null}', '{"Rank": {"a": [1]}}', '{"Bytes": NaN}', '{"a": "\\ud800"}', "\x00",
    '{"Name": 5}', '{"Name": "GpuMetrics"}', '{"Fields": 5}', '{"Fields": [5]}', '{"Fields": [{"Name": "\\\\"}]}',
    '{"Fields": [{"Name": "a"}, {"Name": " a"}, {"Name": null}, null]}', '{"SM Active": {}}', '{"SM Active": "nan"}',
    '{"operationId": 18446744073709551615, "commHash": -1}', '{"commHash": 5, "commRank": null, "operationId": null}',
    '{"op id": "many", "COMM_RANK": "0", "comm hash": ""}', '{"commHash": -7, "commRank": 1, "seqNumber": -1}',
    '{"commHash": 7, "seqNumber": 3}', '{"operationId": 99999999999999999999999, "commRank": -9223372036854775809}',
    '{"Root": 2147483648, "Communicator ID": -1}', '{"metric": [1, 2}', '{"data": "\\u0000"}',
)  # fmt: skip


def _absurd(dice: random.Random) -> object:
    return dice.choice(ABSURD) if dice.random() < 0.8 else dice.getrandbits(dice.choice((8, 24, 48, 63)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Database:
    """A report's database in memory, and what mutations need to know of it."""

    def __init__(self, data: bytes, dice: random.Random) -> None:
        self.dice = dice
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.deserialize(data)
        self.touched: set[str] = set()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return self.connection.execute(query).fetchall()

    def table(self, of_events: bool = True) -> str:
        """One of the tables that are not enumerations, events rather than others."""
        names = [str(n) for (n,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        known = [n for n in names if not n.startswith(("ENUM_", "sqlite_", "ANALYSIS_", "EXPORT_"))]
        events = [n for n in known if "start" in self.columns(n) or "timestamp" in self.columns(n)]
        name = self.dice.choice(events if of_events and events and self.dice.random() < 0.7 else known)
        self.touched.add(name)
        return name

    def columns(self, table: str) -> list[str]:
        return [str(row[1]) for row in self.rows(f"PRAGMA table_info({_quoted(table)})")]

    def some(self, table: str) -> str:
        """A condition that one row, some or all of a table fulfil."""
        kind = self.dice.random()
        if kind < 0.2:
            return "1"
        if kind < 0.5:
            return f"rowid % 3 = {self.dice.randrange(3)}"
        return f"rowid IN (SELECT rowid FROM {_quoted(table)} LIMIT 1 OFFSET {self.dice.randrange(8)})"

    def set(self, table: str, column: str, value: object) -> None:
        self.connection.execute(
            f"UPDATE OR IGNORE {_quoted(table)} SET {_quoted(column)} = ? WHERE {self.some(table)}", (value,)
        )


def absurd_cell(db: Database) -> str:
    table = db.table()
    column, value = db.dice.choice(db.columns(table)), _absurd(db.dice)
    db.set(table, column, value)
    return f"{table}.{column} = {value!r}"


def absurd_time(db: Database) -> str:
    table = db.table()
    column = db.dice.choice([c for c in db.columns(table) if c in ("start", "end", "timestamp")] or db.columns(table))
    value = _absurd(db.dice)
    db.set(table, column, value)
    return f"{table}.{column} = {value!r}"


def hostile_text(db: Database) -> str:
    found = [
        (t, c)
        for t in {"StringIds", db.table(False)}
        for c in db.columns(t)
        if c in ("value", "text", "name", "metricName", "unit", "busLocation", "uuid", "jsonText")
    ]
    table, column = db.dice.choice(sorted(found) or [("StringIds", "value")])
    value = db.dice.choice(HOSTILE)
    db.touched.add(table)
    if db.dice.random() < 0.2:
        db.connection.execute(
            f"UPDATE OR IGNORE {_quoted(table)} SET {_quoted(column)} = CAST(? AS TEXT) WHERE {db.some(table)}",
            (value.encode("utf-16", "surrogatepass"),),
        )
        return f"{table}.{column} is no UTF-8"
    db.set(table, column, value)
    return f"{table}.{column} = {value[:30]!r}"


def wrong_reference(db: Database) -> str:
    """A cell takes another cell's value: ids point anywhere, also to themselves."""
    table, other = db.table(), db.table(False)
    column, source = db.dice.choice(db.columns(table)), db.dice.choice(db.columns(other))
    db.connection.execute(
        f"UPDATE OR IGNORE {_quoted(table)} SET {_quoted(column)} = (SELECT {_quoted(source)} FROM {_quoted(other)}"
        f" LIMIT 1 OFFSET {db.dice.randrange(8)}) WHERE {db.some(table)}"
    )
    return f"{table}.{column} = {other}.{source}"


def column_to_column(db: Database) -> str:
    table = db.table()
    one, other = db.dice.choice(db.columns(table)), db.dice.choice(db.columns(table))
    db.connection.execute(
        f"UPDATE OR IGNORE {_quoted(table)} SET {_quoted(one)} = {_quoted(other)}, {_quoted(other)} = {_quoted(one)}"
        if one != other
        else f"UPDATE OR IGNORE {_quoted(table)} SET {_quoted(one)} = rowid"
    )
    return f"{table}.{one} <-> {other}"


def retyped(db: Database) -> str:
    """A column of another type, in a table that declares none: the values are kept as that type."""
    table, kind = db.table(), db.dice.choice(("TEXT", "REAL", "BLOB", "NUMERIC"))
    names = db.columns(table)
    column = db.dice.choice(names)
    terms = ", ".join(f"CAST({_quoted(n)} AS {kind}) AS {_quoted(n)}" if n == column else _quoted(n) for n in names)
    db.connection.execute(f"CREATE TABLE retyped AS SELECT {terms} FROM {_quoted(table)}")
    db.connection.execute(f"DROP TABLE {_quoted(table)}")
    db.connection.execute(f"ALTER TABLE retyped RENAME TO {_quoted(table)}")
    return f"{table}.{column} is {kind}"


def without(db: Database) -> str:
    """A table, column or all rows are gone."""
    table = db.table()
    kind = db.dice.randrange(4)
    if kind == 0:
        db.connection.execute(f"DROP TABLE {_quoted(table)}")
        return f"no {table}"
    if kind == 1:
        db.connection.execute(f"DELETE FROM {_quoted(table)}")
        return f"{table} is empty"
    column = db.dice.choice(db.columns(table))
    new = db.dice.choice(("renamed", "ren amed", 'q"uote', "naïve;--"))
    try:
        db.connection.execute(f"ALTER TABLE {_quoted(table)} RENAME COLUMN {_quoted(column)} TO {_quoted(new)}")
    except sqlite3.Error:
        return f"{table} as it was"
    return f"{table}.{column} is called {new}"


def doubled(db: Database) -> str:
    """Rows a second time, keys aside."""
    table = db.table()
    names = ", ".join(_quoted(n) for n in db.columns(table))
    db.connection.execute(f"CREATE TABLE doubled AS SELECT * FROM {_quoted(table)}")
    db.connection.execute(f"INSERT INTO doubled({names}) SELECT {names} FROM {_quoted(table)} WHERE {db.some(table)}")
    db.connection.execute(f"DROP TABLE {_quoted(table)}")
    db.connection.execute(f"ALTER TABLE doubled RENAME TO {_quoted(table)}")
    return f"{table} has rows twice"


def json_text(db: Database) -> str:
    """What should be JSON is none, or of another shape."""
    found = [t for t in ("GENERIC_EVENTS", "GENERIC_EVENT_TYPES", "GENERIC_EVENT_SOURCES") if db.columns(t)]
    if not found:
        return payload(db)
    table, value = db.dice.choice(found), db.dice.choice(JSON)
    db.touched.add(table)
    db.set(table, "data", value)
    return f"{table}.data = {value[:40]!r}"


def payload(db: Database) -> str:
    """Payloads that are no JSON, or binary data that its schemas do not fit."""
    names = {str(n) for (n,) in db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "NVTX_EVENTS" not in names:
        return absurd_cell(db)
    db.touched.add("NVTX_EVENTS")
    have = db.columns("NVTX_EVENTS")
    for column in ("jsonText", "binaryData"):
        if column not in have:
            db.connection.execute(f"ALTER TABLE NVTX_EVENTS ADD COLUMN {column}")
    if db.dice.random() < 0.4:
        value = db.dice.choice(JSON)
        db.set("NVTX_EVENTS", "jsonText", value)
        return f"JSON {value[:40]!r}"
    return _binary(db, names)


# Of payloads: what a field's value may be instead, as JSON.
FIELD_VALUES = (
    "null", "true", "-1", "0", "0.5", "1e3", "1e999", "-0", "2147483648", "9223372036854775807", "9223372036854775808",
    "18446744073709551615", "99999999999999999999", '"12"', '"many"', '""', '"a\\"b"', '"\\u00e9\\ud83d\\ude00"',
    '"\\ud800"', '"\\u0000"', "[1, 2]", "[]", "{}", '{"Message size [bytes]": 7}', "NaN", "01", " 5 ", "5,", '"open',
)  # fmt: skip
FIELDS = (
    "NCCL communicator ID", "Message size [bytes]", "Reduction operation", "Root", "Peer rank", "Rank", "No. of ranks",
    "CUDA device", "Data size [bytes]", "Communicator ID", "Stack", "operationId", "commHash", "commRank", "seqNumber",
    "",
)  # fmt: skip


def json_field(db: Database) -> str:
    """A field of payloads has another value or name, is there twice, or is not; or the text is cut or registered."""
    db.touched.add("NVTX_EVENTS")
    if "jsonText" not in db.columns("NVTX_EVENTS"):
        return payload(db)
    texts = [str(t) for (t,) in db.rows("SELECT DISTINCT jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL")]
    text = db.dice.choice(texts or ["{}"])
    fields = re.findall(r'"([^"]*)":("[^"]*"|[^,{}]*)', text)
    name, value = db.dice.choice(fields) if fields else ("a", "1")
    pair = f'"{name}":{value}'
    kind = db.dice.randrange(6)
    new = f'"{name}":{db.dice.choice(FIELD_VALUES)}'
    changed = (
        text.replace(pair, new),
        text.replace(pair, f'"{db.dice.choice(FIELDS)}":{value}'),
        text.replace(pair, f"{pair},{new}" if db.dice.random() < 0.5 else f"{new},{pair}"),
        text.replace(pair, f'"inner":{{{new}}}'),
        text[: db.dice.randrange(len(text) + 1)],
        text.replace(":", " :\n").replace(",", " , "),
    )[kind]
    if db.dice.random() < 0.25 and "jsonTextId" in db.columns("NVTX_EVENTS"):
        number = 1_000_000_000 + db.dice.randrange(1000)
        db.connection.execute("INSERT INTO StringIds(id, value) VALUES (?, ?)", (number, changed))
        db.connection.execute("UPDATE NVTX_EVENTS SET jsonText = NULL WHERE jsonText = ?", (text,))
        db.set("NVTX_EVENTS", "jsonTextId", number)
        return f"registered JSON {changed[:80]!r}"
    condition = "jsonText = ?" if texts else db.some("NVTX_EVENTS")
    db.connection.execute(
        f"UPDATE NVTX_EVENTS SET jsonText = ? WHERE {condition}", (changed, *([text] if texts else []))
    )
    return f"JSON {changed[:80]!r}"


# What refers to what, within a table (id, reference), and what the rows must share.
REFERENCES = (
    ("NVTX_PAYLOAD_SCHEMA_ENTRIES", "schemaId", "type"), ("NVTX_PAYLOAD_SCHEMA_ENTRIES", "type", "schemaId"),
    ("NVTX_PAYLOAD_SCHEMA_ENTRIES", "idx", "arrayOrUnionDetail"), ("NVTX_PAYLOAD_ENUM_ENTRIES", "schemaId", "value"),
    ("NVTX_PAYLOAD_ENUMS", "schemaId", "size"), ("NVTX_PAYLOAD_SCHEMAS", "schemaId", "domainId"),
    ("NVTX_EVENTS", "domainId", "textId"), ("NVTX_EVENTS", "category", "domainId"),
    ("NVTX_EVENTS", "textId", "jsonTextId"), ("NVTX_EVENTS", "rangeId", "domainId"),
    ("MPI_COMMUNICATORS", "commHandle", "parentHandle"),
    ("CUDA_GRAPH_NODE_EVENTS", "graphNodeId", "originalGraphNodeId"),
    ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "eventId", "eventSyncId"), ("OSRT_CALLCHAINS", "id", "stackDepth"),
    ("OSRT_CALLCHAINS", "symbol", "module"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId", "nameId"),
)  # fmt: skip


def cyclic(db: Database) -> str:
    """Rows refer to themselves, or each to the next and the last to the first."""
    known = [r for r in REFERENCES if {r[1], r[2]} <= set(db.columns(r[0]))]
    if not known:
        return wrong_reference(db)
    table, name, reference = db.dice.choice(known)
    db.touched.add(table)
    if db.dice.random() < 0.5:
        db.connection.execute(f"UPDATE OR IGNORE {table} SET {reference} = {name} WHERE {db.some(table)}")
        return f"{table}.{reference} is its own {name}"
    ids = [v for (v,) in db.rows(f"SELECT DISTINCT {name} FROM {table} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT 5")]
    for one, other in zip(ids, ids[1:] + ids[:1], strict=True):
        db.connection.execute(f"UPDATE OR IGNORE {table} SET {reference} = ? WHERE {name} IS ?", (other, one))
    return f"{table}.{reference} goes round {len(ids)} of {name}"


def _binary(db: Database, names: set[str]) -> str:
    """Data with a header, of a schema of numbers at any offset, nested in itself perhaps."""
    dice = db.dice
    number = dice.choice((0, 1, 7, 2**24 + 1))

    def word() -> int:
        return dice.choice((0, 1, number, 16, 32, 40, 2**31, 2**53, 2**63, 2**64 - 1))

    header = b"".join(v.to_bytes(8, "little") for v in (dice.choice((0, 1, word())), number, word(), word()))
    data = (header + dice.randbytes(dice.choice((0, 3, 8, 48))))[: dice.choice((31, 40, 200))]
    for table, columns in (
        ("NVTX_PAYLOAD_SCHEMAS", "domainId, schemaId, payloadSize"),
        ("NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId, schemaId, type, name, offset"),
        ("NVTX_PAYLOAD_ENUMS", "domainId, schemaId, size"),
        ("NVTX_PAYLOAD_ENUM_ENTRIES", "domainId, schemaId, name, value"),
    ):
        db.touched.add(table)
        if table not in names:
            db.connection.execute(f"CREATE TABLE {table}({columns})")
    field = dice.choice(
        ("Message size [bytes]", "Communicator ID", "NCCL communicator ID", "Reduction operation", "Root")
    )
    kind = dice.choice((1, 5, 6, 7, 8, 9, 18, 19, 99, number, 2**40, None))
    offset = dice.choice((0, 8, -8, -40, 2**31, 2**62, 2**63 - 1, None))
    domain = dice.choice((0, 1, None))
    insert = "INSERT INTO {} ({}) VALUES ({})"
    for table, values in (
        (
            "NVTX_PAYLOAD_SCHEMA_ENTRIES",
            {"domainId": domain, "schemaId": number, "type": kind, "name": field, "offset": offset},
        ),
        (
            "NVTX_PAYLOAD_ENUMS",
            {"domainId": domain, "schemaId": kind, "size": dice.choice((0, 1, 3, 4, 8, -4, 2**40, None))},
        ),
        (
            "NVTX_PAYLOAD_ENUM_ENTRIES",
            {"domainId": domain, "schemaId": kind, "name": dice.choice(HOSTILE[:9]), "value": 1},
        ),
    ):
        have = [c for c in values if c in db.columns(table)]
        try:
            db.connection.execute(
                insert.format(table, ", ".join(have), ", ".join("?" * len(have))), [values[c] for c in have]
            )
        except sqlite3.IntegrityError:
            continue
    db.connection.execute("UPDATE NVTX_EVENTS SET jsonText = NULL")
    db.set("NVTX_EVENTS", "binaryData", data)
    return f"binary payload, type {kind}, offset {offset}, {len(data)} bytes"


MUTATIONS: tuple[Callable[[Database], str], ...] = (
    absurd_cell, absurd_cell, absurd_time, absurd_time, hostile_text, wrong_reference, column_to_column, retyped,
    without, doubled, payload, json_text, json_field, cyclic,
)  # fmt: skip


def mutate(db: Database) -> str:
    """One mutation, said in words."""
    try:
        return db.dice.choice(MUTATIONS)(db)
    except sqlite3.Error as error:
        return f"nothing ({error})"


def broken_bytes(data: bytes, dice: random.Random) -> tuple[bytes, str]:
    """Bits flipped, a piece cut off, overwritten or repeated."""
    changed = bytearray(data)
    kind = dice.randrange(5)
    if kind == 0:
        kept = dice.randrange(len(data))
        return data[:kept], f"cut to {kept} bytes"
    if kind == 1:
        at, length = dice.randrange(len(data)), dice.choice((1, 16, 512, 4096))
        changed[at : at + length] = dice.choice((b"\0", b"\xff")) * len(changed[at : at + length])
        return bytes(changed), f"{length} bytes written over at {at}"
    if kind == 2:
        return data + dice.randbytes(5000), "5000 bytes more"
    places = [dice.randrange(100 if kind == 3 else len(data)) for _ in range(dice.choice((1, 4, 40)))]
    for at in places:
        changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed), f"bits flipped at {places[:4]}"


def broken_frame(frame: pl.DataFrame, dice: random.Random) -> tuple[pl.DataFrame, str]:
    """A columnar table with a column of another type or other values."""
    name = dice.choice(frame.columns)
    column = frame[name]
    n = frame.height
    kinds: dict[str, Callable[[], pl.Series]] = {
        "text": lambda: column.cast(pl.String, strict=False),
        "hostile text": lambda: pl.Series(name, [dice.choice(HOSTILE) for _ in range(n)], dtype=pl.String),
        "float": lambda: column.cast(pl.Float64, strict=False),
        "not a number": lambda: pl.Series(name, [float("nan")] * n, dtype=pl.Float64),
        "boolean": lambda: pl.Series(name, [True] * n, dtype=pl.Boolean),
        "list": lambda: pl.Series(name, [[1, 2]] * n, dtype=pl.List(pl.Int64)),
        "structure": lambda: pl.Series(name, [{"a": 1}] * n),
        "bytes": lambda: pl.Series(name, [b"\xff\x00"] * n, dtype=pl.Binary),
        "nothing": lambda: pl.Series(name, [None] * n, dtype=pl.Null),
        "null": lambda: pl.Series(name, [None] * n, dtype=column.dtype),
        "date": lambda: pl.Series(name, [0] * n, dtype=pl.Int32).cast(pl.Date),
        "small": lambda: column.cast(pl.Int8, strict=False),
        "unsigned": lambda: pl.Series(name, [2**64 - 1 - k for k in range(n)], dtype=pl.UInt64),
        "huge": lambda: pl.Series(name, [dice.choice((2**63 - 1, 2**53, -1)) for _ in range(n)], dtype=pl.Int64),
        "category": lambda: column.cast(pl.String, strict=False).cast(pl.Categorical),
    }
    if dice.random() < 0.15:
        return (frame.drop(name), f"no {name}") if dice.random() < 0.5 else (frame.clear(), "no rows")
    kind = dice.choice(sorted(kinds))
    return frame.with_columns(kinds[kind]().alias(name)), f"{name} is {kind}"
