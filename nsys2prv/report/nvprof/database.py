"""A database of nvprof, opened so that it has the tables and columns of an nsys export."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from nsys2prv.errors import ReportError
from nsys2prv.model.global_ids import IDS_PER_FIELD, pid_of
from nsys2prv.model.words import few
from nsys2prv.report.nvprof.names import MANGLED, OPENACC, OPENMP, OVERHEAD, call_name, demangled, short_name
from nsys2prv.report.nvprof.views import COVERED, OF_PROCESS, OF_THREAD, PREFIX, UNDRAWN_COUNTERS, VIEWS, create_views
from nsys2prv.report.sql import integers, quoted
from nsys2prv.report.sqlite import SqliteTables, Views

# Endings of its files, which may also be XML.
ENDINGS = (".nvprof", ".nvvp")
# nsys numbers hosts in the bits above the process; a file of nvprof has one host.
HOST = 1 << 48
NS = 1_000_000_000
# Tables whose rows name a process and a thread: columns of the process and of the thread, of the time.
_CALLS = {
    "RUNTIME": ("processId", "threadId", "start"),
    "DRIVER": ("processId", "threadId", "start"),
    **{f"OPENACC_{part}": ("cuProcessId", "cuThreadId", "start") for part in ("DATA", "LAUNCH", "OTHER")},
    "OPENMP": ("cuProcessId", "cuThreadId", "start"),
}
# Tables whose rows name an object: with the time, if they have one.
_OBJECTS = {"MARKER": "timestamp", "OVERHEAD": "start", "NAME": ""}
# A process, or a process and a thread, of 4 bytes each.
_IS_ID = "typeof(objectId) = 'blob' AND length(objectId) >= 8"
# Bytes of a text, which may be no UTF-8.
_TEXT = "CAST(CAST(value AS TEXT) AS BLOB)"
MANGLED_NAMES = (
    "names of kernels are mangled, and kernels are classed by them: for those of the source "
    "pip install '.[nvprof]' in the clone"
)
SERIAL = "kernels ran one after the other, and again for each group of counters: only their durations tell something"


class Fact(NamedTuple):
    """A value that views look up by kind and key."""

    kind: str
    key: int | bytes
    value: int | str


def is_nvprof(names: Collection[str]) -> bool:
    """Return True if a database with these tables is nvprof's, though it may lack some."""
    return bool({"StringTable", "Version"} & set(names)) and any(name.startswith(PREFIX) for name in names)


def open_nvprof(path: Path) -> SqliteTables:
    """Open a database of nvprof through views. Raises ReportError, also if it is of several processes."""
    with closing(SqliteTables(path, Views((), frozenset()))) as plain:
        setup = _setup(plain)
    return SqliteTables(path, Views(setup, COVERED))


def _setup(plain: SqliteTables) -> tuple[str, ...]:
    """Return the statements that make the views, and what they look up."""
    columns = {name: plain.columns(name) for name in plain.names()}
    filled = {
        name for name in columns if not plain.query(f"SELECT 1 AS one FROM main.{quoted(name)} LIMIT 1").is_empty()
    }
    facts = _facts(plain, filled)
    return (
        "CREATE TEMP TABLE looked_up(kind, key, value, PRIMARY KEY(kind, key)) WITHOUT ROWID",
        f"INSERT OR IGNORE INTO temp.looked_up VALUES {', '.join(map(_literal, facts))}",
        *create_views(columns, filled),
    )


def _literal(fact: Fact) -> str:
    values = (f"x'{v.hex()}'" if isinstance(v, bytes) else str(v) if isinstance(v, int) else _quoted(v) for v in fact)
    return f"({', '.join(values)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\0", "") + "'"


class _Texts:
    """Texts that the file lacks, with ids behind those of its own."""

    def __init__(self, first: int) -> None:
        self.first, self.ids = first, dict[str, int]()

    def id_of(self, text: str) -> int:
        return self.ids.setdefault(text, self.first + len(self.ids))


