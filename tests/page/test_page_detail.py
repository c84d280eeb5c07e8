"""Bins have the shares that a count of every ns has, and exact activities come back as they were."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from collections.abc import Callable
from importlib.resources import files
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from analysis_cases import run_of, work_of
from color_vision import apart
from hypothesis import example, given
from hypothesis import strategies as st

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.host import main_rows
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import Span
from nsys2prv.model.palette import IDLE_COLOR, Color
from nsys2prv.page import detail
from nsys2prv.page.detail import bin_edges, edges_of, exact_blocks, exact_spans, held_exactly, shares
from nsys2prv.page.encoding import columns_block, planes
from nsys2prv.page.lines import ACTIVITY, DEVICE, KINDS, MAIN, THREAD, timeline
from nsys2prv.page.page import page
from nsys2prv.page.tables import tables

DURATION = 200


@st.composite
def activities(draw: Any) -> pl.DataFrame:
    """ACTIVITY of up to three lines, in order of line and start."""
    row = st.tuples(st.integers(0, 2), st.integers(0, DURATION - 1), st.integers(0, 60), st.integers(0, 3),
                    st.sampled_from("abc"), st.integers(0, 2**40))  # fmt: skip
    rows = draw(st.lists(row, max_size=30))
    found = [
        (line, start, min(start + length, DURATION), kind, name, note) for line, start, length, kind, name, note in rows
    ]
    return pl.DataFrame(found, schema=ACTIVITY, orient="row").sort("line", "start")


def unpacked(text: str) -> bytes:
    return zlib.decompress(b64decode(text), -zlib.MAX_WBITS)


def columns_of(columns: list[list[Any]], text: str, count: int) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a block, as the page's script reads them."""
    data, at, found = np.frombuffer(unpacked(text), dtype=np.uint8), 0, {}
    for name, number in columns:
        parts = data[at : at + number * count].reshape(number, count).astype(np.int64)
        found[name] = sum((parts[n] << (8 * n) for n in range(number)), np.zeros(count, dtype=np.int64))
        at += number * count
    assert at == len(data)
    return found


