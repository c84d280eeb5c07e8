"""What the tables of a report hold that its trace must show, by plain SQL: nothing of the project is used here.

A row is *sound* where what it says is plain; other rows may be drawn in some way or not at all, but must be told of.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from . import nccl_operations as nccl
from .trace import clean

CUPTI = "CUPTI_ACTIVITY_KIND_"
RUNTIME, KERNEL, MEMCPY, MEMSET, GRAPH = (CUPTI + t for t in ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))
DEVICE = (KERNEL, MEMCPY, MEMSET, GRAPH)
NVTX, OSRT, METRICS = "NVTX_EVENTS", "OSRT_API", "GPU_METRICS"
P2P, WAITS, COLLECTIVES = "MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_COLLECTIVES_EVENTS"
MPI = (P2P, WAITS, COLLECTIVES, "MPI_OTHER_EVENTS")
# Number of the event type, and its tables: OPENMP_EVENT_KIND_...
OPENMP = {
    70000006: ("PARALLEL", "THREAD"),
    70000241: ("TASK",),
    70000242: ("WORKSHARE", "MASTER", "REDUCTION"),
    70000243: ("SYNC_REGION",),
    70000244: ("SYNC_REGION_WAIT", "MUTEX_WAIT"),
    70000245: ("CRITICAL_SECTION",),
    70000246: (
        *("TASK_CREATE", "TASK_SCHEDULE", "CANCEL", "MUTEX_RELEASED"),
        *("LOCK_INIT", "LOCK_DESTROY", "DISPATCH", "FLUSH"),
    ),
}
COPIES = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
# ns beyond which no time of an event is one: see the schema of the package.
LIMIT = 1 << 61
PYTHON = ("Python Backtrace", "Python Periodic Sampling", "Python Backtrace on CUDA")
PUSH_POP, START_END, MARKS, DOMAIN = (59, 70), (60, 71), (34, 65), 75
PROCESS = 24

# Where it is, in numbers of the report: (process, thread) or (process, stream).
Place = tuple[int, int]
Row = dict[str, int | str | None]
Event = tuple[int, int, str, str]


@dataclass
class Held:
    """What tables hold of one kind: sound events (begin, end, type, label) by place; rows that are not sound."""

    events: list[tuple[Place, Event]] = field(default_factory=list)
    others: int = 0
    # Rows that may be an event or none, and either is right.
    unsure: int = 0
    # The texts of each label.
    texts: dict[str, set[str]] = field(default_factory=dict)

    def add(self, place: Place, begin: int, end: int, kind: str, label: str) -> None:
        """An event; one that ends before it begins is drawn 1 ns long, and must be told of."""
        self.texts.setdefault(clean(label), set()).add(label)
        self.events.append((place, (begin, max(end, begin + 1), kind, clean(label))))
        self.others += end < begin

    def without_number(self, label: str) -> str:
        """A label of the trace without the number that tells it from another text, which is the same once cleaned."""
        found = re.fullmatch(r"(.+) \(\d+\)", label)
        numbered = found and label not in self.texts and len(self.texts.get(found[1], ())) > 1
        return found[1] if found and numbered else label


class Tables:
    """The tables of a report."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        # Texts as they are: what is no UTF-8 in them is for `_text` to say.
        database.text_factory = bytes

    def columns(self, table: str) -> list[str]:
        rows = self.database.execute(f'SELECT CAST(name AS BLOB) FROM pragma_table_info("{table}")')
        return [name.decode(errors="replace") for (name,) in rows]

    def rows(self, table: str, whole: str, needed: str = "", text: str = "") -> Iterator[Row]:
        """Rows with columns `whole` (integers) and `text`; none where a column in `needed` is not there."""
        have = self.columns(table)
        if have and not set(needed.split()) <= set(have):
            return
        integers = [c for c in whole.split() if c in have]
        texts = [c for c in text.split() if c in have]
        if not have:
            return
        terms = [f'"{c}"' for c in integers] + [f'CAST(CAST("{c}" AS TEXT) AS BLOB)' for c in texts]
        nothing: Row = dict.fromkeys((*whole.split(), *text.split()))
        for row in self.database.execute(f'SELECT {", ".join(terms) or "1"} FROM "{table}"'):
            found = zip(integers + texts, row, strict=False)
            yield nothing | {c: as_whole(v) if c in integers else _text(v) for c, v in found}

    def count(self, table: str) -> int:
        """Rows of a table, 0 without it."""
        if not self.columns(table):
            return 0
        return int(self.database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])

    @cached_property
    def strings(self) -> dict[int, str | None]:
        """Texts by id, the first of each."""
        found: dict[int, str | None] = {}
        for row in self.rows("StringIds", "id", "id", text="value"):
            if isinstance(row["id"], int):
                found.setdefault(row["id"], row["value"])  # type: ignore[arg-type]
        return found

    @cached_property
    def payload_names(self) -> str:
        """Names of all fields of binary payloads."""
        rows = self.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", "", text="name")
        return " | ".join(str(row["name"]) for row in rows)

    def name(self, number: int) -> str:
        """The text of an id."""
        text = self.strings.get(number)
        return f"string {number}" if text is None else text


