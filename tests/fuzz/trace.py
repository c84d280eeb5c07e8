"""A trace as its three texts say it, by plain parsing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HEADER = r"#Paraver \([^)]*\):(\d+)_ns:(\d+)\(([\d,]+)\):1:(\d+):?\(([^)]*)\)(?:,\d+)?"
LINE_END = r"[\x00-\x1f\x7f\x85\u2028\u2029]+"
# Types whose value holds until the next one, 0 too: metrics, network, memory in use.
HELD = (range(9400, 9500), range(70000121, 70000122), range(70030000, 70031000), range(70000310, 70000322))

# Task and the row's label: lanes of a row share it.
Row = tuple[int, str]


@dataclass(frozen=True)
class Drawn:
    """An interval: its row, begin, end (ns), number of its type, and the value's label (its number: it has none)."""

    row: Row
    begin: int
    end: int
    type: int
    label: str


@dataclass(frozen=True)
class Line:
    """A communication line: from when to when (ns), size and tag."""

    sent: int
    received: int
    size: int
    tag: int


@dataclass
class Trace:
    """What a trace shows, and in `wrong` what is no trace."""

    prv: Path
    types: dict[int, str] = field(default_factory=dict)
    values: dict[int, dict[int, str]] = field(default_factory=dict)
    intervals: list[Drawn] = field(default_factory=list)
    # Points of types that hold, by row and type.
    held: dict[tuple[Row, int], list[tuple[int, int]]] = field(default_factory=dict)
    lines: Counter[Line] = field(default_factory=Counter)
    # Types with an end that had no begin, or a begin without an end.
    unbalanced: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._read_labels(self.prv.with_suffix(".pcf").read_text(encoding="utf-8"))
        levels = self._read_names(self.prv.with_suffix(".row"))
        head, *body = self.prv.read_text(encoding="utf-8").split("\n")
        found = re.fullmatch(HEADER, head)
        if found is None:
            self.wrong.append(f"header {head[:80]!r}")
            return
        self.duration, nodes = int(found[1]), int(found[2])
        self._cpus = sum(int(n) for n in found[3].split(","))
        tasks = [(int(n), int(node)) for n, _, node in (part.partition(":") for part in found[5].split(","))]
        names = iter(levels.get("THREAD", ()))
        self._rows = {
            (task, thread): (task, next(names, "?"))
            for task, (threads, _) in enumerate(tasks, start=1)
            for thread in range(1, threads + 1)
        }
        sizes = {"CPU": self._cpus, "NODE": nodes, "TASK": len(tasks), "THREAD": len(self._rows)}
        if any(len(levels.get(level, ())) != n for level, n in sizes.items()):
            self.wrong.append("names and objects differ in number")
        if int(found[4]) != len(tasks) or not all(1 <= node <= nodes for _, node in tasks):
            self.wrong.append(f"objects of {head[:80]!r}")
        self._read(body)

    def _read_labels(self, pcf: str) -> None:
        # Labels may be these words, too, but no label is a line of its own.
        for part in pcf.split("\nEVENT_TYPE\n")[1:]:
            kinds, _, values = part.partition("\nVALUES\n")
            named = {int(n): label for n, label in re.findall(r"^(-?\d+) {6}(.*)$", values, re.MULTILINE)}
            for number, label in re.findall(r"^0    (\d+)    (.*)$", kinds, re.MULTILINE):
                self.types[int(number)], self.values[int(number)] = label, named

    def _read_names(self, row: Path) -> dict[str, list[str]]:
        lines, levels = row.read_text(encoding="utf-8").split("\n"), {}
        at = 0
        while at < len(lines) and (found := re.fullmatch(r"LEVEL (\w+) SIZE (\d+)", lines[at])):
            levels[found[1]] = lines[at + 1 : at + 1 + int(found[2])]
            at += int(found[2]) + 1
            if at < len(lines) and lines[at] == "":
                at += 1
        if at != len(lines):
            self.wrong.append(f"{row.name}: line {at + 1} is no name and no level")
        return levels

    def _read(self, body: list[str]) -> None:
        begun: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        last = 0
        for line in body:
            if not line or line[0] in "#c":
                continue
            fields = line.split(":")
            try:
                kind, cpu, _, task, thread, time, *rest = map(int, fields)
            except ValueError:
                self.wrong.append(f"not a record: {line[:60]!r}")
                continue
            if not last <= time <= self.duration:
                self.wrong.append(f"time {time} after {last} in a trace of {self.duration}")
            last = time
            if (task, thread) not in self._rows or not 1 <= cpu <= self._cpus:
                self.wrong.append(f"no such object: {line[:60]!r}")
            elif kind == 2:
                for number, value in zip(rest[::2], rest[1::2], strict=True):
                    self._take(begun, task, thread, time, number, value)
            elif kind == 3:
                self._take_line(line, time, rest)
        self.unbalanced |= {number for (_, _, number), open_ in begun.items() if open_}

    def _take_line(self, line: str, time: int, rest: list[int]) -> None:
        _, cpu, _, task, thread, received, _, size, tag = rest
        if (task, thread) not in self._rows or not 1 <= cpu <= self._cpus:
            self.wrong.append(f"no such object: {line[:60]!r}")
        self.lines[Line(time, received, size, tag)] += 1

    def _take(
        self,
        begun: dict[tuple[int, int, int], list[tuple[int, int]]],
        task: int,
        thread: int,
        time: int,
        number: int,
        value: int,
    ) -> None:
        row = self._rows[task, thread]
        if any(number in held for held in HELD):
            self.held.setdefault((row, number), []).append((time, value))
            return
        stack = begun.setdefault((task, thread, number), [])
        if value:
            stack.append((time, value))
        elif stack:
            begin, value = stack.pop()
            label = self.values[number].get(value, str(value)) if number in self.values else "?"
            self.intervals.append(Drawn(row, begin, time, number, label))
        else:
            self.unbalanced.add(number)


def clean(text: str) -> str:
    """A text as a label: on one line, without blanks around it, never empty."""
    return re.sub(LINE_END, " ", text).strip() or "(no text)"
