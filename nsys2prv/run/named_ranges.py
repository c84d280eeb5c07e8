"""NVTX ranges that the user names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

from nsys2prv.errors import UsageError
from nsys2prv.model.event_types import NVTX_DOMAIN, NVTX_RANGE
from nsys2prv.model.words import NAMES_SHOWN, did_you_mean, few, short
from nsys2prv.run.clocks import Clock
from nsys2prv.run.report_summary import Summary


def span_of_range(summaries: Sequence[Summary], clocks: Sequence[Clock], name: str) -> tuple[int, int]:
    """Return the first begin and the last end (merged ns) of the NVTX range that was looked up, over all reports.

    Raises UsageError where no report has the range.
    """
    spans = [
        (clock.merged_one(summary.range_span[0]), clock.merged_one(summary.range_span[1]))
        for summary, clock in zip(summaries, clocks, strict=True)
        if summary.range_span is not None
    ]
    if not spans:
        texts = _texts(summaries)
        # One report for all: the others of a run have nearly the same ranges.
        report = shlex.quote(str(summaries[0].path))
        others = did_you_mean(name, texts) or _some(texts)
        raise UsageError(
            f"no report has an NVTX range {short(name)!r}{others}; `nsys2prv analyze {report} --show nvtx` lists them"
        )
    # As drawn: what has no length, or ends before it begins, lasts 1 ns.
    return min(begin for begin, _ in spans), max(max(end, begin + 1) for begin, end in spans)


def _texts(summaries: Sequence[Summary]) -> set[str]:
    """Return the texts of the ranges of all reports that extracted NVTX."""
    kinds = (NVTX_DOMAIN.of(""), NVTX_RANGE.key)
    return {text for s in summaries for key in s.labels if key.startswith(kinds) for text in s.labels[key]}


def _some(texts: Collection[str]) -> str:
    """Name some ranges, one for each pattern of numbers; empty without any."""
    lines = sorted({" ".join(text.split()) for text in texts} - {""}, reverse=True)
    some = {re.sub(r"\d+", "#", text): text for text in lines}
    return f", but {few(sorted(some.values()), NAMES_SHOWN)}" if some else ""
