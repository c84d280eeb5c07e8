"""Random samples of GPU metrics: first and last value of each, all that differ from the one before, and pauses."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from statistics import median

from hypothesis import given
from hypothesis import strategies as st
from plain import PlainTrace
from timelines import NAMES, Timeline, clean, examples, folder, readable, times

import nsys2prv
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits

GPUS = (256, 257)
VALUES = st.sampled_from((0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63))) | st.integers(0, 3)
Series = tuple[str, str, tuple[tuple[int, int], ...]]


@st.composite
def sampled(draw: st.DrawFn) -> Timeline:
    """Up to six metrics of two GPUs, some without a definition, many of one name; each sample may have all of them."""
    at = draw(times())
    if draw(st.booleans()):
        at_once = draw(st.sets(at, min_size=1, max_size=4))
        gpus = sorted(draw(st.sets(st.sampled_from(GPUS), min_size=1)))
        keys = product(at_once, gpus, draw(st.lists(st.integers(0, 5), min_size=1, unique=True)))
        samples = {(gpu, number, time): draw(VALUES) for time, gpu, number in keys}
    else:
        key = st.tuples(st.sampled_from(GPUS), st.integers(0, 5), at)
        samples = draw(st.dictionaries(key, VALUES, min_size=1, max_size=24))
    names = NAMES | st.sampled_from(("x", "x (metric 1)", "metric 5", "metric 4", " x"))
    return Timeline(samples=samples, metrics=draw(st.dictionaries(st.integers(0, 4), names, max_size=5)))


def names(timeline: Timeline, gpu: int) -> dict[int, str]:
    """Names of a GPU's metrics: those that are defined have the first right to theirs."""
    found: dict[int, str] = {}
    others = sorted({n for g, n, _ in timeline.samples if g == gpu} - set(timeline.metrics))
    for number in (*timeline.metrics, *others):
        name = readable(timeline.metrics.get(number, "")).strip() or f"metric {number}"
        while name in found.values():
            name = f"{name} (metric {number})"
        found[number] = name
    return found


def base(label: str) -> str:
    """A label without what tells it from others that look like it."""
    return re.sub(r"( \(\d+\))+\Z", "", label)


def ends(times: list[int]) -> list[int]:
    """A period after each sample that no other follows in time; the period is the median of the first distances."""
    distances = [b - a for a, b in pairwise(times)]
    period = int(median(distances[:16])) if distances else 1
    return [t + period for t, d in zip(times, distances, strict=False) if d > 1.5 * period] + [times[-1] + period]


def truth(timeline: Timeline) -> Counter[Series]:
    begin = min(time for _, _, time in timeline.samples)
    # The trace ends with the last sample, but lasts 1 ns at least.
    end_of_trace = max(max(time for _, _, time in timeline.samples) - begin, 1)
    found: Counter[Series] = Counter()
    for gpu in {g for g, _, _ in timeline.samples}:
        place = f"Metrics GPU{gpu - 256}"
        times = sorted({t for g, _, t in timeline.samples if g == gpu})
        pauses = ends(times)
        begins = [times[0], *(min(t for t in times if t > end) for end in pauses[:-1])]
        sampled = sorted(
            [(t - begin, 1) for t in begins] + [(min(t - begin, end_of_trace), 0) for t in pauses],
            key=lambda s: (s[0], -s[1]),
        )
        found[place, "GPU metrics: sampled", tuple(sampled)] += 1
        for number in {n for g, n, _ in timeline.samples if g == gpu}:
            series = sorted((t, v) for (g, n, t), v in timeline.samples.items() if (g, n) == (gpu, number))
            before = [None, *(value for _, value in series)]
            kept = [s for s, value in zip(series, before, strict=False) if s[1] != value or s is series[-1]]
            label = base(clean(names(timeline, gpu)[number]))
            found[place, label, tuple((t - begin, v) for t, v in kept)] += 1
    return found


@examples(30)
@given(sampled())
def test_samples_are_drawn_as_the_rows_have_them(timeline: Timeline) -> None:
    with folder() as here:
        report = timeline.write(here / "r.sqlite")
        trace = translated(report, here / "whole")
        found = Counter(
            (trace.row(*row), base(trace.types[kind]), tuple(series)) for (row, kind), series in trace.samples().items()
        )
        assert found == truth(timeline)
        translated(report, here / "sliced", Limits(slice_bytes=200, piece_bytes=500, whole_bytes=0))
        for ending in (".prv", ".pcf", ".row"):
            assert (here / f"sliced{ending}").read_bytes() == (here / f"whole{ending}").read_bytes(), ending


def translated(report: Path, stem: Path, limits: Limits = DEFAULT_LIMITS) -> PlainTrace:
    chosen = nsys2prv.Selection(("gpu_metrics",))
    result = nsys2prv.translate(report, stem, selection=chosen, execution=nsys2prv.Execution(jobs=1, limits=limits))
    assert result.prv is not None
    trace = PlainTrace(result.prv)
    trace.check()
    return trace
