"""What is wrong with a trace of nvprof's file, by the times in its tables: nothing of the project is used here."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from .judge import shift_of
from .trace import Trace

LIMIT = 1 << 61
# Kind -> families that draw all of it, its tables with the rows that count, and numbers of its event types.
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str], tuple[int, ...]]] = {
    "kernels": (
        ("kernels", "nccl"),
        dict.fromkeys(("CONCURRENT_KERNEL", "KERNEL", "CDP_KERNEL"), "1"),
        (63000006, 63000007),
    ),
    "memory": (
        ("memory",),
        {**dict.fromkeys(("MEMCPY", "MEMCPY2", "MEMSET"), "1"), "UNIFIED_MEMORY_COUNTER": "counterKind IN (1, 2, 8)"},
        (63000001,),
    ),
    "calls": (("cuda_api",), dict.fromkeys(("RUNTIME", "DRIVER"), "1"), (63000000,)),
}


def wrong_of_nvprof(
    database: sqlite3.Connection, prv: Path, families: Collection[str], dropped: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """What the trace shows and the tables do not, or lacks without a word: intervals by begin and length."""
    trace = Trace(prv)
    kinds = {name: kind for name, kind in KINDS.items() if set(kind[0]) <= set(families)}
    drawn = {
        name: [(d.begin, d.end - d.begin) for d in trace.intervals if d.type in kind[2]] for name, kind in kinds.items()
    }
    held = {
        name: [row for t, where in kind[1].items() for row in _rows(database, t, where)] for name, kind in kinds.items()
    }
    sound = {name: [(a, max(b - a, 1)) for a, b in rows if _is_sound(a, b)] for name, rows in held.items()}
    shift = shift_of([([(ns, at) for at, ns in sound[n]], [(ns, at) for at, ns in drawn[n]]) for n in kinds])
    found = trace.wrong[:3]
    for name, (of, _, _) in kinds.items():
        told = sum(n for family in of for n in dropped.get(family, {}).values())
        shown, expected = Counter((at - shift, ns) for at, ns in drawn[name]), Counter(sound[name])
        missing, more = (expected - shown).total(), (shown - expected).total()
        unsure = len(held[name]) - len(sound[name])
        if missing > told or more > told + unsure:
            found.append(f"{name}: {missing} are missing, {more} are not so, {told} are told")
    return found


def _rows(database: sqlite3.Connection, table: str, where: str) -> list[tuple[object, object]]:
    """Begin and end of a table's rows; none without the table or its columns."""
    try:
        return database.execute(f'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_{table} WHERE {where}').fetchall()
    except sqlite3.Error:
        return []


def _is_sound(begin: object, end: object) -> bool:
    return isinstance(begin, int) and isinstance(end, int) and 0 < begin <= end < LIMIT