@given(activities(), st.integers(1, 40))
def test_shares_are_those_of_a_count_of_every_ns(frame: pl.DataFrame, bins: int) -> None:
    edges = edges_of([(0, DURATION, bins)])
    found = shares(frame, 3, edges)
    busy = np.zeros((len(KINDS), 3, DURATION), dtype=bool)
    for line, start, end, kind, *_ in frame.rows():
        busy[kind, line, start : max(end, start + 1)] = True
    for n, (low, high) in enumerate(pairwise(edges)):
        covered = busy[:, :, low:high].sum(axis=2)
        assert np.array_equal(found[:, :, n], -(-covered * detail.WHOLE // max(high - low, 1)))


@example([2**48])
@example([2**53 - 1])
@given(st.lists(st.integers(0, 2**53 - 1), max_size=20))
def test_planes_give_the_numbers_back(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    columns, text = columns_block({"a": array, "b": array // 3})
    found = columns_of(columns, text, len(values))
    assert found["a"].tolist() == values
    assert found["b"].tolist() == [value // 3 for value in values]
    assert planes(array)[0] == max(1, (max(values, default=0).bit_length() + 7) // 8)


@given(activities(), st.integers(1, 12))
def test_exact_activities_come_back_from_their_blocks(frame: pl.DataFrame, size: int) -> None:
    names = pl.Series(["c", "a", "b"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detail, "ACTIVITIES_OF_BLOCK", size)
        blocks = list(exact_blocks(frame, names, 3))
    rows = []
    for block in blocks:
        columns = columns_of(block["columns"], block["text"], sum(block["counts"]))
        at = 0
        for n, count in enumerate(block["counts"]):
            own = {name: values[at : at + count] for name, values in columns.items()}
            start = np.cumsum(own["start"])
            rows += [(block["first"] + n, *row) for row in zip(start, start + own["length"], own["kind"],
                     names.gather(own["name"]).to_list(), own["note"], strict=True)]  # fmt: skip
            at += count
    assert rows == frame.rows()
    assert [block["first"] for block in blocks] == sorted({block["first"] for block in blocks})


@given(activities(), st.lists(st.tuples(st.integers(0, 190), st.integers(1, 30)), max_size=4))
def test_activities_that_touch_spans_are_held(frame: pl.DataFrame, chosen: list[tuple[int, int]]) -> None:
    spans = detail._merged([Span(start, start + length) for start, length in chosen])
    held = held_exactly(frame, spans)
    expected = [row for row in frame.rows() if any(s.start < max(row[2], row[1] + 1) and row[1] < s.end for s in spans)]
    assert held.rows() == expected


def test_of_many_activities_those_that_findings_name_and_the_longest_iteration_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [Span(100 * n, 100 * n + (99 if n != 6 else 100)) for n in range(10)]
    rows = [(0, at, at + 5, 0, "k", 0) for at in range(0, 1000, 10)]
    frame = pl.DataFrame(rows, schema=ACTIVITY, orient="row")
    assert exact_spans(frame, steps, [], 1000) == [Span(0, 1000)]
    monkeypatch.setattr(detail, "EXACT", 35)
    assert exact_spans(frame, steps, [450], 1000) == [Span(0, 99), Span(400, 499), Span(600, 700)]
    # The longest iteration alone has too many: others are held.
    crowded = pl.DataFrame(
        [*rows, *((0, 600 + n, 601 + n, 0, "k", 0) for n in range(40))], schema=ACTIVITY, orient="row"
    )
    assert exact_spans(crowded, steps, [], 1000) == [Span(0, 99), Span(100, 199), Span(200, 299)]
    # Without iterations, equal spans of the run.
    monkeypatch.setattr(detail, "SPANS", 5)
    assert exact_spans(frame, [], [450], 1000) == [Span(400, 600)]


def test_bins_are_mostly_inside_the_window() -> None:
    stretches = bin_edges(1_000_000, Span(400_000, 500_000), 4)
    assert [stretch[:2] for stretch in stretches] == [(0, 400_000), (400_000, 500_000), (500_000, 1_000_000)]
    assert stretches[1][2] == detail.INSIDE * detail.BINS_OF_LINE
    assert sum(count for *_, count in bin_edges(10**9, Span(0, 10**9), 4096)) * 4096 <= detail.BINS
    assert edges_of(bin_edges(1, Span(0, 0), 1)).tolist() == [0, 1]


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
def test_lines_hold_all_work_calls_and_ranges(analysed: Callable[[str], Analysis], run: str) -> None:
    found = analysed(run)
    drawn = timeline(found)
    whole = found.run
    ms = {KINDS[kind].name: ns for kind, ns in drawn.activities.group_by("kind").agg(
        (pl.col("end") - pl.col("start")).sum()).rows()}  # fmt: skip

    def time(frame: pl.DataFrame, *kinds: str) -> int:
        return int((frame["end"] - frame["start"]).filter(frame["kind"].is_in(kinds)).sum())

    assert ms["compute"] == time(whole.work, "kernel", "graph")
    assert ms["copies"] == time(whole.work, "copy")
    assert ms["waiting"] + ms["transfer"] + ms.get("other MPI calls", 0) == time(whole.work, "nccl") + time(
        whole.calls, "mpi"
    )
    assert ms["CUDA calls"] == time(whole.calls, "cuda")
    assert ms["synchronization"] == time(whole.calls, "synchronization")
    assert sum(ns for name, ns in ms.items() if name.startswith("ranges")) == int(
        (whole.ranges["end"] - whole.ranges["start"]).sum()
    )
    kinds = [line.kind for line in drawn.lines]
    assert kinds.count(DEVICE) == len(whole.devices)
    assert kinds.count(MAIN) == len(whole.tasks)
    assert set(kinds) <= {DEVICE, MAIN, THREAD}
    assert [line.rank for line in drawn.lines] == sorted(line.rank for line in drawn.lines)
    length = (drawn.path["end"] - drawn.path["start"]).sum()
    assert length == found.as_json()["critical_path"]["length_ns"]


def test_the_main_thread_is_that_of_the_analysis() -> None:
    calls = [
        # A thread that only sleeps comes before the one that launches.
        (0, 1, 0, 90, "os", "poll"),
        (0, 2, 1, 3, "cuda", "cudaLaunchKernel"),
        # One that launches comes before the one that calls MPI; the one with ranges alone before both.
        (1, 5, 1, 3, "cuda", "cudaLaunchKernel"),
        (1, 6, 4, 6, "mpi", "MPI_Barrier"),
    ]
    ranges = [(1, 4, 0, 90, "helper"), (2, 8, 0, 50, "first"), (2, 9, 0, 90, "second")]
    run = run_of(work_of([(0, 5, 20, "kernel", 2), (1, 5, 20, "kernel", 2)]), calls, ranges, ranks=3)
    found = analyze_run(run._replace(row_labels=tuple(f"row {n}" for n in range(10))), Question())
    drawn = timeline(found).lines
    main = {line.rank: line.label for line in drawn if line.kind == MAIN}
    assert {task: f"row {row}" for task, row in main_rows(run.calls).rows()} == {0: "row 2", 1: "row 6"}
    assert main == {0: "row 2", 1: "row 6", 2: "row 8"}
    # Each thread keeps its place among the others.
    assert [line.label for line in drawn if line.kind != DEVICE] == [f"row {n}" for n in (1, 2, 4, 5, 6, 8, 9)]


def test_the_page_needs_no_network_and_is_the_same_each_time(analysed: Callable[[str], Analysis]) -> None:
    text = page(analysed("gpt-ddp"), "gpt-ddp")
    assert not re.search(r"""(?:src|href)\s*=(?!"#run)|@import|url\(|\bfetch\(|https?://""", text)
    assert text == page(analysed("gpt-ddp"), "gpt-ddp")


def test_a_name_cannot_end_a_text_or_add_an_element(analysed: Callable[[str], Analysis]) -> None:
    hostile = "</script><script>alert(1)</script>/*DATA*/<!--HEAD-->"
    text, plain = (page(analysed("gpt-ddp"), name, name) for name in (hostile, "plain"))
    assert text.count("<script") == plain.count("<script")
    assert "<script>alert" not in text


@pytest.mark.parametrize("hosts", [False, True])
def test_colors_of_a_line_are_apart_from_each_other_and_from_what_is_empty(hosts: bool) -> None:
    of_hosts = ("waiting", "transfer", "synchronization", "calls", "ranges")
    own = {kind.name: kind.color for kind in KINDS if not hosts or any(part in kind.name for part in of_hosts)}
    own = {name: color for name, color in own.items() if hosts or name in ("compute", "waiting", "transfer", "copies")}
    style = files("nsys2prv.page").joinpath("assets", "page.css").read_text(encoding="utf-8")
    track = re.search("--track: #([0-9a-f]{6})", style)
    assert track is not None
    empty = {"light": Color(*bytes.fromhex(track[1])), "dark": IDLE_COLOR}
    near = {(a, b): apart(own[a], own[b]) for a, b in combinations(own, 2)}
    near |= {(a, b): apart(own[a], empty[b]) for a in own for b in empty}
    assert len(own) == (9 if hosts else 4)
    assert {pair: d for pair, d in near.items() if d < 10} == {}


class Read(dict[str, Any]):
    """JSON that remembers what was read of it."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


def test_every_part_of_the_json_is_in_a_table(analysed: Callable[[str], Analysis]) -> None:
    found = analysed("gpt-ddp")
    values = Read(found.as_json())
    assert sum(table.height for table in tables(found, values)) > 500
    # How NCCL counts is one of the facts at the top. Efficiency, phases and iterations have their rows from the
    # analysis itself, as have whole iterations, where much time lies between them.
    assert values.keys() - values.read == {"efficiency", "nccl", "phases", "whole_iterations"}