def as_whole(value: object) -> int | None:
    """The integer that a value is, written in whatever way."""
    if isinstance(value, int):
        return value
    if isinstance(value, bytes):
        number = int(value) if re.fullmatch(rb"0|-?[1-9]\d{0,18}", value) else LARGEST
        return number if -LARGEST <= number < LARGEST else None
    return int(value) if isinstance(value, float) and -LARGEST <= value < LARGEST and value.is_integer() else None


LARGEST = 1 << 63


def _text(value: bytes | None) -> str | None:
    return value.decode(errors="replace") if value else None


def _time(value: object) -> int | None:
    return value if isinstance(value, int) and -LIMIT <= value <= LIMIT else None


def thread(tid: int) -> Place:
    """Process and thread of a globalTid."""
    return tid >> PROCESS << PROCESS, tid & 0xFFFFFF


def calls(tables: Tables, names: tuple[str, ...], kind: str, label: str = "nameId", unnamed: str = "") -> Held:
    """Rows that are calls of threads, named by StringIds. `unnamed`: how one without a name is called, if it may be."""
    found = Held()
    for table in names:
        sound = 0
        for row in tables.rows(table, f"start end globalTid {label}", "start end"):
            begin, end, tid, name = _time(row["start"]), _time(row["end"]), row["globalTid"], row[label]
            if begin is None or end is None or not isinstance(tid, int) or not (isinstance(name, int) or unnamed):
                continue
            sound += 1
            found.add(thread(tid), begin, end, kind, tables.name(name) if isinstance(name, int) else unnamed)
        found.others += tables.count(table) - sound
    return found


def cuda_calls(tables: Tables) -> Held:
    """CUDA calls, without the version of their interface."""
    held = calls(tables, (RUNTIME,), "63000000")
    held.events = [(at, (b, e, kind, re.sub(r"_v\d+\Z", "", label))) for at, (b, e, kind, label) in held.events]
    return held


def openmp(tables: Tables) -> Held:
    """OpenMP regions."""
    found = Held()
    for number, parts in OPENMP.items():
        names = tuple(f"OPENMP_EVENT_KIND_{p}" for p in parts)
        held = calls(tables, names, str(number), unnamed="(unnamed)")
        found.events += held.events
        found.others += held.others
    return found


def os_calls(tables: Tables) -> Held:
    """OS runtime calls."""
    return calls(tables, (OSRT,), "70000003")


