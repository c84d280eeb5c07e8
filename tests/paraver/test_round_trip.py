"""What is written is what is read: random lines of every kind, labels and names, by the reader and by plain Python."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from plain import PlainTrace
from points import lines_of
from timelines import NAMES, clean, examples, folder, labelled

import nsys2prv
from nsys2prv.paraver import lines as module
from nsys2prv.paraver.header import header
from nsys2prv.paraver.labels import PcfType, RowNames, pcf_text, row_text
from nsys2prv.paraver.lines import RowNumbers, message_lines, sample_lines, sort_lines, state_lines, write_lines

NUMBERS = RowNumbers(np.array([1, 2, 3]), np.array([1, 1, 2]), np.array([1, 2, 1]))
HELD = {"first": 9400, "second": 9401}
EVENT, EXTRA = 70, 60
# To the end of what a trace may last.
TIMES = st.sampled_from((0, 1, 2, 2**31, 2**53 - 1, 2**53 + 1, 2**62)) | st.integers(0, 2**62)
VALUES = st.sampled_from((0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))) | st.integers(-(2**63), 2**63 - 1)
ROWS = st.integers(0, 2)


def frame(rows: list[tuple[int | None, ...]], columns: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(columns.split(), pl.Int64()), orient="row")


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, list[tuple[int | None, ...]]]:
    """Points (time, phase, length, row, type, value, extra), samples, states and messages."""
    some = VALUES | st.none()
    point = st.tuples(TIMES, st.integers(0, 1), st.integers(1, 9), ROWS, st.just(EVENT), VALUES, some)
    sample = st.tuples(TIMES, ROWS, some, some).filter(lambda s: s[2:] != (None, None))
    return {
        "points": draw(st.lists(point, max_size=6)),
        "samples": draw(st.lists(sample, max_size=6)),
        "states": draw(st.lists(st.tuples(TIMES, TIMES, ROWS, st.integers(0, 2**31 - 1)), max_size=6)),
        "messages": draw(st.lists(st.tuples(TIMES, ROWS, TIMES, ROWS, VALUES, VALUES), max_size=6)),
    }


def written(body: dict[str, list[tuple[int | None, ...]]], stem: Path, common: tuple[str, ...] = ()) -> Path:
    points = frame(body["points"], "time phase length row type value extra")
    lines = [
        lines_of(points.with_columns(pl.col("phase").cast(pl.UInt8)), {"extra": EXTRA}, common),
        sample_lines(frame(body["samples"], "time row first second"), HELD),
        state_lines(frame(body["states"], "time end row state")),
        message_lines(frame(body["messages"], "time row received to_row size tag"), NUMBERS),
    ]
    sink = io.BytesIO()
    write_lines(sort_lines(lines), NUMBERS, sink)
    prv = stem.with_suffix(".prv")
    prv.write_bytes(header(0, 2**62, [3], [2, 1], [1, 1]).encode() + sink.getvalue() + b"# a comment: 1:2:3\n")
    return prv


def where(row: int) -> tuple[int, int, int]:
    return int(NUMBERS.cpu[row]), int(NUMBERS.task[row]), int(NUMBERS.thread[row])


# Numbers of few points and of many become texts in two ways, and so do attributes that repeat and those that do not.
@examples(150)
@given(bodies(), st.sampled_from((0, module.FEW_POINTS)), st.sampled_from(((), ("extra",))))
def test_records_come_back(body: dict[str, list[tuple[int, ...]]], few: int, common: tuple[str, ...]) -> None:
    with folder() as here, patch.object(module, "FEW_POINTS", few):
        trace = nsys2prv.read_prv(written(body, here / "t", common))
    events: list[tuple[int, ...]] = []
    for time, _, _, row, kind, value, extra in body["points"]:
        events += [(*where(row), time, kind, value)] + [(*where(row), time, EXTRA, extra)] * (extra is not None)
    for time, row, *values in body["samples"]:
        events += [(*where(row), time, HELD[n], v) for n, v in zip(HELD, values, strict=True) if v is not None]
    assert Counter(trace.events.drop("line", "scaled").rows()) == Counter(events)
    assert trace.events["time"].is_sorted()
    states = [(*where(row), time, end, state) for time, end, row, state in body["states"]]
    assert Counter(trace.states.rows()) == Counter(states)
    messages = [
        (*where(row), time, *where(to), received, size, tag) for time, row, received, to, size, tag in body["messages"]
    ]
    assert Counter(trace.messages.rows()) == Counter(messages)


@examples(150)
@given(st.lists(NAMES, unique=True, max_size=12), st.lists(NAMES, min_size=3, max_size=3), NAMES, NAMES)
def test_labels_and_names_come_back(texts: list[str], threads: list[str], task: str, host: str) -> None:
    texts, threads = ([t.encode(errors="replace").decode() for t in some] for some in (texts, threads))
    task, host = task.encode(errors="replace").decode(), host.encode(errors="replace").decode()
    values = {0: "End", **dict(enumerate(sorted(set(texts)), start=1))}
    names = RowNames(["n.1", "n.2", "n.3"], [host], "run", [task, "rank 1"], threads)
    with folder() as here:
        prv = written({kind: [] for kind in ("points", "samples", "states", "messages")}, here / "t")
        prv.with_suffix(".pcf").write_text(pcf_text([PcfType(EVENT, "calls", values)], {0: "Idle"}), newline="")
        prv.with_suffix(".row").write_text(row_text(names), newline="")
        trace, plain = nsys2prv.read_prv(prv), PlainTrace(prv)
    want = labelled(texts)
    assert trace.values == plain.values == {EVENT: {0: "End"} | {n: want[text] for n, text in values.items() if n}}
    assert trace.types == plain.types == {EVENT: "calls"}
    assert plain.states == {0: "Idle"}
    assert {level: list(of) for level, of in trace.names.items()} == plain.names
    assert plain.names["THREAD"] == [clean(t) for t in threads]
    assert (plain.names["TASK"], plain.names["NODE"]) == ([clean(task), "rank 1"], [clean(host)])