def _facts(plain: SqliteTables, filled: Collection[str]) -> list[Fact]:
    """Return all that views look up."""
    origin = _origin(plain, filled)
    threads = _threads(plain, filled)
    pids = sorted({pid for pid, _, _ in threads})
    if len(pids) > 1:
        listed = few([str(p) for p in pids])
        cause = f"it has events of {len(pids)} processes ({listed}), and does not say which of them its kernels are of"
        raise ReportError(plain.path, cause, "record each process into its own file: `nvprof -o NAME.%p`")
    pid = (pids[0] if pids else 0) % IDS_PER_FIELD
    process = HOST | pid * IDS_PER_FIELD
    texts = _Texts(1 + (plain.query(f"SELECT max({integers('_id_')}) AS id FROM main.StringTable")["id"][0] or 0))
    facts = [
        *(Fact(kind, 0, value) for kind, value in (("origin", origin), ("process", process), ("pid", pid))),
        Fact("main thread", 0, process | pid),
        *_thread_facts(plain, filled, [t for _, t, _ in threads if t is not None], process, texts),
        *_contexts(plain, filled),
        *_names(plain, filled, texts),
        *(Fact("remark", n, text) for n, text in enumerate(_remarks(plain, filled))),
    ]
    return [*facts, *(Fact("text", number, text) for text, number in texts.ids.items())]


