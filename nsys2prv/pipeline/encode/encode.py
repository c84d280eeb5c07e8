"""Encode: the lines of one window of time, from the stored points of all reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.families.registry import FAMILIES
from nsys2prv.model.event_types import KERNEL_CLASS, TENSOR_ESTIMATE, WAITED_FOR, WAITING, is_labelled
from nsys2prv.model.interning import distinct_of
from nsys2prv.paraver.lines import (
    LINE,
    event_lines,
    message_lines,
    sample_lines,
    sort_lines,
    state_lines,
)
from nsys2prv.pipeline.encode.encoding_input import EncodingInput, Estimates
from nsys2prv.pipeline.encode.run_attributes import ReportInRun, with_run_attributes
from nsys2prv.pipeline.store.combinations import COMBINATION
from nsys2prv.pipeline.store.points import END
from nsys2prv.pipeline.store.spill import read_around, read_combinations, read_spill
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.clocks import Clock
from nsys2prv.run.numbering import Numbering
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill
from nsys2prv.run.trace_rows import NO_ROW

# Report and family of lines that come from no report; else a family is its position in FAMILY_NAMES.
NO_OWNER = -1
FAMILY_NAMES = [family.name for family in FAMILIES]
# Owners of lines, where two reports may hold the same ones.
OWNERS = ("report", "family")


class WindowCounts(NamedTuple):
    """Counts of one window: its lines, and by family the messages with an end without a row.

    `repeated`: rows by family that another report of the same process holds too.
    """

    lines: int
    hidden_messages: Mapping[str, int]
    repeated: Mapping[str, int]


@on_polars_thread
def encode(encoding: EncodingInput, number: int) -> tuple[pl.DataFrame, WindowCounts]:
    """Return the lines of window `number` in the order of the body, ready for `write_lines`."""
    low, high = (int(border) for border in encoding.borders[number : number + 2])
    hidden: Counter[str] = Counter()
    # An iterator, so that no frame outlives the concatenation of all.
    made = _window_lines(encoding, low, high, hidden)
    lines, repeated = _without_repeats(encoding.plan, made) if encoding.plan.objects.shared else (sort_lines(made), {})
    return lines, WindowCounts(lines.height, hidden, repeated)


def merged_lines(encoding: EncodingInput, reports: range, low: int, high: int) -> tuple[pl.DataFrame, WindowCounts]:
    """Return the lines of some reports within [low, high) in the order of the body, with all that orders them (LINE).

    Lines are not counted here: they are merged once more, with the lines of other reports.
    """
    plan = encoding.plan
    kept = [*LINE, *OWNERS] if plan.objects.shared else list(LINE)
    none = _with_owner(plan, plan.lines.clear())
    hidden: Counter[str] = Counter()
    lines = sort_lines(chain([none], _report_lines(encoding, reports, low, high, hidden)), kept)
    return lines, WindowCounts(0, hidden, {})


def _window_lines(encoding: EncodingInput, low: int, high: int, hidden: Counter[str]) -> Iterator[pl.DataFrame]:
    """Yield all lines within [low, high). `hidden` gets the messages with an end without a row, by family."""
    plan = encoding.plan
    own = plan.lines.filter((pl.col("time") >= low) & (pl.col("time") < high))
    for lines in (
        own,
        *_message_lines(encoding, low, high),
        *_waiting_lines(encoding, low, high),
        *_run_event_lines(encoding, low, high),
    ):
        yield _with_owner(plan, lines)
    if encoding.bundles is None:
        yield from _report_lines(encoding, range(len(plan.summaries)), low, high, hidden)
    else:
        yield from _within(encoding.bundles.spills, low, high)


def _report_lines(
    encoding: EncodingInput, reports: range, low: int, high: int, hidden: Counter[str]
) -> Iterator[pl.DataFrame]:
    """Yield the lines of the points of reports within [low, high). `hidden`: see _window_lines."""
    for report in reports:
        for spill in encoding.plan.summaries[report].spills:
            for lines in _spill_lines(encoding, report, spill, low, high, hidden):
                yield _with_owner(encoding.plan, lines, report, FAMILY_NAMES.index(spill.family))


def _with_owner(plan: Plan, lines: pl.DataFrame, report: int = NO_OWNER, family: int = NO_OWNER) -> pl.DataFrame:
    """Add report and family to lines where two reports may hold the same ones."""
    if not plan.objects.shared:
        return lines
    return lines.with_columns(report=pl.lit(report, pl.Int64), family=pl.lit(family, pl.Int64))


def _spill_lines(
    encoding: EncodingInput, report: int, spill: Spill, low: int, high: int, hidden: Counter[str]
) -> Iterator[pl.DataFrame]:
    """Yield the lines of a spill within [low, high). `hidden`: see _window_lines."""
    plan, clock = encoding.plan, encoding.plan.clocks[report]
    # A nanosecond of slack on both sides: an interval of 1 ns stays one under a slope.
    chosen = np.flatnonzero((clock.merged(spill.last) >= low - 1) & (clock.merged(spill.first) < high))
    if not len(chosen):
        return
    points = read_spill(spill, chosen.tolist())
    row, time = plan.objects.row_of[report][points["place"].to_numpy()], _times(clock, points)
    inside = (time >= low) & (time < high)
    if spill.kind != "messages":
        inside &= row != NO_ROW
    drawn = _chosen(points.with_columns_seq(pl.Series("row", row), pl.Series("time", time)), inside)
    if spill.kind == "messages":
        lines = _messages(plan, report, clock, drawn)
        if lines.height < drawn.height:
            hidden[spill.family] += drawn.height - lines.height
        yield lines
        return
    if drawn.is_empty():
        return
    if spill.kind == "states":
        ends = pl.Series(clock.merged(drawn["end"].to_numpy()))
        yield state_lines(drawn.with_columns(end=ends))
        return
    if spill.kind == "events":
        yield _events(encoding, report, spill, drawn)
    else:
        # A metric without any value has no type.
        yield sample_lines(drawn, {c: plan.numbering.types[c] for c in spill.columns if c in plan.numbering.types})


def _chosen(points: pl.DataFrame, chosen: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """Return the chosen points. Adjacent ones, as most windows have, are not copied."""
    where = np.flatnonzero(chosen)
    if not len(where):
        return points.clear()
    first, count = int(where[0]), int(where[-1] - where[0]) + 1
    return points.slice(first, count) if count == len(where) else points.filter(pl.Series(chosen))


def _within(spills: Sequence[Spill], low: int, high: int) -> Iterator[pl.DataFrame]:
    """Yield the rows within [low, high) of spills whose times are the trace's."""
    for spill in spills:
        rows = read_around(spill, low, high)
        if rows is not None:
            times = rows["time"].to_numpy()
            yield _chosen(rows, (times >= low) & (times < high))