def mpi(tables: Tables) -> Held:
    """MPI calls: rows of one thread, function and begin are one call, which ends with the last of them."""
    found = Held()
    longest: dict[tuple[int, int, int], int] = {}
    for table in MPI:
        sound = 0
        for row in tables.rows(table, "start end globalTid textId", "start end globalTid textId"):
            begin, end, tid, name = _time(row["start"]), _time(row["end"]), row["globalTid"], row["textId"]
            if begin is None or not isinstance(tid, int) or not isinstance(name, int):
                continue
            sound += end is not None
            # Without an end it is drawn 1 ns long.
            end = begin + 1 if end is None else end
            longest[tid, begin, name] = max(end, longest.get((tid, begin, name), end))
        found.others += tables.count(table) - sound
    for (tid, begin, name), end in longest.items():
        text = tables.name(name)
        found.add(thread(tid), begin, end, "MPI", "MPI_Init" if text == "MPI_Init_thread" else text)
    return found


def _device_rows(tables: Tables, table: str, also: str = "", needed: str = "") -> Iterator[Row]:
    """Rows of a device table that have times and a stream."""
    keys = f"start end globalPid deviceId streamId correlationId {also}"
    for row in tables.rows(table, keys, f"start end deviceId streamId {needed}"):
        times = _time(row["start"]), _time(row["end"])
        if None not in (*times, row["deviceId"], row["streamId"], *(row[c] for c in needed.split())):
            yield row


def _on_stream(row: Row) -> tuple[Place, int, int]:
    pid, stream, begin, end = (int(row[c] or 0) for c in ("globalPid", "streamId", "start", "end"))
    return (pid, stream), begin, end


def kernels(tables: Tables) -> Held:
    """Kernels by their short names, NCCL's apart."""
    found = Held()
    for row in _device_rows(tables, KERNEL, "shortName", "shortName"):
        name = tables.name(int(row["shortName"] or 0))
        of_nccl = re.match(r"(?i)nccl(symk?)?(dev)?kernel", name)
        found.add(*_on_stream(row), "63000007" if of_nccl else "63000006", name)
    # Those that end before they begin are counted already.
    found.others += tables.count(KERNEL) - len(found.events)
    return found


def memory(tables: Tables) -> Held:
    """Copies and memsets by kind."""
    found = Held()
    for row in _device_rows(tables, MEMCPY, "copyKind"):
        found.add(*_on_stream(row), "63000001", COPIES.get(int(row["copyKind"] or 0), "Unknown"))
    for row in _device_rows(tables, MEMSET):
        found.add(*_on_stream(row), "63000001", "Memset")
    found.others += tables.count(MEMCPY) + tables.count(MEMSET) - len(found.events)
    return found


def sizes(tables: Tables) -> Held:
    """Bytes of copies and memsets that have any."""
    found = Held()
    rows = 0
    for table in (MEMCPY, MEMSET):
        for row in _device_rows(tables, table, "bytes"):
            rows += 1
            if row["bytes"]:
                found.add(*_on_stream(row), "63000002", str(row["bytes"]))
    found.others += tables.count(MEMCPY) + tables.count(MEMSET) - rows
    return found


def _domains(tables: Tables, rows: list[Row]) -> dict[tuple[int | None, int], str | None]:
    """Names of NVTX domains by process and number, the first of each."""
    found: dict[tuple[int | None, int], str | None] = {}
    for row in rows:
        if row["eventType"] == DOMAIN and _time(row["start"]) is not None:
            found.setdefault(_domain(row), _registered(tables, row, "text"))
    return found


def _domain(row: Row) -> tuple[int | None, int]:
    tid = row["globalTid"]
    return tid >> PROCESS if isinstance(tid, int) else None, int(row["domainId"] or 0)


def _registered(tables: Tables, row: Row, column: str) -> str | None:
    """A text, or the one that its id stands for."""
    number = row[f"{column}Id"]
    text = row[column] or (tables.strings.get(number) if isinstance(number, int) else None)
    return None if text is None else str(text)


