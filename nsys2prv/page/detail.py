"""Level of detail: shares of time by bins of the whole run, and exact activities where they are few enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.shortest import ends_of
from nsys2prv.intervals.spans import Span, Times, one_span, time_in, union
from nsys2prv.page.encoding import columns_block, packed
from nsys2prv.page.lines import KINDS

# Most activities that a page holds exactly.
EXACT = 1_000_000
# Most bins over all lines, and on one line.
BINS, BINS_OF_LINE = 1 << 21, 8192
# Share of the bins that lie inside the window of interest.
INSIDE = 0.75
# A bin's share of time is an integer up to this.
WHOLE = 100
# Lines whose bins are one block, and activities that are one block, about.
LINES_OF_BLOCK, ACTIVITIES_OF_BLOCK = 64, 60_000
# Spans of time from which exact ones are chosen, where the run has no iterations.
SPANS = 200


def bin_edges(duration: int, window: Span, lines: int) -> list[tuple[int, int, int]]:
    """Return begin, end and number of bins of each stretch of the run; most bins are inside the window."""
    count = max(16, min(BINS_OF_LINE, BINS // max(lines, 1)))
    low, high = max(0, window.start), min(duration, window.end)
    if high <= low:
        return [(0, max(duration, 1), min(count, max(duration, 1)))]
    outside = max(duration - (high - low), 1)
    stretches = [(0, low, (1 - INSIDE) * low / outside), (low, high, INSIDE)]
    stretches.append((high, duration, (1 - INSIDE) * (duration - high) / outside))
    return [
        (start, end, max(1, min(round(share * count), end - start))) for start, end, share in stretches if end > start
    ]


def edges_of(stretches: Sequence[tuple[int, int, int]]) -> Times:
    """Return the borders of all bins, ascending."""
    inner = [np.linspace(start, end, count + 1)[:-1] for start, end, count in stretches]
    return np.append(np.concatenate(inner), stretches[-1][1]).round().astype(np.int64)


def shares(activities: pl.DataFrame, lines: int, edges: Times) -> npt.NDArray[np.uint8]:
    """Return the share of each bin that the activities of a kind cover: kinds x lines x bins, 0 to WHOLE.

    `activities`: ACTIVITY. A share above 0 is at least 1.
    """
    axis = axis_over(one_span(0, int(edges[-1])), lines)
    borders = axis.at(np.repeat(np.arange(lines), len(edges)), np.tile(edges, lines))
    found = np.zeros((len(KINDS), lines, len(edges) - 1), dtype=np.uint8)
    width = np.maximum(np.diff(edges), 1)
    for kind in activities["kind"].unique().to_list():
        own = activities.filter(pl.col("kind") == kind)
        line, start, end = (own[c].to_numpy() for c in ("line", "start", "end"))
        # An activity without a length is drawn 1 ns long.
        covered = time_in(axis.union(line, start, ends_of(start, end)), borders)
        inside = np.diff(covered.reshape(lines, len(edges)), axis=1)
        # Rounded up, in integers.
        found[kind] = np.minimum(-(-inside * WHOLE // width), WHOLE)
    return found


def shares_blocks(found: npt.NDArray[np.uint8]) -> Iterator[dict[str, Any]]:
    """Yield blocks of lines: first line, number of lines, the kinds that it has, and their shares as text."""
    for first in range(0, found.shape[1], LINES_OF_BLOCK):
        part = found[:, first : first + LINES_OF_BLOCK]
        kinds = np.flatnonzero(part.any(axis=(1, 2)))
        text = packed(np.ascontiguousarray(part[kinds]).tobytes())
        yield {"first": first, "lines": part.shape[1], "kinds": kinds.tolist(), "text": text}


def exact_spans(
    activities: pl.DataFrame, iterations: Sequence[Span], wanted: Sequence[int], duration: int
) -> list[Span]:
    """Return the spans of time in which the page holds every activity: all of the run if there are few enough.

    Otherwise these are iterations (without any: equal spans of the run): first those at the `wanted` times, then the
    longest, then from the first on, until they are too many. One that alone has too many is left out.
    """
    if activities.height <= EXACT:
        return [Span(0, max(duration, 1))]
    parts = list(iterations) or [
        Span(duration * n // SPANS, duration * (n + 1) // SPANS) for n in range(min(SPANS, duration))
    ]
    begins = np.sort(activities["start"].to_numpy())
    ends = np.sort(activities["end"].to_numpy())
    longest = max(parts, key=lambda span: span.end - span.start)
    asked = [span for at in wanted for span in parts if span.start <= at < span.end]
    chosen: list[Span] = []
    left = EXACT
    for span in dict.fromkeys([*asked, longest, *parts]):
        held = int(np.searchsorted(begins, span.end) - np.searchsorted(ends, span.start, side="right"))
        if held > EXACT:
            continue
        if held > left:
            break
        chosen.append(span)
        left -= held
    return _merged(chosen)


def _merged(spans: Sequence[Span]) -> list[Span]:
    found = union(*(np.array([span[n] for span in spans], dtype=np.int64) for n in (0, 1)))
    return [Span(int(start), int(end)) for start, end in zip(found.start, found.end, strict=True)]


def held_exactly(activities: pl.DataFrame, spans: Sequence[Span]) -> pl.DataFrame:
    """Return the activities that touch one of some spans, whole."""
    start = np.array([span.start for span in spans], dtype=np.int64)
    end = np.array([span.end for span in spans], dtype=np.int64)
    after = np.searchsorted(end, activities["start"].to_numpy(), side="right")
    touching = np.append(start, np.iinfo(np.int64).max)[after] < np.maximum(
        activities["end"].to_numpy(), activities["start"].to_numpy() + 1
    )
    return activities.filter(pl.Series(touching))


def exact_blocks(activities: pl.DataFrame, names: pl.Series, lines: int) -> Iterator[dict[str, Any]]:
    """Yield blocks of lines: first line, activities of each line, the columns, and these as text.

    `activities`: ACTIVITY by line and start. `names`: the texts whose indices `name` holds. `start` is the time since
    the start before it on the line, of the first one the time itself; `length` is end less start.
    """
    counts = np.bincount(activities["line"].to_numpy(), minlength=lines)
    place = pl.int_range(len(names), eager=True)
    number = activities["name"].cast(pl.String).replace_strict(names, place, return_dtype=pl.Int64)
    start, end = (activities[c].to_numpy() for c in ("start", "end"))
    fields = {
        "start": np.diff(start, prepend=0),
        "length": end - start,
        "kind": activities["kind"].to_numpy(),
        "name": number.to_numpy(),
        "note": activities["note"].to_numpy(),
    }
    border = np.concatenate([[0], np.cumsum(counts)])
    first_of_line = border[:-1][counts > 0]
    fields["start"][first_of_line] = start[first_of_line]
    block = border[:-1] // ACTIVITIES_OF_BLOCK
    firsts = np.flatnonzero(np.diff(block, prepend=-1)).tolist()
    for first, after in zip(firsts, [*firsts[1:], lines], strict=True):
        inside = slice(border[first], border[after])
        columns, text = columns_block({name: values[inside] for name, values in fields.items()})
        yield {"first": first, "counts": counts[first:after].tolist(), "columns": columns, "text": text}
