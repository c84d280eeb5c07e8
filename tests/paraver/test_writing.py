"""Header, PCF, ROW and the order of lines, each on small input; and what the reader makes of them."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from points import lines_of

from nsys2prv import Nsys2prvError, read_prv
from nsys2prv.paraver.header import header
from nsys2prv.paraver.labels import PcfType, RowNames, clean, distinct, pcf_text, row_text
from nsys2prv.paraver.lines import RowNumbers, message_lines, sample_lines, sort_lines, write_lines


def test_header_names_nodes_cpus_and_tasks() -> None:
    start = 1_763_661_000_000_000_000
    assert header(start, 123, cpus=[4, 2], threads=[3, 1, 2], nodes=[1, 1, 2]) == (
        "#Paraver (20/11/2025 at 17:50):123_ns:2(4,2):1:3(3:1,1:1,2:2),0\n"
    )


LABELS = {
    "a\tb": "a b",
    "a\nb\r\nc": "a b c",
    "  padded ": "padded",
    "": "(no text)",
    " \t ": "(no text)",
    "a\x00b\x1fc\x7fd": "a b c d",
    "line\u2028separator\x85next": "line separator next",
    "Größe: 5 µs; ✓": "Größe: 5 µs; ✓",
    "void k<int, 2>(T*)": "void k<int, 2>(T*)",
}


@pytest.mark.parametrize("text", LABELS)
def test_labels_are_one_line_and_never_empty(text: str) -> None:
    assert clean(text) == LABELS[text]


def test_pcf_has_a_block_for_each_type_in_order_of_number() -> None:
    text = pcf_text(
        [PcfType(9500, "b\nc", {0: "End", 2: "two", 1: "one\ttab"}), PcfType(9400, "clock [MHz]", precision=6)]
    )
    blocks = text[text.index("EVENT_TYPE") :]
    assert blocks == (
        "EVENT_TYPE\n0    9400    clock [MHz]\nPRECISION 6\n\n\n"
        "EVENT_TYPE\n0    9500    b c\nVALUES\n0      End\n1      one tab\n2      two\n\n\n"
    )


def test_states_are_marked_by_a_keyword_that_other_tools_do_not_take_for_theirs() -> None:
    text = pcf_text([], {0: "Idle", 1: "Running"})
    assert "\n STATES\n0    Idle\n1    Running\n" in text
    assert "\nSTATES\n" not in text
    assert "\r" not in text


def test_row_names_every_level() -> None:
    names = RowNames(["n.1", "n.2"], ["n"], "app", ["rank 0"], ["main\t1", ""])
    assert row_text(names) == (
        "LEVEL CPU SIZE 2\nn.1\nn.2\n\nLEVEL NODE SIZE 1\nn\n\nLEVEL APPL SIZE 1\napp\n\n"
        "LEVEL TASK SIZE 1\nrank 0\n\nLEVEL THREAD SIZE 2\nmain 1\n(no text)\n"
    )


def test_labels_that_look_alike_are_told_apart() -> None:
    kept = PcfType(70, "calls", {0: "End", 1: "a\nb", 2: "a b", 3: "a\tb", 4: "a b (2)", 5: "End", 6: "", 7: " "})
    text = pcf_text([kept, PcfType(9700, "calls "), PcfType(9004, "calls")])
    lines = text[text.index("EVENT_TYPE") :].split("\n")
    assert [line.split(None, 1)[1] for line in lines if line[:1].isdecimal() and not line.startswith("0    ")] == [
        "a b (3)", "a b", "a b (4)", "a b (2)", "End", "(no text)", "(no text) (2)",
    ]  # fmt: skip
    # Fixed types have the first right to their labels.
    assert [line for line in lines if "calls" in line] == [
        "0    70    calls (2)", "0    9004    calls", "0    9700    calls (3)",
    ]  # fmt: skip


def test_many_labels_that_look_alike_take_no_longer() -> None:
    labels = distinct(dict.fromkeys(range(100_000), "\t"))
    assert len(set(labels.values())) == 100_000


POINT = {
    "time": pl.Int64, "phase": pl.UInt8, "length": pl.Int64, "row": pl.Int64, "type": pl.Int64, "value": pl.Int64,
    "extra": pl.Int64,
}  # fmt: skip
END, BEGIN = 0, 1
NUMBERS = RowNumbers(np.array([1, 2, 3]), np.array([1, 1, 2]), np.array([1, 2, 1]))


def body(lines: pl.DataFrame) -> str:
    sink = io.BytesIO()
    write_lines(lines, NUMBERS, sink)
    return sink.getvalue().decode()


def points(*rows: tuple[int | None, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=POINT, orient="row")


def test_lines_of_events_hold_further_pairs_in_order_of_type_and_no_nulls() -> None:
    lines = lines_of(
        points((5, BEGIN, 3, 0, 70, 4, 9), (8, END, 3, 0, 70, 0, 0), (9, BEGIN, 1, 2, 70, 4, None)), {"extra": 60}
    )
    assert body(sort_lines([lines])) == "2:1:1:1:1:5:70:4:60:9\n2:1:1:1:1:8:70:0:60:0\n2:3:1:2:1:9:70:4\n"


def test_samples_of_a_time_are_one_line() -> None:
    samples = pl.DataFrame({"time": [3, 4], "row": [1, 1], "b": [7, None], "a": [1, 2]})
    lines = sample_lines(samples, {"b": 9401, "a": 9400})
    assert body(sort_lines([lines])) == "2:2:1:1:2:3:9400:1:9401:7\n2:2:1:1:2:4:9400:2\n"


def test_messages_name_both_ends() -> None:
    sent = pl.DataFrame({"time": [3], "row": [0], "received": [9], "to_row": [2], "size": [0], "tag": [55001]})
    assert body(sort_lines([message_lines(sent, NUMBERS)])) == "3:1:1:1:1:3:3:3:1:2:1:9:9:0:55001\n"


def test_at_one_time_ends_come_first_then_the_longer_begin() -> None:
    lines = lines_of(
        points(
            (5, BEGIN, 2, 0, 70, 1, None),
            (5, BEGIN, 9, 0, 70, 2, None),
            (5, END, 4, 0, 70, 0, None),
            (5, END, 1, 0, 71, 0, None),
            (5, BEGIN, 9, 1, 70, 1, None),
            (5, BEGIN, 9, 0, 69, 9, None),
        ),
        {},
    )
    assert [line.split(":", 3)[3] for line in body(sort_lines([lines])).splitlines()] == [
        "1:1:5:71:0",
        "1:1:5:70:0",
        "1:1:5:69:9",
        "1:1:5:70:2",
        "1:2:5:70:1",
        "1:1:5:70:1",
    ]


SOME_POINTS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 1), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.integers(1, 3)
    ),
    min_size=1,
    max_size=12,
)


@given(SOME_POINTS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_lines_does_not_depend_on_how_they_came(rows: list[tuple[int, ...]], dice: object) -> None:
    mixed = list(rows)
    dice.shuffle(mixed)  # type: ignore[attr-defined]
    half = len(mixed) // 2
    parts = [lines_of(points(*((*row, None) for row in part)), {}) for part in (mixed[:half], mixed[half:])]
    whole = lines_of(points(*((*row, None) for row in rows)), {})
    assert body(sort_lines(parts)) == body(sort_lines([whole]))


def written(folder: Path, text: str, pcf: str = "", row: str = "") -> Path:
    for ending, content in ((".prv", text), (".pcf", pcf), (".row", row)):
        (folder / f"t{ending}").write_text(content, encoding="utf-8")
    return folder / "t.prv"


HEADER = header(0, 100, [3], [2, 1], [1, 1])


def test_records_are_read_back(tmp_path: Path) -> None:
    text = HEADER + (
        "# a comment\n"
        "1:1:1:1:1:0:10:3\n"
        "2:1:1:1:1:5:70:4:60:9\n"
        "3:1:1:1:1:6:6:3:1:2:1:9:9:128:55001\n"
        "2:1:1:1:1:8:70:0:60:0\n"
    )
    trace = read_prv(written(tmp_path, text))
    assert trace.header.duration == 100
    assert (trace.header.cpus, trace.header.tasks) == ((3,), ((2, 1), (1, 1)))
    assert trace.states.rows() == [(1, 1, 1, 0, 10, 3)]
    assert trace.events.select("time", "type", "value").rows() == [(5, 70, 4), (5, 60, 9), (8, 70, 0), (8, 60, 0)]
    assert trace.messages.select("sent", "received", "to_task", "size", "tag").rows() == [(6, 9, 2, 128, 55001)]


def test_labels_are_read_back(tmp_path: Path) -> None:
    types = [PcfType(70, "calls", {0: "End", 1: "open: a;b", 12: "Größe"}), PcfType(9400, "clock", precision=6)]
    names = RowNames(["n.1"], ["n"], "app", ["rank 0 a:1"], ["main 1", "CUDA-D0.S7"])
    trace = read_prv(written(tmp_path, HEADER, pcf_text(types, {0: "Idle"}), row_text(names)))
    assert trace.types == {70: "calls", 9400: "clock"}
    assert trace.values == {70: {0: "End", 1: "open: a;b", 12: "Größe"}}
    assert trace.names["THREAD"] == ("main 1", "CUDA-D0.S7")
    assert trace.names["TASK"] == ("rank 0 a:1",)


def test_names_that_look_like_a_level_are_names(tmp_path: Path) -> None:
    names = RowNames(["n.1"], ["LEVEL CPU SIZE 2"], "LEVEL", ["rank 0"], ["LEVEL THREAD SIZE 1 7", "main 1"])
    trace = read_prv(written(tmp_path, HEADER + "2:1:1:1:1:5:70:4\n", "", row_text(names)))
    assert trace.names["NODE"] == ("LEVEL CPU SIZE 2",)
    assert trace.names["THREAD"] == ("LEVEL THREAD SIZE 1 7", "main 1")


def test_pandas_frames_hold_the_same(tmp_path: Path) -> None:
    frames = read_prv(written(tmp_path, HEADER + "2:1:1:1:1:5:70:4\n")).to_pandas()
    assert frames["events"][["time", "type", "value"]].to_numpy().tolist() == [[5, 70, 4]]
    assert frames["messages"].empty


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Nsys2prvError, match=r"nowhere\.prv: cannot be read .*; check the path"):
        read_prv(tmp_path / "nowhere.prv")
    with pytest.raises(Nsys2prvError, match="the first line is not"):
        read_prv(written(tmp_path, "hello\n"))
    # Of another tracer, which says of its tasks no more than their threads.
    with pytest.raises(Nsys2prvError, match="the first line is not"):
        read_prv(written(tmp_path, HEADER.replace("(2:1,1:1)", "(2,1)")))


def test_what_is_damaged_is_refused(tmp_path: Path) -> None:
    for line in ("2:1:1:1:1:5:70\n", "2:1:1:x:1:5:70:4\n", "2:1:1:1:1:5"):
        with pytest.raises(Nsys2prvError, match=r"\.prv: among the lines is what is no record .*; translate again"):
            read_prv(written(tmp_path, HEADER + line))
    whole = gzip.compress(HEADER.encode() + b"2:1:1:1:1:5:70:4\n")
    for content in (whole[:-9], whole[:12] + b"\xff" * 9 + whole[21:], b"not compressed"):
        (tmp_path / "cut.prv.gz").write_bytes(content)
        with pytest.raises(Nsys2prvError, match=r"cut\.prv\.gz: the compressed file is damaged .*; copy it again"):
            read_prv(tmp_path / "cut.prv.gz")


# Nested intervals as a begin, what it holds, and an end: drawn as brackets.
BRACKETS = st.recursive(st.just(()), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=12)


@given(st.lists(BRACKETS, max_size=3))
@settings(max_examples=60, deadline=None)
def test_nested_intervals_come_back_as_they_went_in(tmp_path_factory: pytest.TempPathFactory, forest: list) -> None:
    clock = iter(range(10_000))
    intervals: list[tuple[int, int, int]] = []

    def draw(node: tuple) -> None:
        begin, value = next(clock), len(intervals) + 1
        intervals.append((begin, 0, value))
        place = len(intervals) - 1
        for child in node:
            draw(child)
        intervals[place] = (begin, next(clock), value)

    for tree in forest:
        draw(tree)
    rows = [
        point
        for a, b, value in intervals
        for point in ((a, BEGIN, b - a, 1, 70, value, None), (b, END, b - a, 1, 70, 0, None))
    ]
    lines = sort_lines([lines_of(points(*rows), {})])
    prv = written(tmp_path_factory.mktemp("t"), HEADER + body(lines))
    assert read_prv(prv).intervals(70).select("start", "end", "value").rows() == sorted(intervals)