def ranges(tables: Tables) -> Held:
    """NVTX ranges and marks with text and domain; NCCL's calls apart, without samples of Python stacks."""
    found = Held()
    for row, kind, text in _ranges(tables):
        begin, end, tid = _time(row["start"]), _time(row["end"]), row["globalTid"]
        if kind in (nccl.OPERATION, nccl.UNCLEAR):
            found.unsure += kind == nccl.UNCLEAR
            continue
        if kind == "NVTX mark" and end is None:
            end = begin
        if begin is None or end is None or not isinstance(tid, int):
            found.others += 1
        else:
            found.add(thread(tid), begin, end, kind, text)
    if not {"start", "eventType"} <= set(tables.columns(NVTX)):
        found.others = tables.count(NVTX)
    return found


def _ranges(tables: Tables) -> Iterator[tuple[Row, str, str]]:
    """Rows with the label of their event type and their text; those of unknown types are not sound."""
    keys = "start end eventType textId globalTid domainId jsonTextId"
    rows = list(tables.rows(NVTX, keys, "start eventType", text="text jsonText binaryData"))
    domains = _domains(tables, rows)
    for row in rows:
        text = _registered(tables, row, "text") or ""
        number = row["domainId"] or 0
        domain = domains.get(_domain(row)) or (f"domain {number}" if number else "default")
        if domain == "NCCL" and (special := _of_device(tables, row)) != nccl.RANGE:
            yield row, special, text
        elif row["eventType"] in MARKS and domain not in PYTHON:
            yield row, "NVTX mark", text
        elif row["eventType"] in START_END:
            yield row, "NVTX start/end range", text
        elif row["eventType"] in PUSH_POP:
            yield (
                row,
                "NCCL call" if domain == "NCCL" and re.match("nccl[A-Z]", text) else clean(f"NVTX {domain}"),
                text,
            )


def _of_device(tables: Tables, row: Row) -> str:
    """Whether a row of NCCL's domain is an operation on the device, a range, or unclear."""
    if row["eventType"] not in (*PUSH_POP, *START_END, *MARKS):
        return nccl.RANGE
    text = _registered(tables, row, "jsonText")
    kind = nccl.read(text).kind
    # What the text does not say the bytes may say.
    names = tables.payload_names if text is None else text
    said_in_bytes = kind == nccl.RANGE and row["binaryData"] is not None and nccl.TELLING.search(names)
    return nccl.UNCLEAR if said_in_bytes else kind


def operations(tables: Tables) -> Held:
    """NCCL's operations on the device, the channels of each together. None is sure while any row is unclear."""
    found = Held()
    rows: list[nccl.Row] = []
    for row, kind, text in _ranges(tables):
        begin, end, tid = _time(row["start"]), _time(row["end"]), row["globalTid"]
        if kind == nccl.OPERATION and row["eventType"] in MARKS and end is None:
            end = begin
        if kind not in (nccl.OPERATION, nccl.UNCLEAR):
            continue
        if kind == nccl.UNCLEAR or not isinstance(tid, int):
            found.unsure += 1
        elif begin is None or end is None:
            found.others += 1
        else:
            payload = nccl.read(_registered(tables, row, "jsonText"))
            rows.append(nccl.Row(tid >> PROCESS, begin, end, text, payload))
    merged = None if found.unsure else nccl.merged(rows)
    if merged is None:
        found.unsure += len(rows)
        return found
    for process, begin, end, label in merged:
        found.add((process, 0), begin, end, "70000140", label)
    return found


def payloads(tables: Tables) -> Held:
    """Bytes of NCCL calls, where their JSON says it once and plainly; where it does not, binary data may."""
    found = Held()
    for row, kind, _ in _ranges(tables):
        begin, end, tid = _time(row["start"]), _time(row["end"]), row["globalTid"]
        text = _registered(tables, row, "jsonText")
        found.unsure += kind == nccl.UNCLEAR
        if kind != "NCCL call" or (text is None and row["binaryData"] is None):
            continue
        size = _size(text or "")
        elsewhere = size is None or (not size and row["binaryData"] is not None)
        if begin is None or end is None or not isinstance(tid, int) or elsewhere:
            found.unsure += 1
        elif size:
            found.events.append((thread(tid), (begin, max(end, begin + 1), "9502", str(size))))
    return found


