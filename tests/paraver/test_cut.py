"""A cut holds of every record what lies in the span, whatever the blocks in which the trace is read."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import lines_of

from nsys2prv import Nsys2prvError, Trace, read_prv
from nsys2prv.intervals.lanes import crossing_lanes
from nsys2prv.paraver import cut
from nsys2prv.paraver.header import header
from nsys2prv.paraver.lines import RowNumbers, message_lines, sample_lines, sort_lines, state_lines, write_lines

ROWS = 3
ATTRIBUTE, METRIC = 9101, 9400
FROM_ONE = np.arange(1, ROWS + 1, dtype=np.int64)
NUMBERS = RowNumbers(cpu=FROM_ONE, task=np.ones(ROWS, dtype=np.int64), thread=FROM_ONE)

times = st.integers(0, 40)
spans = st.tuples(times, times).map(lambda t: (min(t), max(t) + 1))
rows, types = st.integers(0, ROWS - 1), st.sampled_from([63000000, 9600])
interval = st.tuples(spans, rows, types, st.integers(1, 5), st.one_of(st.none(), st.integers(1, 3)))


def nested(found: list[tuple[tuple[int, int], int, int, int, int | None]]) -> pl.DataFrame:
    """Those that nest with the others of their row and type: start, end, row, type, value, attribute."""
    schema = dict.fromkeys(("start", "end", "row", "type", "value", "attribute"), pl.Int64)
    frame = pl.DataFrame([(*span, *rest) for span, *rest in found], schema=schema, orient="row")
    frame = frame.unique(["start", "end", "row", "type"], maintain_order=True)
    group = (frame["row"] * 100_000_000 + frame["type"]).to_numpy()
    return frame.filter(pl.Series(crossing_lanes(group, frame["start"].to_numpy(), frame["end"].to_numpy())) == 0)


def lines_between(intervals: pl.DataFrame) -> pl.DataFrame:
    length = (pl.col("end") - pl.col("start")).alias("length")
    begins = intervals.select(
        pl.col("start").alias("time"),
        pl.lit(1, pl.UInt8).alias("phase"),
        length,
        "row",
        "type",
        "value",
        "attribute",
    )
    ends = intervals.select(
        pl.col("end").alias("time"),
        pl.lit(0, pl.UInt8).alias("phase"),
        length,
        "row",
        "type",
        pl.lit(0, pl.Int64).alias("value"),
        pl.when(pl.col("attribute").is_not_null()).then(pl.lit(0, pl.Int64)).alias("attribute"),
    )
    return lines_of(pl.concat([begins, ends]), {"attribute": ATTRIBUTE})


def body(*parts: pl.DataFrame) -> bytes:
    sink = io.BytesIO()
    write_lines(sort_lines(parts), NUMBERS, sink)
    return sink.getvalue()


def cut_body(text: bytes, low: int, high: int, block: int) -> tuple[Trace, cut.Cutter]:
    """What a cut makes of a body that is read in blocks of so many bytes."""
    sink = io.BytesIO()
    cutter = cut.Cutter(low, high, sink)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "BLOCK_BYTES", block)
        cutter.cut(cut.text_blocks(io.BytesIO(text)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.prv")
        path.write_bytes(header(0, high - low, [ROWS], [ROWS], [1]).encode() + sink.getvalue())
        return read_prv(path), cutter


@given(st.lists(interval, max_size=12), spans, st.integers(1, 200))
def test_intervals_are_intersected_exactly(found: list, span: tuple[int, int], block: int) -> None:  # type: ignore[type-arg]
    intervals, (low, high) = nested(found), span
    trace, _ = cut_body(body(lines_between(intervals)), low, high, block)
    inside = intervals.filter((pl.col("end") > low) & (pl.col("start") < high)).with_columns(
        start=pl.max_horizontal("start", low) - low, end=pl.min_horizontal("end", high) - low, thread=pl.col("row") + 1
    )
    for kind in (63000000, 9600):
        columns = ["thread", "start", "end", "value"]
        got = trace.intervals(kind).select(columns)
        assert got.sort(columns).rows() == inside.filter(type=kind).select(columns).sort(columns).rows()
    assert trace.events["time"].is_sorted()
    begun = trace.events.filter(type=ATTRIBUTE).filter(pl.col("value") != 0)
    want = inside.drop_nulls("attribute").select("thread", time="start", value="attribute")
    assert begun.select(want.columns).sort(want.columns).rows() == want.sort(want.columns).rows()
    ended = trace.events.filter(type=ATTRIBUTE, value=0).select("thread", "time")
    over = inside.drop_nulls("attribute").select("thread", time="end")
    assert ended.sort(pl.all()).rows() == over.sort(pl.all()).rows()


@given(st.lists(st.tuples(times, rows, st.integers(0, 9)), max_size=12), spans, st.integers(1, 100))
def test_a_value_that_holds_is_repeated_at_the_begin(
    found: list[tuple[int, int, int]], span: tuple[int, int], block: int
) -> None:
    schema = {"time": pl.Int64, "row": pl.Int64, "metric": pl.Int64}
    samples = pl.DataFrame(found, schema=schema, orient="row").unique(["time", "row"], keep="first")
    low, high = span
    trace, _ = cut_body(body(sample_lines(samples, {"metric": METRIC})), low, high, block)
    held = (
        samples.filter(pl.col("time") <= low)
        .sort("time")
        .group_by("row")
        .last()
        .with_columns(time=pl.lit(low, pl.Int64))
    )
    inside = samples.filter((pl.col("time") > low) & (pl.col("time") < high))
    want = pl.concat([held.select(samples.columns), inside]).select(
        pl.col("row") + 1, pl.col("time") - low, value="metric"
    )
    got = trace.events.select(row="thread", time="time", value="value")
    assert got.unique(["row", "time"], keep="last").sort(pl.all()).rows() == want.sort(pl.all()).rows()


@given(st.lists(st.tuples(times, times, rows, rows), max_size=12), spans, st.integers(1, 100))
def test_messages_are_kept_when_both_ends_are_inside(
    found: list[tuple[int, int, int, int]], span: tuple[int, int], block: int
) -> None:
    schema = dict.fromkeys(("time", "received", "row", "to_row"), pl.Int64)
    sent = pl.DataFrame(found, schema=schema, orient="row").with_columns(size=pl.lit(8), tag=pl.lit(1))
    low, high = span
    trace, cutter = cut_body(body(message_lines(sent, NUMBERS)), low, high, block)
    inside = [(t - low, r - low, a + 1, b + 1) for t, r, a, b in found if low <= t < high and low <= r <= high]
    assert sorted(trace.messages.select("sent", "received", "thread", "to_thread").rows()) == sorted(inside)
    reach_in = [1 for t, r, _, _ in found if t < low <= r]
    reach_out = [1 for t, r, _, _ in found if low <= t < high and not low <= r <= high]
    assert cutter.split == len(reach_in) + len(reach_out)


def test_states_are_cut() -> None:
    states = pl.DataFrame({"time": [0, 10, 20, 30], "end": [10, 20, 30, 40], "row": [0] * 4, "state": [1, 2, 3, 4]})
    trace, _ = cut_body(body(state_lines(states)), 15, 32, 20)
    assert trace.states.select("begin", "end", "state").rows() == [(0, 5, 2), (5, 15, 3), (15, 17, 4)]


def test_a_state_that_is_over_as_the_span_begins_is_not_in_it() -> None:
    states = pl.DataFrame({"time": [0, 10], "end": [10, 20], "row": [0] * 2, "state": [1, 2]})
    trace, _ = cut_body(body(state_lines(states)), 10, 20, 200)
    assert trace.states.select("begin", "end", "state").rows() == [(0, 10, 2)]


@pytest.mark.parametrize(("block", "values"), [(1, [1, 7]), (200, [7])])
def test_what_is_measured_as_the_span_begins_holds_there(block: int, values: list[int]) -> None:
    """Also where what begins then was in an earlier block, with which the part has begun."""
    samples = pl.DataFrame({"time": [5, 10], "row": [0, 0], "metric": [1, 7]})
    begins = lines_between(nested([((10, 20), 0, 63000000, 1, None)]))
    trace, _ = cut_body(body(begins, sample_lines(samples, {"metric": METRIC})), 10, 30, block)
    measured = trace.events.filter(type=METRIC)
    assert measured["time"].to_list() == [0] * len(values)
    assert measured["value"].to_list() == values


def test_what_holds_as_the_span_begins_is_in_order_of_rows() -> None:
    samples = pl.DataFrame({"time": [3, 5], "row": [1, 0], "metric": [1, 7]})
    trace, _ = cut_body(body(sample_lines(samples, {"metric": METRIC})), 10, 30, 200)
    assert trace.events.select("time", "thread", "value").rows() == [(0, 1, 7), (0, 2, 1)]


def test_a_message_that_arrives_as_the_span_begins_is_told() -> None:
    sent = pl.DataFrame({"time": [5, 5], "received": [10, 9], "row": 0, "to_row": 1, "size": 8, "tag": 1})
    trace, cutter = cut_body(body(message_lines(sent, NUMBERS)), 10, 20, 200)
    assert (trace.messages.height, cutter.split) == (0, 1)


def test_comments_are_put_aside() -> None:
    intervals = nested([((0, 10), 0, 63000000, 1, None)])
    _, cutter = cut_body(b"# first\n" + body(lines_between(intervals)) + b"# left out\n", 2, 4, 30)
    assert (cutter.comments, cutter.lines, cutter.written) == (["# first\n", "# left out\n"], 2, 2)


@pytest.mark.parametrize("block", [1, 100])
def test_a_body_out_of_order_is_refused(block: int) -> None:
    with pytest.raises(Nsys2prvError, match="not sorted"):
        cut_body(b"2:1:1:1:1:5:63000000:1\n2:1:1:1:1:3:63000000:0\n", 0, 10, block)


@pytest.mark.parametrize("line", [b"", b"2:1:1"])
def test_a_line_without_a_time_is_no_record(line: bytes) -> None:
    with pytest.raises(Nsys2prvError, match="no record"):
        cut_body(b"2:1:1:1:1:5:7:1\n" + line + b"\n2:1:1:1:1:6:7:0\n", 0, 10, 1 << 20)
