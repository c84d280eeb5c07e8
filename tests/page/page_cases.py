"""Pages of small and large runs, and a page that is open in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analysis_cases import SAMPLES, SHARED, run_of, work_of

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.question import Question

RUNS = ["gpt-ddp", "mpi-halo", "mesh-tp-pp", "mpi-cpu", "single/saxpy.sqlite", "single/openmp.sqlite"]


def reports_at(run: str) -> Path:
    """The reports of a run; skipped where they are absent."""
    found = next((folder / run for folder in (SAMPLES, SHARED) if (folder / run).exists()), None)
    if found is None:
        pytest.skip(f"needs the shared reports {run}")
    return found


def many_ranks(count: int, text: str = "kernel", steps: int = 4) -> Analysis:
    """The analysis of a run of many ranks with some iterations each; rank 7 is slow."""
    work, ranges, calls = [], [], []
    for rank in range(count):
        for step in range(steps):
            at = 25 * step
            computed = at + (8 if rank == 7 else 4)
            work += [(rank, at, computed, text, at + 1), (rank, computed, at + 20, "nccl", at + 2)]
            ranges.append((rank, rank, at, at + 24, f"step {step}"))
            calls.append((rank, rank, at + 1, at + 3, "cuda", "cudaLaunchKernel"))
    frame = work_of(work).with_columns(
        kind=pl.when(pl.col("kind") == "nccl").then(pl.lit("nccl")).otherwise(pl.lit("kernel"))
    )
    return analyze_run(run_of(frame, calls, ranges, count), Question())


class Opened:
    """A page in Chromium, ready: its data are unpacked and it is drawn."""

    def __init__(self, tab: Any, path: Path) -> None:
        self.tab, self.path = tab, path
        self.errors: list[str] = []
        self.asked_for: list[str] = []
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", lambda said: self.errors.append(said.text))
        tab.on("request", lambda request: self.asked_for.append(request.url))
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-ready=yes]", state="attached")
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def view(self, number: int = 0) -> tuple[float, float]:
        """Begin and end of the time that is shown."""
        self.settle()
        shown = self.tab.evaluate(f"timelines[{number}].view")
        return shown["from"], shown["to"]

    def open_tables(self) -> None:
        """Unfold all tables, with all of their rows."""
        self.tab.evaluate(
            "async () => { for (const one of document.querySelectorAll('details.table')) {"
            " one.open = true; while (!one.querySelector('tbody')) await new Promise(done => setTimeout(done, 5));"
            " const box = one.querySelector('.box'); for (let last = -1; last !== box.scrollHeight;) {"
            " last = box.scrollHeight; box.scrollTop = last; await new Promise(done => requestAnimationFrame(() =>"
            " requestAnimationFrame(done))); } box.scrollTop = 0; } }"
        )

    def tables(self) -> dict[str, list[list[str | float]]]:
        """Rows of each table by its key: unrounded numbers, and texts."""
        found: dict[str, list[list[str | float]]] = self.tab.evaluate(
            "Object.fromEntries([...document.querySelectorAll('details.table')].map(one =>"
            " [one.id.replace(/^table-(0-)?/, ''),"
            " [...one.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell =>"
            " isNaN(cell.dataset.value ?? NaN) ? cell.textContent : Number(cell.dataset.value)))]))"
        )
        return found

    def text(self) -> str:
        """All text of the page that a reader can unfold."""
        return str(self.tab.evaluate("document.body.textContent"))

    def place_of(self, name: str, kind: str) -> tuple[float, float]:
        """Move the view to the longest activity of a name, and return where its middle is drawn."""
        x, y = self.tab.evaluate(
            """async ([name, kind]) => {
              const timeline = timelines[0], { names } = timeline.lines, n = names.name.indexOf(name);
              const span = names.end[n] - names.start[n];
              await timeline.lines.loadExact(timeline.lines.blockOf(timeline.lines.data.exact, names.line[n]));
              timeline.show(names.start[n] - span, names.end[n] + span);
              timeline.frame.scrollIntoView({ block: "center" });
              timeline.reveal(names.line[n]);
              const { box, cursor, height } = timeline, area = timeline.area(), line = timeline.rows[cursor];
              const { left, top } = box.getBoundingClientRect();
              const [at, part] = stripOf(line, KINDS.findIndex(one => one.name === kind));
              const { view } = timeline, middle = (names.start[n] + names.end[n]) / 2;
              return [left + area.left + area.width * (middle - view.from) / (view.to - view.from),
                top - box.scrollTop + cursor * height + 1 + (at + part / 2) * (height - 3)];
            }""",
            [name, kind],
        )
        self.settle()
        return x, y