def _size(text: str) -> int | None:
    """Message size that a payload names; 0: it names none."""
    try:
        fields = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, list) or any(isinstance(f[1], list) for f in fields if isinstance(f, tuple)):
        return None
    sizes = [f[1] for f in fields if isinstance(f, tuple) and f[0] in ("Message size [bytes]", "Data size [bytes]")]
    plain = len(sizes) == 1 and isinstance(sizes[0], int) and not isinstance(sizes[0], bool) and sizes[0] < LARGEST
    return sizes[0] if plain else None if sizes or len(fields) == 0 else 0


def launches(tables: Tables) -> tuple[Counter[tuple[int, int]], int]:
    """Lines from calls to device activity (call's begin, activity's begin); rows of either that are not sound."""
    called: dict[tuple[int, int], int] = {}
    others = sum(map(tables.count, (RUNTIME, *DEVICE)))
    for row in tables.rows(RUNTIME, "start end globalTid correlationId nameId", "start end globalTid nameId"):
        begin, tid, number = _time(row["start"]), row["globalTid"], row["correlationId"]
        if begin is None or not isinstance(tid, int) or row["nameId"] is None:
            continue
        others -= 1
        if isinstance(number, int) and number:
            key = tid >> PROCESS, number
            called[key] = min(begin, called.get(key, begin))
    found: Counter[tuple[int, int]] = Counter()
    for table in DEVICE:
        needed = "shortName" if table == KERNEL else ""
        for row in _device_rows(tables, table, needed, needed):
            others -= 1
            key = int(row["globalPid"] or 0) >> PROCESS, int(row["correlationId"] or 0)
            if key in called:
                found[called[key], int(row["start"] or 0)] += 1
    return found, others


def metrics(tables: Tables) -> tuple[dict[tuple[int, str], dict[int, int]], int]:
    """Values of GPU metrics by time, by typeId and name; rows that are not sound."""
    names: dict[tuple[int, int], str | None] = {}
    for row in tables.rows("TARGET_INFO_GPU_METRICS", "typeId metricId", "typeId metricId", text="metricName"):
        if isinstance(row["typeId"], int) and isinstance(row["metricId"], int):
            metric = row["typeId"], row["metricId"]
            names.pop(metric, None)
            names[metric] = None if row["metricName"] is None else str(row["metricName"])
    titles: dict[tuple[int, int], str] = {}
    for (of, n), name in names.items():
        title = (name or "").strip() or f"metric {n}"
        taken = any(g == of and t == title for (g, _), t in titles.items())
        titles[of, n] = f"{title} (metric {n})" if taken else title
    found: dict[tuple[int, str], dict[int, int]] = {}
    sound = 0
    for row in tables.rows(METRICS, "timestamp typeId metricId value", "timestamp typeId metricId value"):
        time, gpu, number, value = _time(row["timestamp"]), row["typeId"], row["metricId"], row["value"]
        if time is None or not (isinstance(gpu, int) and isinstance(number, int) and isinstance(value, int)):
            continue
        sound += 1
        found.setdefault((gpu, titles.get((gpu, number), f"metric {number}")), {})[time] = value
    return found, tables.count(METRICS) - sound


def messages(tables: Tables) -> tuple[set[int], set[int], set[int]]:
    """Of MPI: times at which a message may begin and end, and sizes that one may have."""
    begins: set[int] = set()
    ends: set[int] = set()
    sizes: set[int] = set()
    for table in (P2P, WAITS):
        for row in tables.rows(table, "start end size", "start end"):
            begins.add(row["start"])  # type: ignore[arg-type]
            ends |= {row["end"], row["start"]}  # type: ignore[arg-type]
            sizes.add(row["size"] or 0)  # type: ignore[arg-type]
    return begins, ends, sizes
