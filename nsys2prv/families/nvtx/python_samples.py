"""Python stacks: as sampled, and at CUDA calls. The profiler keeps them as NVTX marks whose payload is the stack."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.families.calls import on_threads
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.host.stacks import depth_labels
from nsys2prv.families.nvtx_counts import nvtx_counts
from nsys2prv.families.nvtx_events import NVTX_READS, PYTHON_DOMAINS, PYTHON_ON_CUDA, PYTHON_SAMPLING, from_profiler
from nsys2prv.families.payloads import json_texts
from nsys2prv.families.source import Source
from nsys2prv.model.event_type import EventType
from nsys2prv.model.event_types import PYTHON_CUDA, PYTHON_SAMPLE, PYTHON_STATE
from nsys2prv.model.frames import Intervals
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema
from nsys2prv.report.json_text import decoded
from nsys2prv.report.report import Report

STATE_NUMBERS = {"Running": 1, "Blocking Wait": 2, "Uninterruptible": 3}
# Names of functions and files are numbers of StringIds.
_FRAME = pl.Struct({"Function": pl.Int64(), "File": pl.Int64()})
_STACK = pl.Struct({"Thread state": pl.String(), "Frames": pl.List(_FRAME)})
_PAYLOAD = pl.Struct(dict.fromkeys(PYTHON_DOMAINS, _STACK))


def _frames(source: Source, state: None) -> Frames[None]:
    samples = on_threads(source, source.ranges().filter(from_profiler()))
    if samples.is_empty():
        return
    read = with_stacks(source, samples)
    yield _drawn(source, read.filter(pl.col("domain").is_in(PYTHON_SAMPLING)), PYTHON_SAMPLE)
    yield _drawn(source, read.filter(pl.col("domain") == PYTHON_ON_CUDA), PYTHON_CUDA)


def with_stacks(source: Source, samples: pl.DataFrame) -> pl.DataFrame:
    """Return those of some samples whose stack can be read, with `id`, their row, `Thread state` and `Frames`."""
    payloads = decoded(json_texts(samples, source.report.strings)["json"], _PAYLOAD)
    stacks = samples.with_columns(stack=payloads.struct.unnest().select(pl.coalesce(pl.all())).to_series())
    read = stacks.drop_nulls("stack")
    source.tally.count(Loss.NO_PYTHON_STACK, stacks.height - read.height)
    return read.with_columns(pl.col("stack").struct.unnest()).with_row_index("id")


def _drawn(source: Source, samples: pl.DataFrame, event_types: Sequence[EventType]) -> Intervals:
    """Return samples as instants of a family of types: the function, then its callers."""
    function, *callers = (t.key for t in event_types)
    labels = depth_labels(source, samples["id"], stack_functions(source, samples), dict(enumerate(event_types)))
    instants = samples.with_columns(
        pl.col("Thread state")
        .replace_strict(STATE_NUMBERS, default=None, return_dtype=pl.Int64)
        .alias(PYTHON_STATE.key),
        end=pl.col("start") + 1,
        slot=source.slot(function),
    )
    frame = pl.concat([instants, labels.rename({function: "value"})], how="horizontal")
    return source.thread_intervals(frame, (*callers, PYTHON_STATE.key))


def stack_functions(source: Source, samples: pl.DataFrame) -> pl.DataFrame:
    """Return the functions on the samples' stacks, the innermost first: id, stackDepth, name, function and path.

    `name` is that of the function with the name of its file, `path` the file's. `samples`: see `with_stacks`.
    """
    each = samples.select("id", frame="Frames").explode("frame").drop_nulls("frame")
    each = each.with_columns(pl.col("frame").struct.unnest(), stackDepth=pl.int_range(pl.len()).over("id"))
    distinct = each.select("Function", "File").unique(maintain_order=True)
    function, path = (_unescaped(source.texts(distinct[c])) for c in ("Function", "File"))
    named = pl.format("{} ({})", function, path.str.replace(r"^.*/", ""))
    names = distinct.with_columns(name=named, function=function, path=path)
    return each.join(names, on=["Function", "File"], how="left", maintain_order="left")


def _unescaped(texts: pl.Series) -> pl.Series:
    """Restore names such as `<module>`, which the exporter escapes as in XML."""
    return texts.str.replace_all("&lt;", "<").str.replace_all("&gt;", ">").str.replace_all("&amp;", "&")


def count_samples(report: Report) -> int:
    """Count samples of Python stacks in a report."""
    if not report.table(schema.NVTX, ["eventType"])["eventType"].is_in(schema.MARKS).any():
        return 0
    return nvtx_counts(report).samples


FAMILY = Family(
    name="python_samples",
    title="Python samples with call stacks",
    draws=(schema.NVTX,),
    reads=NVTX_READS,
    emits=(*PYTHON_SAMPLE, PYTHON_STATE, *PYTHON_CUDA),
    frames=_frames,
    count=count_samples,
    makes_rows=False,
    default=False,
)
