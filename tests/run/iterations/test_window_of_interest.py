"""The window of figures is some time of the trace, whatever ranges say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from exports import MAIN, PROCESS, export

import nsys2prv
from nsys2prv.errors import UsageError
from nsys2prv.run.clocks import Clock
from nsys2prv.run.iterations.window_of_interest import _on_trace_clock

PUSH_POP = 59
Range = tuple[int, int, str]


def report(path: Path, ranges: Sequence[Range]) -> Path:
    """One kernel from 1000 to 2000 ns, and ranges of the main thread."""
    device = "start end deviceId contextId streamId correlationId globalPid shortName"
    return export(
        path,
        NVTX_EVENTS=("start end eventType globalTid text", [(s, e, PUSH_POP, MAIN, text) for s, e, text in ranges]),
        CUPTI_ACTIVITY_KIND_KERNEL=(device, [(1000, 2000, 0, 1, 7, 1, PROCESS, "k")]),
    )


def windows(path: Path, name: str, families: Sequence[str]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The window of a trace, which it marks, and that of the analysis."""
    made = nsys2prv.translate(
        path,
        path.with_suffix(""),
        selection=nsys2prv.Selection(tuple(families)),
        writing=nsys2prv.TraceOutput(window=name),
    )
    assert made.prv is not None
    marked = nsys2prv.read_prv(made.prv).intervals(70000000).filter(value=1)
    assert marked.select("start", "end").unique().rows() == [made.window_ns]
    window = nsys2prv.analyze(path, question=nsys2prv.Question(window=name)).window
    return made.window_ns, (window.start, window.end)


def test_iterations_that_end_before_they_begin_last_1_ns(tmp_path: Path) -> None:
    path = report(tmp_path / "r.sqlite", [(1500 + n, 1400, f"step {n}") for n in range(2)])
    assert windows(path, "steady", ("kernels", "nvtx", "projection")) == ((500, 502), (500, 502))


def test_batches_with_one_number_in_several_epochs_are_iterations_apart(tmp_path: Path) -> None:
    """Recorded from within an epoch on."""
    texts = ("epoch 0 batch 1", "epoch 1 batch 0", "epoch 1 batch 1", "epoch 2 batch 0")
    path = report(tmp_path / "r.sqlite", [(1100 + 200 * n, 1200 + 200 * n, text) for n, text in enumerate(texts)])
    chosen = nsys2prv.Selection(("kernels", "nvtx", "projection"))
    made = nsys2prv.translate(path, tmp_path / "trace", selection=chosen, writing=nsys2prv.TraceOutput(window="steady"))
    assert made.prv is not None
    marked = nsys2prv.read_prv(made.prv).intervals(70000000).filter(value=1).select("start", "end").unique()
    spans = nsys2prv.analyze(path).window.spans
    expected = [(100 + 200 * n, 200 + 200 * n) for n in range(4)]
    assert sorted(marked.rows()) == list(zip(spans.start, spans.end, strict=True)) == expected


def test_a_named_range_that_ends_before_it_begins_lasts_1_ns(tmp_path: Path) -> None:
    path = report(tmp_path / "r.sqlite", [(1500, 1400, "turned")])
    assert windows(path, "turned", ("kernels", "nvtx")) == ((500, 501), (500, 501))


@pytest.mark.parametrize("end", [1500, 1400], ids=["no length", "turned"])
def test_a_chosen_range_without_a_length_lasts_1_ns(end: int, tmp_path: Path) -> None:
    """As it does as the window."""
    path = report(tmp_path / "r.sqlite", [(1500, end, "point")])
    chosen = nsys2prv.Selection(("kernels", "nvtx"), nvtx="point")
    made = nsys2prv.translate(path, tmp_path / "trace", selection=chosen)
    assert made.duration_ns == 1


@pytest.mark.parametrize("name", ["early", "late"])
def test_a_named_range_outside_the_trace_is_no_window_of_it(name: str, tmp_path: Path) -> None:
    """Of a trace that does not draw the range. One that begins within counts as far as the trace reaches."""
    path = report(tmp_path / "r.sqlite", [(10, 20, "early"), (1990, 2020, "last"), (5000, 6000, "late")])
    writing = {name: nsys2prv.TraceOutput(window=name) for name in (name, "last")}
    kernels = nsys2prv.Selection(("kernels",))
    with pytest.raises(UsageError, match="the trace draws nothing of its time; give another window"):
        nsys2prv.translate(path, tmp_path / "trace", selection=kernels, writing=writing[name])
    assert nsys2prv.translate(path, tmp_path / "trace", selection=kernels, writing=writing["last"]).window_ns == (
        990,
        1000,
    )


def test_an_iteration_of_1_ns_lasts_it_on_a_slower_clock_too() -> None:
    """1001 to 1002 ns of the report are the same instant of a clock at half its speed."""
    clock = Clock(start=0, offset=0, slope=0.5)
    assert clock.merged_one(1001) == clock.merged_one(1002)
    times = pl.DataFrame({"start": [1001], "end": [1002], "first": [1001], "last": [1002]})
    found = _on_trace_clock(times, clock).row(0, named=True)
    assert (found["end"] - found["start"], found["last"] - found["first"]) == (1, 1)
