"""Write the page of a synthetic run and measure it in Chromium: `python benchmarks/page.py [RANKS] [ACTIVITIES]`.

Iterations have the same work on all ranks, with random lengths: kernels, copies, waiting and transfer on the devices;
calls and nested ranges on the hosts. Needs Chromium and the extra `test`. First paint is from the start of loading the
file to the browser's first paint with text; zoom is from the call that shows one iteration to the frame with its exact
activities.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from playwright.sync_api import sync_playwright

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.frames import CALLS, RANGES, WORK, AnalyzedTask, Device, Run
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import Span
from nsys2prv.page.lines import ACTIVITY, DEVICE, MAIN, PATH, Line, Timeline
from nsys2prv.page.page import page_with

STEPS, STEP_NS = 100, 50_000_000
# Of one device and one thread in an iteration: (kind, share of the activities).
ON_DEVICE = ((0, 0.45), (1, 0.2), (2, 0.2), (3, 0.15))
ON_HOST = ((5, 0.85), (4, 0.05), (9, 0.09), (8, 0.01))
NAMES = [f"kernel_{n}<float, {n % 7}, Layout::{'RowMajor' if n % 2 else 'ColumnMajor'}>" for n in range(300)]
TRIES = 5
NAMED = ("first paint", "timeline drawn", "all drawn", "zoom to an iteration")


def drawn(ranks: int, count: int) -> Timeline:
    """The timeline of a run of `count` activities."""
    random = np.random.default_rng(40)
    lines = tuple(
        Line(kind, rank, f"node{rank // 8}", f"GPU {rank % 8}" if kind == DEVICE else "python3")
        for rank in range(ranks)
        for kind in (DEVICE, MAIN)
    )
    each = count // (2 * ranks * STEPS)
    shape = (2 * ranks, STEPS, each)
    # One after the other, with gaps: lengths of a few kinds, as kernels of one name have, and some noise.
    lengths = random.choice([2, 5, 10, 40, 200], shape) * 1000 + random.normal(0, 300, shape).astype(np.int64)
    lengths = np.maximum(lengths * (0.9 * STEP_NS / lengths.sum(2, keepdims=True)) * 0.8, 1).astype(np.int64)
    gaps = random.exponential(0.15 * STEP_NS / each, shape).astype(np.int64)
    ends = np.cumsum(lengths + gaps, axis=2) + (np.arange(STEPS) * STEP_NS)[None, :, None]
    kinds = np.empty(shape, dtype=np.uint8)
    for n, shares in enumerate((ON_DEVICE, ON_HOST)):
        numbers, parts = zip(*shares, strict=True)
        kinds[n::2] = random.choice(numbers, kinds[n::2].shape, p=parts)
    # Kernels of one iteration come in the order of the others.
    name = (np.arange(each) * 7 % len(NAMES))[None, None, :] + np.zeros(shape, dtype=np.int64)
    frame = pl.DataFrame(
        {
            "line": np.repeat(np.arange(2 * ranks), STEPS * each),
            "start": (ends - lengths).ravel(),
            "end": ends.ravel(),
            "kind": kinds.ravel(),
            "name": pl.Series(NAMES).gather(name.ravel()),
            "note": np.where(kinds == 1, random.integers(1, ranks + 1, shape), 0).ravel(),
        }
    )
    path = frame.filter(pl.col("line") < 8).sample(20_000, seed=1).sort("start")
    path = path.select("line", "start", "end", kind=pl.lit("compute"))
    return Timeline(
        lines=lines,
        activities=frame.select(pl.col(c).cast(t) for c, t in ACTIVITY.items()).sort("line", "start"),
        path=path.select(pl.col(c).cast(t) for c, t in PATH.items()),
    )


def analysis(ranks: int) -> Analysis:
    """The analysis of a small run of as many ranks, with the iterations of the large one."""
    work, calls, ranges = [], [], []
    for rank in range(ranks):
        for step in range(2):
            at = step * STEP_NS
            for name, kind, start, end in (
                ("gemm", "kernel", at, at + 10**7),
                ("all", "nccl", at + 10**7, at + 4 * 10**7),
            ):
                work.append({"task": rank, "device": rank, "row": 2 * rank, "start": start, "end": end, "kind": kind,
                             "name": name, "class": name, "family": name, "launched": start,
                             "caller_row": 2 * rank + 1, "instant": False})  # fmt: skip
            calls.append((rank, 2 * rank + 1, at, at + 10**6, "cuda", "cudaLaunchKernel"))
            ranges.append((rank, 2 * rank + 1, at, at + STEP_NS - 1, "default", f"step {step}"))
    run = Run(
        tasks=tuple(AnalyzedTask(n, f"rank {n}", f"node{n // 8}") for n in range(ranks)),
        devices=tuple(Device(f"node{n // 8}", n % 8, n) for n in range(ranks)),
        work=pl.DataFrame(work, schema=WORK).sort("start", "row"),
        calls=pl.DataFrame(calls, schema=CALLS, orient="row").sort("start"),
        ranges=pl.DataFrame(ranges, schema=RANGES, orient="row").sort("start"),
        samples=(),
        active=Span(0, STEPS * STEP_NS),
        duration=STEPS * STEP_NS,
        row_labels=tuple(f"row {n}" for n in range(2 * ranks)),
    )
    found = analyze_run(run, Question(window="trace"))
    first = found.iterations.filter(pl.col("iteration") == 0)
    own = np.random.default_rng(4).normal(4e7, 2e6, ranks * STEPS).astype(np.int64)
    many = first.join(pl.DataFrame({"step": range(STEPS)}), how="cross").with_columns(
        iteration=pl.col("step").cast(pl.Int64), start_ns=pl.col("step").cast(pl.Int64) * STEP_NS, own_ns=pl.Series(own)
    )
    return found._replace(iterations=many.drop("step"))


def measured(browser: Any, path: Path) -> tuple[float, float, float, float]:
    """First paint, time until the timeline is drawn, until all is, and zoom to one iteration, in ms."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(path.as_uri(), wait_until="commit")
    # Before the script runs, `timelines` is the element of that id.
    tab.wait_for_function("timelines[0]?.rows && timelines[0].lines.bins.get(0)")
    drawn = tab.evaluate("new Promise(done => requestAnimationFrame(() => done(performance.now())))")
    tab.wait_for_selector("html[data-ready=yes]", state="attached", timeout=60_000)
    ready = tab.evaluate("performance.now()")
    paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    zoom = tab.evaluate(
        """async step => {
          const timeline = timelines[0], [from] = timeline.lines.data.exact_spans.at(-1), began = performance.now();
          timeline.show(from, from + step);
          const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
          do await frame();
          while (!timeline.rows.slice(0, 28).every(line => timeline.lines.activitiesOf(line.number)));
          await frame();
          return performance.now() - began;
        }""",
        STEP_NS,
    )
    tab.close()
    return paint, drawn, ready, zoom


def main() -> None:
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    made, found = drawn(ranks, count), analysis(ranks)
    began = time.perf_counter()
    text = page_with(found, f"{ranks} ranks", made)
    print(f"{made.activities.height:,} activities of {ranks:,} ranks")
    print(f"written in {time.perf_counter() - began:.1f} s, {len(text.encode()) / 1e6:.1f} MB")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tries = sorted(measured(browser, path) for _ in range(TRIES))
        browser.close()
    for name, values in zip(NAMED, zip(*tries, strict=True), strict=True):
        print(f"{name}: median {np.median(values):.0f} ms of {TRIES} ({min(values):.0f} to {max(values):.0f})")


if __name__ == "__main__":
    main()
