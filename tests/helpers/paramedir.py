"""Real Paraver on the command line: figures of cfgs on a trace, and whatever it complains about."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nsys2prv.paraver.cfg import FOLDER, Cfg


def program() -> str:
    """The paramedir of PARAVER_HOME or PATH; the test is skipped without."""
    home = os.environ.get("PARAVER_HOME")
    found = shutil.which("paramedir", path=f"{home}/bin" if home else None)
    if found is None:
        pytest.skip("needs Paraver: set PARAVER_HOME")
    return found


# Cells that are not 0: (row, column) -> value. Rows of one label are added.
Table = dict[tuple[str, str], float]


def _cells(text: str) -> Table:
    head, *lines = text.splitlines()
    columns = head.split("\t")[1:-1]
    cells: Table = {}
    for line in lines:
        row, *values = line.rstrip("\t").split("\t")
        for column, value in zip(columns, values, strict=True):
            if float(value):
                cells[row, column] = cells.get((row, column), 0.0) + float(value)
    return cells


@dataclass(frozen=True)
class Output:
    """What paramedir wrote for each cfg, by path, and what it said on stderr.

    `asks`: cfgs about which the GUI asks, because the trace has some of their event types and lacks others.
    """

    folder: Path
    complaints: str
    asks: frozenset[str] = frozenset()

    def _file(self, cfg: str) -> Path:
        return self.folder / f"{cfg.replace('/', '_')}.csv"

    def exists(self, cfg: str) -> bool:
        return self._file(cfg).exists()

    def table(self, cfg: str) -> Table:
        """Cells of a histogram."""
        return _cells(self._file(cfg).read_text().split("\n\n")[0])

    def planes(self, cfg: str) -> dict[str, Table]:
        """Cells of each plane of a histogram with a third dimension, by the plane's label."""
        parts = self._file(cfg).read_text().split("\n\n")
        # Each plane's label and table, then its totals; a blank line more between planes.
        tables = [part.strip("\n").split("\n", 1) for part in parts if "\n\t" in part]
        return {label.strip(): _cells(table) for label, table in tables}

    def totals(self, cfg: str, column: str) -> dict[str, float]:
        """Total, Average, Maximum, Minimum, StDev and Avg/Max of a column."""
        parts = self._file(cfg).read_text().split("\n\n")
        at = parts[0].splitlines()[0].split("\t").index(column)
        return {cells[0]: float(cells[at]) for line in parts[1].splitlines() if (cells := line.split("\t"))[0]}

    def lines(self, cfg: str) -> list[tuple[str, float, float, float]]:
        """Intervals of a timeline: object, begin and duration in ns, value."""
        rows = [line.split("\t") for line in self._file(cfg).read_text().splitlines()]
        return [(name, float(begin), float(duration), float(value)) for name, begin, duration, value in rows]


def run(prv: Path, cfgs: Iterable[Cfg], folder: Path, where: Path = FOLDER) -> Output:
    """Load a trace once and write what each cfg, a file in `where`, shows: its histogram or else its last window."""
    folder.mkdir(parents=True)
    output = Output(folder, "")
    named = [text for cfg in cfgs for text in (str(where / cfg.path), str(output._file(cfg.path.removesuffix(".cfg"))))]
    home = folder / "home"
    home.mkdir()
    done = subprocess.run(
        [program(), "-npr", "-tu", str(prv), *named],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    asked = (line.partition(": ")[0] for line in done.stdout.splitlines() if "Some of the events" in line)
    return Output(folder, done.stderr, frozenset(str(Path(cfg).relative_to(where)) for cfg in asked))


def run_parts(prv: Path, cfgs: Iterable[Cfg], folder: Path) -> Output:
    """Write what cfgs show that are not shipped, such as parts of those that are."""
    made = list(cfgs)
    for cfg in made:
        path = folder / "cfgs" / cfg.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(cfg.text())
    return run(prv, made, folder / "out", folder / "cfgs")