def _message_lines(encoding: EncodingInput, low: int, high: int) -> Iterator[pl.DataFrame]:
    """Yield the lines of messages between ranks sent within [low, high)."""
    numbers = encoding.plan.objects.rows.numbers
    for messages in _within(encoding.matches.messages, low, high):
        yield message_lines(messages, numbers)


def _waiting_lines(encoding: EncodingInput, low: int, high: int) -> Iterator[pl.DataFrame]:
    """Yield the lines of waiting and transfer within [low, high)."""
    values = pl.DataFrame({"type": [WAITING.number] * 3, "value": [0, *WAITING.values]})
    for points in _within(encoding.matches.waiting, low, high):
        yield event_lines(points, values, {WAITED_FOR.key: WAITED_FOR.number})


def _run_event_lines(encoding: EncodingInput, low: int, high: int) -> Iterator[pl.DataFrame]:
    """Yield the lines of events of the whole run, such as the critical path, within [low, high)."""
    for one in encoding.run_events:
        values = pl.DataFrame(
            {"type": [one.event_type.number] * len(one.event_type.values), "value": list(one.event_type.values)}
        )
        for points in _within([one.spill] if one.spill else [], low, high):
            yield event_lines(points, values, {column: event_type.number for column, event_type in one.further.items()})


def _times(clock: Clock, points: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the merged times of points (ns)."""
    times = points["time"].to_numpy()
    merged = clock.merged(times)
    if clock.slope == 1.0 or "length" not in points.columns:
        return merged
    # An interval of 1 ns stays one: its end must not fall on its begin.
    short = (points["phase"].to_numpy() == END) & (points["length"].to_numpy() == 1)
    return np.where(short, np.maximum(merged, clock.merged(times - 1) + 1), merged)


def _events(encoding: EncodingInput, report: int, spill: Spill, points: pl.DataFrame) -> pl.DataFrame:
    """Make lines of the begins and ends of intervals, with the run's numbers of types, labels and attributes."""
    plan, estimates = encoding.plan, encoding.estimates
    summary, numbers = plan.summaries[report], plan.numbering.types
    points, known = _used(points, read_combinations(spill))
    in_run = ReportInRun(summary, report, plan.communicators, encoding.matches.before[report])
    points = with_run_attributes(in_run, points, known)
    unique = {c: numbers[c] for c in spill.columns if c in numbers}
    if estimates is not None and KERNEL_CLASS.key in known.columns:
        classes = known[KERNEL_CLASS.key].fill_null(0).gather(points["combination"])
        points = points.with_columns(_estimate(estimates, report, points, classes))
        unique[TENSOR_ESTIMATE.key] = TENSOR_ESTIMATE.number
    begun, repeated = _numbered(plan.numbering, report, summary.slots, known)
    # The end of each combination, which sets all to 0, and then the begin.
    ended = begun.with_columns(pl.exclude("type") * 0)
    at = points["combination"].to_numpy() + points["phase"].to_numpy() * np.uint32(known.height)
    numbered = points.with_columns_seq(pl.Series("combination", at))
    return event_lines(numbered, pl.concat([ended, begun]), repeated | unique)


def _used(points: pl.DataFrame, known: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Drop the combinations of other windows where they are many."""
    if known.height <= points.height:
        return points, known
    used, at = distinct_of(points["combination"])
    return points.with_columns(at.alias("combination")), known[used]


def _numbered(
    numbering: Numbering, report: int, slots: Sequence[str], known: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Put a report's combinations into the run's numbers; return also the types of their attributes."""
    lookups = numbering.values[report]
    slot, value = known["slot"].to_numpy(), known["value"].to_numpy().copy()
    types = np.array([numbering.types.get(k, 0) for k in slots], dtype=np.int64)
    columns = [c for c in known.columns[len(COMBINATION) :] if c in numbering.types]
    pairs = {c: numbering.types[c] for c in columns}
    extra = []
    for s in np.unique(slot):
        here, key = slot == s, slots[s]
        if key in numbering.number_type:
            found = numbering.in_text[report][key][np.where(here, value, 0)]
            pairs[f"{key} number"] = numbering.number_type[key]
            extra.append(pl.select(pl.when(pl.Series(here)).then(pl.Series(found))).to_series().alias(f"{key} number"))
        if is_labelled(key):
            value[here] = lookups[key][value[here]]
    attributes = [_labelled(known[c], lookups[c]) if is_labelled(c) else known[c] for c in columns]
    return pl.DataFrame([pl.Series("type", types[slot]), pl.Series("value", value), *attributes, *extra]), pairs


def _labelled(column: pl.Series, lookup: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    """Look up the values of labels; null where there is none."""
    if not column.null_count():
        return pl.Series(column.name, lookup[column.to_numpy()])
    values = pl.Series(lookup[column.fill_null(0).to_numpy()])
    return pl.select(pl.when(column.is_not_null()).then(values)).to_series().alias(column.name)


def _estimate(estimates: Estimates, report: int, points: pl.DataFrame, classes: pl.Series) -> pl.Series:
    """Return the estimate of each kernel's class on its GPU, where there is one; its end sets it to 0."""
    found = estimates.values[estimates.device[points["row"].to_numpy()], estimates.classes[report][classes.to_numpy()]]
    frame = points.select("phase", found=pl.Series(found))
    value = pl.when(pl.col("found") != 0).then(pl.col("found") * (pl.col("phase") != END))
    return frame.select(value.alias(TENSOR_ESTIMATE.key)).to_series()


def _messages(plan: Plan, report: int, clock: Clock, points: pl.DataFrame) -> pl.DataFrame:
    """Make lines of the messages within a report whose ends both have a row."""
    routed = points.with_columns(
        to_row=pl.Series(plan.objects.row_of[report][points["to_place"].to_numpy()]),
        received=pl.Series(clock.merged(points["received"].to_numpy())),
    )
    drawn = routed.filter((pl.col("row") != NO_ROW) & (pl.col("to_row") != NO_ROW))
    return message_lines(drawn, plan.objects.rows.numbers)


def _without_repeats(plan: Plan, made: Iterable[pl.DataFrame]) -> tuple[pl.DataFrame, Mapping[str, int]]:
    """Sort the lines of a run where several reports hold a process: events that two of them recorded are written once.

    Return also the rows left out for this, by family (an interval is one row, and has two lines).
    """
    lines = sort_lines(made, [*LINE, *OWNERS])
    shared = np.isin(plan.objects.rows.task, list(plan.objects.shared))
    of_shared = pl.Series(shared[lines["row"].to_numpy()])
    # Equal events of a single report happened twice.
    counted = lines.with_columns(
        again=pl.when(of_shared).then(pl.int_range(pl.len()).over([*LINE, "report"])).otherwise(pl.int_range(pl.len()))
    )
    once = counted.unique([*LINE, "again"], keep="first", maintain_order=True)
    held = counted.filter(pl.col("phase") > END)["family"].value_counts()
    kept = dict(once.filter(pl.col("phase") > END)["family"].value_counts().rows())
    repeated = {FAMILY_NAMES[f]: n - kept[f] for f, n in held.rows() if f != NO_OWNER and n > kept[f]}
    return once.select(list(LINE)), repeated
