"""Golden tests: rows of small reports side by side with the lines of their traces, one file for each subject.

README.md explains the files. `GOLDEN=write pytest tests/golden` writes the lines of this version into them, for review.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from golden_report import sections, write_report
from plain import PlainTrace

import nsys2prv
from nsys2prv.model.event_types import EFFICIENCY_FACTOR, NOTHING

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.txt"))
FAMILIES_DOC = HERE.parents[1] / "docs" / "trace.md"
# Subjects beyond one family.
OTHERS = {"merge_clocks", "merge_hosts", "match_mpi", "match_nccl", "match_nonblocking", "slices", "cut"}

# Columns: the width of a file, and where explanations begin.
WIDTH, MIDDLE = 130, 46

# Every trace begins with them: `nsys2prv/model/table_columns.py`.
NAMES_OF_COLUMNS = {str(kind.number) for kind in (EFFICIENCY_FACTOR, NOTHING)}


def without_names(line: str) -> str:
    """Return a line of a trace without the names that begin every trace; empty without others."""
    if not line.startswith("2:"):
        return line
    fields = line.split(":")
    place, pairs = fields[:6], list(zip(fields[6::2], fields[7::2], strict=True))
    kept = [pair for pair in pairs if pair[0] not in NAMES_OF_COLUMNS]
    return ":".join([*place, *(field for pair in kept for field in pair)]) if kept else ""


class Explained:
    """The lines of a trace, each with its meaning by the labels of the trace."""

    def __init__(self, prv: Path) -> None:
        shown = (line for line in prv.read_text().splitlines() if not line.startswith("# "))
        self.lines = list(filter(None, map(without_names, shown)))
        self.plain = PlainTrace(prv)
        self.plain.check(whole=False)
        pcf = prv.with_suffix(".pcf").read_text()
        self.decimals = {int(t): int(n) for t, n in re.findall(r"^0 +(\d+) .*\nPRECISION (\d+)$", pcf, re.MULTILINE)}

    def text(self) -> str:
        """Return the lines with their explanations, beside them if there is room, else below."""
        head, *body = self.lines
        told = [line for line in body if line.split(":")[6] not in NAMES_OF_COLUMNS]
        return "".join([head + "\n", *self._rows(), *map(self._explained, told)])

    def _rows(self) -> Iterator[str]:
        first = 0
        for n, (threads, node) in enumerate(self.plain.tasks):
            names = ", ".join(self.plain.names["THREAD"][first : first + threads])
            yield f"    {self.plain.names['NODE'][node - 1]} / {self.plain.names['TASK'][n]} / {names}\n"
            first += threads

    def _explained(self, line: str) -> str:
        said = self._said([int(n) for n in line.split(":")])
        beside = f"{line:{MIDDLE - 2}}  {said}\n"
        if len(beside) <= WIDTH:
            return beside
        below = textwrap.wrap(said, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        return "\n".join([line, *below, ""])

    def _said(self, record: list[int]) -> str:
        match record:
            case [1, _, _, task, thread, begin, end, state]:
                return f"{begin} to {end}  {self._row(task, thread)}  state {self.plain.states[state]}"
            case [2, _, _, task, thread, time, *pairs]:
                return f"{time}  {self._row(task, thread)}  {self._events(pairs)}"
            case [3, _, _, task, thread, sent, _, _, _, to_task, to_thread, received, _, size, tag]:
                ends = f"{sent}  {self._row(task, thread)} -> {received}  {self._row(to_task, to_thread)}"
                return f"{ends}  {size} bytes, tag {tag}"
        raise AssertionError(f"no such record: {record}")

    def _row(self, task: int, thread: int) -> str:
        names = [self.plain.row(task, n + 1) for n in range(self.plain.tasks[task - 1][0])]
        name = names[thread - 1]
        if lane := names[: thread - 1].count(name):
            name = f"{name} ({lane + 1})"
        return f"{self.plain.names['TASK'][task - 1]} / {name}" if len(self.plain.tasks) > 1 else name

    def _events(self, pairs: list[int]) -> str:
        said = [self._event(kind, value) for kind, value in zip(pairs[::2], pairs[1::2], strict=True)]
        if len(said) > 1 and not any(pairs[1::2]) and said[0].endswith(("= End", "= Idle")):
            said[1:] = ["its attributes too"]
        return ", ".join(said)

    def _event(self, kind: int, value: int) -> str:
        number = f"{value / 10**n:.{n}f}" if (n := self.decimals.get(kind, 0)) else str(value)
        return f"{self.plain.types[kind]} = {self.plain.values.get(kind, {}).get(value, number)}"


def run(command: str, folder: Path) -> Path:
    """Run one command line in a folder, and return the trace that it writes."""
    words = shlex.split(command)
    # Run the package that this process imported.
    here = {**os.environ, "PYTHONPATH": str(Path(nsys2prv.__file__).parents[1])}
    line = [sys.executable, "-m", "nsys2prv", *words]
    done = subprocess.run(line, cwd=folder, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / f"{words[words.index('-o') + 1]}.prv"


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_rows_become_lines(file: Path, tmp_path: Path) -> None:
    """Run a file's commands on its reports and compare the trace with the file's lines."""
    parts = sections(file.read_text())
    (tmp_path / "reports").mkdir()
    number = count()
    for title, body in parts:
        if title.startswith("report"):
            name = title.removeprefix("report").strip() or f"app{next(number) or ''}"
            write_report(tmp_path / "reports" / f"{name}.sqlite", body)
        elif title.startswith("file"):
            (tmp_path / title.removeprefix("file").strip()).write_text(body)
    (commands,) = (body for title, body in parts if title == "command")
    prv = [run(line, tmp_path) for line in commands.splitlines() if line][-1]
    title, expected = parts[-1]
    assert title == "trace", "the trace comes last"
    found = Explained(prv).text()
    if os.environ.get("GOLDEN") == "write":
        file.write_text(file.read_text().removesuffix(expected) + found)
    elif found != expected:
        diff = difflib.unified_diff(expected.splitlines(), found.splitlines(), str(file), "this version", lineterm="")
        pytest.fail("\n".join(diff), pytrace=False)


def test_every_family_has_a_file() -> None:
    """Compare the files with the table of families in the documentation."""
    documented = FAMILIES_DOC.read_text().partition("<!-- families: begin -->")[2].partition("<!-- families: end -->")
    families = set(re.findall(r"^\| `(\w+)` \|", documented[0], re.MULTILINE))
    assert len(families) > 30
    assert {file.stem for file in FILES} == families | OTHERS


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_file_fits_a_screen(file: Path) -> None:
    """Keep rows and lines side by side."""
    lines = file.read_text().splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 144
