"""A trace read slowly, line by line, with nothing of the project: what it holds, and whether it is sound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

# Types whose value holds until the next one.
NOTHING = 70000403
HELD = {*range(9400, 9500), 70000121, 70000403, *range(70000310, 70000322), *range(70030000, 70050000)}


class Interval(NamedTuple):
    """One interval on a row."""

    task: int
    thread: int
    type: int
    start: int
    end: int
    value: int


class PlainTrace:
    """OUT.prv, OUT.pcf and OUT.row; records are the numbers of their lines."""

    def __init__(self, prv: Path) -> None:
        head, *lines = prv.read_text(encoding="utf-8").split("\n")
        self.records = [tuple(map(int, line.split(":"))) for line in lines if line and line[0] != "#"]
        # The date has a colon of its own.
        length, nodes, _, tasks = head[head.index("):") + 2 :].removesuffix(",0").split(":", 3)
        self.duration = int(length.removesuffix("_ns"))
        self.cpus = [int(n) for n in nodes[nodes.index("(") + 1 : -1].split(",")]
        pairs = tasks[tasks.index("(") + 1 : -1].split(",")
        self.tasks = [tuple(map(int, pair.split(":"))) for pair in pairs]
        self.types, self.values, self.states = _labels(prv.with_suffix(".pcf").read_text(encoding="utf-8"))
        self.names = _names(prv.with_suffix(".row").read_text(encoding="utf-8"))

    @property
    def events(self) -> Iterator[tuple[tuple[int, int], int, int, int]]:
        """(task, thread), time, type, value of every pair."""
        for record in self.records:
            if record[0] == 2:
                for kind, value in zip(record[6::2], record[7::2], strict=True):
                    yield record[3:5], record[5], kind, value

    def intervals(self) -> list[Interval]:
        """What begins and ends: of one row and type the last that began ends first."""
        begun: dict[tuple[tuple[int, int], int], list[tuple[int, int]]] = {}
        found = []
        for row, time, kind, value in self.events:
            if kind in HELD:
                continue
            stack = begun.setdefault((row, kind), [])
            if value:
                stack.append((time, value))
            else:
                start, of = stack.pop()
                found.append(Interval(*row, kind, start, time, of))
        assert not any(begun.values()), "a begin has no end"
        return found

    def samples(self) -> dict[tuple[tuple[int, int], int], list[tuple[int, int]]]:
        """Time and value of what holds, by row and type, without the type that is always 0."""
        found: dict[tuple[tuple[int, int], int], list[tuple[int, int]]] = {}
        for row, time, kind, value in self.events:
            if kind in HELD and kind != NOTHING:
                found.setdefault((row, kind), []).append((time, value))
        return found

    def messages(self) -> Counter[tuple[int, ...]]:
        """task, thread, sent, task, thread, received, size, tag."""
        lines = (r for r in self.records if r[0] == 3)
        return Counter((*r[3:5], r[5], *r[9:11], r[11], *r[13:]) for r in lines)

    def row(self, task: int, thread: int) -> str:
        """Label of a row."""
        return self.names["THREAD"][sum(threads for threads, _ in self.tasks[: task - 1]) + thread - 1]

    def check(self, whole: bool = True) -> None:
        """What every trace must be; one of a chosen time, which is not `whole`, may end with nothing."""
        assert {level: len(names) for level, names in self.names.items()} == {
            "CPU": sum(self.cpus),
            "NODE": len(self.cpus),
            "APPL": 1,
            "TASK": len(self.tasks),
            "THREAD": sum(threads for threads, _ in self.tasks),
        }
        self._check_objects()
        assert all(a[5] <= b[5] for a, b in pairwise(self.records)), "not in the order of time"
        reached = [t for r in self.records for t in (r[5], *(r[6:7] if r[0] == 1 else r[11:12] if r[0] == 3 else ()))]
        assert min(reached) >= 0
        assert max(reached) == self.duration if whole else max(reached) <= self.duration
        self._check_order()
        for row, _, kind, value in self.events:
            assert kind in self.types, row
            assert not self.values.get(kind) or value in self.values[kind]
        assert all(interval.end > interval.start for interval in self.intervals())

    def _check_objects(self) -> None:
        """Every row has a CPU of its own, on the node of its task."""
        rows = {(r[3], r[4]): r[1] for r in self.records} | {(r[9], r[10]): r[7] for r in self.records if r[0] == 3}
        assert set(rows) == {(n, k) for n, (count, _) in enumerate(self.tasks, 1) for k in range(1, count + 1)}
        assert sorted(rows.values()) == list(range(1, len(rows) + 1))
        last = [0, *accumulate(self.cpus)]
        assert all(last[(node := self.tasks[task - 1][1]) - 1] < cpu <= last[node] for (task, _), cpu in rows.items())

    def _check_order(self) -> None:
        """At one time ends come before begins."""
        begins = [(r[5], r[7] != 0) for r in self.records if r[0] == 2 and r[6] not in HELD]
        assert begins == sorted(begins)


def _labels(pcf: str) -> tuple[dict[int, str], dict[int, dict[int, str]], dict[int, str]]:
    """Types, values by type, and states: each number and label once."""
    types: dict[int, str] = {}
    values: dict[int, dict[int, str]] = {}
    states: dict[int, str] = {}
    section, current = "", 0
    for line in pcf.split("\n"):
        if re.fullmatch(r" ?[A-Z_]+", line):
            section = line.strip()
        elif section == "EVENT_TYPE" and line and not line.startswith("PRECISION"):
            _, number, label = re.fullmatch(r"(\d)    (\d+)    (.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
            current = int(number)
            assert current not in types
            types[current] = label
        elif section in ("VALUES", "STATES") and line:
            number, label = re.fullmatch(r"(\d+) {4,6}(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
            known = states if section == "STATES" else values.setdefault(current, {})
            assert int(number) not in known
            known[int(number)] = label
    # Paraver takes labels for signed 32-bit numbers, trims them, and an empty one is none.
    for labels in (types, states, *values.values()):
        assert all(0 <= n < 2**31 and label and label == label.strip() for n, label in labels.items())
        assert not any(re.search(r"[\x00-\x1f\x7f]", label) for label in labels.values())
    for labels in (types, *({n: t for n, t in of.items() if n} for of in values.values())):
        assert len(set(labels.values())) == len(labels), "two numbers have one label"
    return types, values, states


def _names(row: str) -> dict[str, list[str]]:
    lines = iter(row.split("\n"))
    names: dict[str, list[str]] = {}
    for line in lines:
        if line:
            level, size = re.fullmatch(r"LEVEL (\w+) SIZE (\d+)", line).groups()  # type: ignore[union-attr]
            names[level] = [next(lines) for _ in range(int(size))]
    assert all(name and name == name.strip() for of in names.values() for name in of)
    return names