def _held(filled: Collection[str], tables: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return those of some tables that have rows: name without and with PREFIX."""
    return ((table, f"main.{PREFIX}{table}") for table in tables if PREFIX + table in filled)


def _origin(plain: SqliteTables, filled: Collection[str]) -> int:
    """Return the whole second before the first event, ns of UTC."""
    timed = {rows.source for parts in VIEWS.values() for rows in parts if "start" in rows.columns}
    columns = {**dict.fromkeys(timed, "start"), "MARKER": "timestamp"}
    queries = [
        f"SELECT min({integers(columns[t])}) AS low FROM {name} WHERE {integers(columns[t])} > 0"
        for t, name in _held(filled, sorted(columns))
    ]
    first = min((low for q in queries if (low := plain.query(q)["low"][0]) is not None), default=1)
    return int(first - 1) // NS * NS


def _threads(plain: SqliteTables, filled: Collection[str]) -> list[tuple[int, int | None, int]]:
    """Return pid, thread (32 bits; None: the process alone) and first time of each thread, in the order of time."""
    found = [
        plain.query(
            f"SELECT {integers(pid)} AS pid, {integers(thread)} & 4294967295 AS thread, min({integers(time)}) AS first "
            f"FROM {name} GROUP BY 1, 2"
        ).rows()
        for table, name in _held(filled, _CALLS)
        for pid, thread, time in (_CALLS[table],)
    ]
    for table, name in _held(filled, _OBJECTS):
        time = integers(_OBJECTS[table]) if _OBJECTS[table] else "0"
        rows = plain.query(
            f"SELECT {integers('objectKind')} AS kind, substr(objectId, 1, 8) AS object, min({time}) AS first "
            f"FROM {name} WHERE objectKind IN ({OF_PROCESS}, {OF_THREAD}) AND {_IS_ID} GROUP BY 1, 2"
        ).rows()
        numbers = [(k, int.from_bytes(o[:4], "little"), int.from_bytes(o[4:8], "little"), t) for k, o, t in rows]
        found.append([(pid, thread if kind == OF_THREAD else None, first) for kind, pid, thread, first in numbers])
    known = [row for rows in found for row in rows if row[0] is not None and row[2] is not None]
    return sorted(known, key=lambda row: (row[2], row[1] is None, row[1]))


def _thread_facts(
    plain: SqliteTables, filled: Collection[str], threads: Iterable[int], process: int, texts: _Texts
) -> Iterator[Fact]:
    """Number threads: the first is the main one, whose id is the process'. The others have no id of 24 bits."""
    pid = pid_of(process)
    named = _thread_names(plain, filled)
    for number, thread in enumerate(dict.fromkeys(threads)):
        global_tid = process | (pid + number) % IDS_PER_FIELD
        yield Fact("thread", thread, global_tid)
        yield Fact("object", thread.to_bytes(4, "little"), global_tid)
        if number or thread in named:
            yield Fact("thread name", global_tid, texts.id_of(named.get(thread, f"thread {thread:#x}")))


def _thread_names(plain: SqliteTables, filled: Collection[str]) -> dict[int, str]:
    """Return the names that the program gave its threads."""
    return {int.from_bytes(object_id[4:8], "little"): name for object_id, name in _named(plain, filled, OF_THREAD)}


def _named(plain: SqliteTables, filled: Collection[str], kind: int) -> list[tuple[bytes, str]]:
    """Return id (bytes) and name of the objects of a kind, OF_PROCESS or OF_THREAD, that the program named."""
    query = (
        f"SELECT objectId AS object, {_TEXT} AS name FROM main.CUPTI_ACTIVITY_KIND_NAME AS n "
        f"JOIN main.StringTable AS s ON s._id_ = n.name WHERE objectKind = {kind} AND {_IS_ID}"
    )
    found = plain.query(query).drop_nulls().rows() if PREFIX + "NAME" in filled else []
    return [(object_id, bytes(name).decode(errors="replace")) for object_id, name in found]


def _contexts(plain: SqliteTables, filled: Collection[str]) -> Iterator[Fact]:
    """Return the device of each context."""
    for _, name in _held(filled, ["CONTEXT"]):
        query = f"SELECT {integers('contextId')} AS context, {integers('deviceId')} AS device FROM {name}"
        yield from (Fact("device", c, d) for c, d in plain.query(query).drop_nulls().rows())


def _names(plain: SqliteTables, filled: Collection[str], texts: _Texts) -> Iterator[Fact]:
    """Return the texts of numbers: of calls, kinds of events, kernels; and the name of the program."""
    for api in ("runtime", "driver"):
        for number in _distinct(plain, filled, [api.upper()], "cbid"):
            yield Fact(api, number, texts.id_of(call_name(api, number)))
    for kind, names in (("overhead", OVERHEAD), ("openacc", OPENACC), ("openmp", OPENMP)):
        yield from (Fact(kind, number, texts.id_of(name)) for number, name in names.items())
    for number, name in _kernels(plain, filled):
        full = demangled(name) or name
        yield Fact("demangled", number, texts.id_of(full))
        yield Fact("short name", number, texts.id_of(short_name(full)))
    # The name of the process is its command line.
    yield from (Fact("program", 0, (name.split() or [""])[0]) for _, name in _named(plain, filled, OF_PROCESS)[:1])


def _distinct(plain: SqliteTables, filled: Collection[str], tables: Iterable[str], column: str) -> list[int]:
    """Return the distinct integers in a column of some tables, sorted."""
    selects = [f"SELECT DISTINCT {integers(column)} AS number FROM {name}" for _, name in _held(filled, tables)]
    if not selects:
        return []
    return sorted(plain.query(" UNION ".join(selects))["number"].drop_nulls().to_list())


def _kernels(plain: SqliteTables, filled: Collection[str]) -> list[tuple[int, str]]:
    """Return id and name of each kernel, as the compiler writes it."""
    ids = _distinct(plain, filled, [rows.source for rows in VIEWS["CUPTI_ACTIVITY_KIND_KERNEL"]], "name")
    if not ids:
        return []
    listed = ", ".join(map(str, ids))
    query = f"SELECT {integers('_id_')} AS id, {_TEXT} AS name FROM main.StringTable WHERE _id_ IN ({listed})"
    return [(number, bytes(name).decode(errors="replace")) for number, name in plain.query(query).drop_nulls().rows()]


def _remarks(plain: SqliteTables, filled: Collection[str]) -> Iterator[str]:
    """Return sentences on the file that the user should know."""
    names = [name for _, name in _kernels(plain, filled)]
    if any(name.startswith(MANGLED) and demangled(name) is None for name in names):
        yield MANGLED_NAMES
    counters = [
        f"{number} {table.lower()}s"
        for table in ("METRIC", "EVENT")
        if (number := len(_distinct(plain, filled, [table], "id")))
    ]
    if counters:
        yield f"{' and '.join(counters)} of kernels were collected, which have numbers and no names; {SERIAL}"
    for _, name in _held(filled, ["UNIFIED_MEMORY_COUNTER"]):
        kinds = ", ".join(map(str, UNDRAWN_COUNTERS))
        query = (
            f"SELECT {integers('counterKind')} AS kind, count(*) AS n FROM {name} "
            f"WHERE {integers('counterKind')} IN ({kinds}) GROUP BY 1"
        )
        yield from (
            f"{count:,} records of {UNDRAWN_COUNTERS[kind]} in unified memory are not drawn"
            for kind, count in plain.query(query).rows()
        )
