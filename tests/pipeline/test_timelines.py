"""Random reports: what is in the trace is what the rows say, and what is not is told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import construct
from exports import in_parquet
from hypothesis import assume, example, given
from hypothesis import strategies as st
from plain import PlainTrace
from runs import records
from timelines import FAMILIES, Event, Timeline, Truth, Work, drawn, examples, folder, lines, timelines

import nsys2prv
from nsys2prv import RunOptions
from nsys2prv.intervals.reduction_options import Reduction
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.model.losses import Loss
from nsys2prv.run.clocks.offsets import GivenOffset

Made = tuple[nsys2prv.Translation, PlainTrace]


WHOLE = RunOptions(align="utc", every_thread=True)


def translated(
    reports: Path | list[Path],
    stem: Path,
    options: RunOptions = WHOLE,
    limits: Limits = DEFAULT_LIMITS,
    **chosen: object,
) -> Made:
    selection = nsys2prv.Selection(FAMILIES, **chosen)  # type: ignore[arg-type]
    result = nsys2prv.translate(
        reports, stem, selection=selection, options=options, execution=nsys2prv.Execution(jobs=1, limits=limits)
    )
    assert result.prv is not None
    trace = PlainTrace(result.prv)
    trace.check(whole="time" not in chosen)
    return result, trace


def assert_same(one: Path, other: Path) -> None:
    """But for the comments, which name the inputs."""
    assert records(one.with_suffix(".prv")) == records(other.with_suffix(".prv"))
    for ending in (".pcf", ".row"):
        assert one.with_suffix(ending).read_bytes() == other.with_suffix(ending).read_bytes()


def told(result: nsys2prv.Translation) -> Counter[str]:
    """What was left out or changed, by reason."""
    found: Counter[str] = Counter()
    for reasons in result.dropped.values():
        found.update(reasons)
    return found


def different(one: Counter[tuple[object, ...]], other: Counter[tuple[object, ...]]) -> tuple[object, object]:
    return one - other, other - one


def from_first(intervals: Counter[tuple[str, str, str, int, int, str]]) -> Counter[tuple[object, ...]]:
    """The same with times from the first begin on."""
    first = min((start for *_, start, _, _ in intervals), default=0)
    return Counter({(*place, a - first, b - first, text): n for (*place, a, b, text), n in intervals.items()})


NOTHING = (Counter(), Counter())
# Of a span that ends at 3 ns the second launch is not, and must not make the trace longer.
LAUNCHED_AT_THE_END = Timeline(
    events=[Event("api", 0, 1, 100, 1, "a")],
    work=[Work("kernel", 0, 0, 0, 100, 1, 0, 7, "k", 0), Work("kernel", 3, 3, 3, 100, 1, 0, 0, "k", 0)],
)


# The range lasts until the end of a call that cannot be drawn.
OPEN_UNTIL_AN_END_WITHOUT_A_BEGIN = Timeline(
    events=[Event("range", 0, None, 100, 1, "a"), Event("api", None, 2, 100, 1, "b")]
)
KERNEL_WITHOUT_TIMES = Timeline(
    events=[Event("api", 0, 1, 100, 1, "a")], work=[Work("kernel", 0, 0, 0, 100, 1, 0, 7, "k", 0)]
)


@examples(30)
@given(timelines())
@example(OPEN_UNTIL_AN_END_WITHOUT_A_BEGIN)
@example(KERNEL_WITHOUT_TIMES)
def test_a_trace_is_what_the_rows_say(timeline: Timeline) -> None:
    with folder() as here:
        report = timeline.write(here / "r.sqlite")
        result, trace = translated(report, here / "trace")
        truth = Truth(timeline, report)
        assert different(drawn(trace), truth.intervals) == NOTHING
        assert different(lines(trace), truth.lines) == NOTHING
        assert told(result) == +truth.told
        assert sum(result.rows.values()) == truth.intervals.total() + truth.lines.total()


@examples(20)
@given(timelines())
def test_the_reader_gives_back_what_is_written(timeline: Timeline) -> None:
    with folder() as here:
        _, plain = translated(timeline.write(here / "r.sqlite"), here / "trace")
        trace = nsys2prv.read_prv(here / "trace.prv")
        assert (trace.header.duration, list(trace.header.cpus), list(trace.header.tasks)) == (
            plain.duration, plain.cpus, plain.tasks,
        )  # fmt: skip
        assert (trace.types, trace.values) == (plain.types, plain.values)
        assert {level: list(names) for level, names in trace.names.items()} == plain.names
        events = trace.events.select("task", "thread", "time", "type", "value").rows()
        assert events == [(*row, *event) for row, *event in plain.events]
        messages = trace.messages.select(
            "task", "thread", "sent", "to_task", "to_thread", "received", "size", "tag"
        ).rows()
        assert Counter(messages) == plain.messages()
        intervals = {(i.task, i.thread, i.type, i.start, i.end, i.value) for i in plain.intervals()}
        for kind in {i.type for i in plain.intervals()}:
            rows = trace.intervals(kind).rows()
            assert {(a, b, kind, c, d, e) for a, b, c, d, e, *_ in rows} == {i for i in intervals if i[2] == kind}
            assert all(label == plain.values.get(kind, {}).get(value) for *_, value, _, label in rows)


@examples(20)
@given(timelines(), st.integers(0, 40), st.integers(1, 40))
@example(LAUNCHED_AT_THE_END, 0, 3)
def test_a_span_of_time_is_what_lies_in_it(timeline: Timeline, start: int, length: int) -> None:
    with folder() as here:
        report = timeline.write(here / "r.sqlite")
        truth = Truth(timeline, report)
        start = min(start, max(end for *_, end, _ in truth.intervals) - 1)
        end = start + length
        inside = {i: n for i, n in truth.intervals.items() if i[4] > start and i[3] < end}
        want: Counter[tuple[object, ...]] = Counter()
        for (*where, a, b, label), count in inside.items():
            want[(*where, max(a, start) - start, min(b, end) - start, label)] += count
        try:
            result, trace = translated(report, here / "trace", time=(start, end))
        except nsys2prv.Nsys2prvError:
            assert not inside
            return
        assert different(drawn(trace), want) == NOTHING
        within = {m: n for m, n in truth.lines.items() if start <= m[2] < end and m[4] <= end}
        # Where a kernel begins with the span's end its stream may have no row.
        assert lines(trace).total() + told(result)[Loss.LINE_WITHOUT_ROW.text] == sum(within.values())
        left = truth.intervals.total() + truth.lines.total() - want.total() - sum(within.values())
        assert told(result)["outside the chosen time"] == left


@examples(20)
@given(timelines(), st.integers(1, 12))
def test_what_is_short_is_left_out(timeline: Timeline, least: int) -> None:
    with folder() as here:
        report = timeline.write(here / "r.sqlite")
        truth = Truth(timeline, report)
        short = Counter({i: n for i, n in truth.intervals.items() if i[4] - i[3] < least})
        try:
            result, trace = translated(report, here / "trace", reduction=Reduction(min_duration=least))
        except nsys2prv.Nsys2prvError:
            assert short == truth.intervals
            return
        assert different(from_first(drawn(trace)), from_first(truth.intervals - short)) == NOTHING
        assert told(result)[f"shorter than {least} ns"] == short.total()


@examples(20)
@given(timelines())
def test_sliced_and_windowed_equals_whole(timeline: Timeline) -> None:
    with folder() as here:
        report = timeline.write(here / "r.sqlite")
        whole, _ = translated(report, here / "whole")
        limits = Limits(slice_bytes=400, whole_bytes=0, piece_bytes=2_000, block_rows=3, window_points=9, batch_rows=4)
        for name, form in (("divided", report), ("in_place", in_parquet(report, here))):
            sliced, _ = translated(form, here / name, limits=limits)
            assert_same(here / name, here / "whole")
            assert (sliced.rows, sliced.dropped) == (whole.rows, whole.dropped)


@examples(20)
@given(timelines(sound=True), timelines(sound=True))
def test_parts_are_the_whole(first: Timeline, second: Timeline) -> None:
    """A process whose capture was ended and begun again when nothing was under way."""
    launched = [len(t.work) or sum(e.kind != "os" for e in t.events) for t in (first, second)]
    assume(all(launched) and bool(first.work) == bool(second.work))
    # Work from 0 to 0 counts as work without a time. The second part counts its times from 0 on, the whole does not.
    assume(not any(work.start == work.end == 0 for work in second.work))
    with folder() as here:
        timeline = first.then(second, by=1_000)
        report = timeline.write(here / "r.sqlite")
        whole, _ = translated(report, here / "whole")
        parts, _ = translated(construct.cut_in_two(report, here / "parts", launched[0] / sum(launched)), here / "both")
        assert parts.tasks == whole.tasks
        assert_same(here / "both", here / "whole")


@examples(20)
@given(timelines(), st.integers(0, 99))
def test_shuffled_rows_equal_ordered_rows(timeline: Timeline, seed: int) -> None:
    with folder() as here:
        report = timeline.write(here / "r.sqlite")
        translated(report, here / "whole")
        translated(construct.shuffled([report], here / "mixed", seed), here / "shuffled")
        assert_same(here / "shuffled", here / "whole")


@examples(20)
@given(timelines(sound=True), st.integers(-200_000, 200_000))
def test_a_clock_that_runs_fast_or_slow_moves_times_by_a_rounding(timeline: Timeline, ppm: int) -> None:
    def moved(time: int) -> int:
        return time + round(time * (1 + ppm / 1e6 - 1))

    with folder() as here:
        report = timeline.write(here / "r.sqlite")
        truth = Truth(timeline, report)
        _, trace = translated(report, here / "trace", RunOptions(every_thread=True, offsets={"*": GivenOffset(0, ppm)}))
        first = moved(truth.origin)
        begins, ends = Counter[object](), Counter[object]()
        for (*where, start, end, label), count in truth.intervals.items():
            start, end = start + truth.origin, end + truth.origin
            begins[*where, moved(start) - first, label] += count
            # What lasts 1 ns still does.
            ends[*where, max(moved(end), moved(start) + 1 if end - start == 1 else moved(end)) - first] += count
        found = drawn(trace)
        assert found.total() == truth.intervals.total()
        for (*where, start, end, label), count in found.items():
            begins[*where, start, label] -= count
            ends[*where, end] -= count
        assert (+begins, +ends) == (Counter(), Counter())
