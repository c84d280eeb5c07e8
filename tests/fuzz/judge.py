"""What is wrong with a trace, by plain SQL on the report it was made from: nothing of the project is used here."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

Drawn = Counter[tuple[int, int]]
SMALLEST, LARGEST = -(2**63), 2**63 - 1
CUPTI = "CUPTI_ACTIVITY_KIND_"
RANGES = "eventType IN (59, 60, 70, 71)"


class Kind:
    """Events that are drawn alike: their tables, the families that draw them, and their event types in the trace."""

    def __init__(
        self, tables: Mapping[str, str], families: tuple[str, ...], is_type: Callable[[int, str], bool]
    ) -> None:
        self.tables, self.families, self.is_type = tables, families, is_type


def _nvtx(number: int, label: str) -> bool:
    return number in (9004, 9500) or (9600 <= number < 20000 and number % 100 == 0 and label.startswith("NVTX"))


# Table -> the condition on its rows.
KINDS = {
    "calls": Kind({CUPTI + "RUNTIME": "1"}, ("cuda_api",), lambda n, _: n == 63000000),
    "kernels": Kind({CUPTI + "KERNEL": "1"}, ("kernels", "nccl"), lambda n, _: n in (63000006, 63000007)),
    "memory": Kind({CUPTI + "MEMCPY": "1", CUPTI + "MEMSET": "1"}, ("memory",), lambda n, _: n == 63000001),
    "ranges": Kind({"NVTX_EVENTS": RANGES}, ("nvtx", "nccl_calls"), _nvtx),
}


class Trace:
    """A trace as its three texts say it."""

    def __init__(self, prv: Path) -> None:
        self.types: dict[int, str] = {}
        for part in prv.with_suffix(".pcf").read_text().split("EVENT_TYPE\n")[1:]:
            for number, label in re.findall(r"^0    (\d+)    (.*)$", part.split("VALUES")[0], re.MULTILINE):
                self.types[int(number)] = label
        self.labels = set(re.findall(r"^\d+ {6}(.*)$", prv.with_suffix(".pcf").read_text(), re.MULTILINE))
        self.intervals: dict[int, Drawn] = {}
        self.wrong: list[str] = []
        head, *body = prv.read_text().split("\n")
        self.duration = int(head.split(":")[2].removesuffix("_ns"))

        self._read(body)
        self._check_names(prv.with_suffix(".row"))

    def _read(self, body: list[str]) -> None:
        open_: dict[tuple[str, int], list[int]] = {}
        last = -1
        for line in body:
            if not line or line[0] in "#c":
                continue
            fields = line.split(":")
            if not all(re.fullmatch(r"-?\d+", f) for f in fields):
                self.wrong.append(f"not a record: {line[:60]!r}")
                continue
            time = int(fields[5])
            if time < last or not 0 <= time <= self.duration:
                self.wrong.append(f"time {time} after {last} in a trace of {self.duration}")
            last = time
            if fields[0] == "2":
                for kind, value in zip(map(int, fields[6::2]), map(int, fields[7::2]), strict=True):
                    stack = open_.setdefault((":".join(fields[1:5]), kind), [])
                    if value:
                        stack.append(time)
                    elif stack:
                        self.intervals.setdefault(kind, Counter())[stack.pop(), time] += 1

    def _check_names(self, row: Path) -> None:
        lines = row.read_text().split("\n")
        at = 0
        while at < len(lines) and (found := re.fullmatch(r"LEVEL (\w+) SIZE (\d+)", lines[at])):
            at += int(found[2]) + 1
            if at < len(lines) and lines[at] == "":
                at += 1
        if at != len(lines):
            self.wrong.append(f"{row.name}: line {at + 1} is no name and no level")

    def of(self, kind: Kind) -> Drawn:
        """Intervals of a kind."""
        found: Drawn = Counter()
        for number, drawn in self.intervals.items():
            if kind.is_type(number, self.types.get(number, "")):
                found += drawn
        return found


def wrong(
    database: sqlite3.Connection,
    prv: Path,
    families: tuple[str, ...],
    dropped: Mapping[str, Mapping[str, int]],
    warnings: tuple[str, ...],
) -> list[str]:
    """What the trace says that the tables do not, or lacks without a word."""
    trace = Trace(prv)
    found = trace.wrong[:3]
    for name, kind in KINDS.items():
        if set(kind.families) <= set(families):
            told = sum(n for reasons in dropped.values() for n in reasons.values())
            if not any(t in w for t in kind.tables for w in warnings):
                found += [f"{name}: {text}" for text in _compare(_sound(database, kind), trace.of(kind), told)]
    if "cuda_api" in families and not dropped.get("cuda_api"):
        found += [f"names: {text!r} is in no label" for text in _names(database) - trace.labels]
    return found


def _names(database: sqlite3.Connection) -> set[str]:
    """Names of CUDA calls, those that are plain words."""
    try:
        rows = database.execute(
            f"SELECT DISTINCT value FROM StringIds WHERE id IN (SELECT nameId FROM {CUPTI}RUNTIME)"
            " GROUP BY id HAVING count(*) = 1 AND typeof(value) = 'text'"
        ).fetchall()
    except sqlite3.Error:
        return set()
    plain = {str(name).rpartition("_v") for (name,) in rows if re.fullmatch(r"[a-zA-Z]\w*", str(name), re.ASCII)}
    return {head if head and tail.isdecimal() else head + mark + tail for head, mark, tail in plain}


def _sound(database: sqlite3.Connection, kind: Kind) -> tuple[Drawn, int]:
    """Intervals that the tables hold, and how many rows have no time that is one."""
    sound: Drawn = Counter()
    others = 0
    epoch = _epoch(database)
    for table, condition in kind.tables.items():
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        if not {"start", "end"} <= set(columns):
            others += len(columns) and int(database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])
            continue
        try:
            rows = database.execute(f'SELECT start, "end" FROM "{table}" WHERE {condition}').fetchall()
        except sqlite3.Error:
            rows = []
        for start, end in rows:
            low, high = _whole(start), _whole(end)
            if low is None or high is None or not SMALLEST <= low + epoch < LARGEST or high + epoch > LARGEST:
                others += 1
            else:
                sound[low, max(high, low + 1)] += 1
    return sound, others


def _epoch(database: sqlite3.Connection) -> int:
    try:
        row = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    except sqlite3.Error:
        return 0
    return _whole(row[0]) or 0 if row else 0


def _whole(value: object) -> int | None:
    """The integer that a value is, written in whatever way."""
    if isinstance(value, int):
        return value
    if isinstance(value, bytes | str):
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        return int(text) if re.fullmatch(r"-?\d{1,19}", text) else None
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else None


def _compare(expected: tuple[Drawn, int], drawn: Drawn, told: int) -> list[str]:
    sound, others = expected
    if told:
        missing = sound.total() - drawn.total()
        return [f"{missing} are missing, {told} are told"] if missing > told else []
    if others:
        return [f"{others} rows without a time, and nothing is told"]
    if _from_zero(sound) != _from_zero(drawn):
        return [f"{sound.total()} in the tables, {drawn.total()} in the trace, and they differ"]
    return []


def _from_zero(intervals: Drawn) -> Drawn:
    """The trace begins when it begins: times count from the first."""
    first = min((start for start, _ in intervals), default=0)
    return Counter({(start - first, end - first): n for (start, end), n in intervals.items()})
