"""GPU context switches: which process' context was on the GPU, on the GPU's metrics row."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import GPU_CONTEXT
from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

# ENUM_GPU_CTX_SWITCH: a context is on the GPU from when it is restored, or first started, until it is saved or reset.
BEGIN_TAGS, END_TAGS = (8, 9), (7, 11)


def _frames(source: Source, state: None) -> Frames[None]:
    """Yield the context that was on each GPU, from one switch to the next."""
    events = source.table(schema.CONTEXT_SWITCHES)
    if events.is_empty():
        return
    switches = events.filter(pl.col("tag").is_in([*BEGIN_TAGS, *END_TAGS])).sort("timestamp", "seqNo")
    source.tally.count(Loss.CONTEXT_REQUEST, events.height - switches.height)
    context = ["gpuId", "globalPid", "contextId"]
    begins = pl.col("tag").is_in(BEGIN_TAGS)
    again = begins & begins.shift(1).over(context).fill_null(False)
    switches = switches.filter(~again)
    until = pl.col("timestamp").shift(-1).over(context)
    spans = switches.with_columns(start="timestamp", end=until.fill_null(source.last)).filter(begins)
    _count_odd(source, switches.with_columns(begins=begins, until=until, before=begins.shift(1).over(context)))
    yield source.intervals(
        spans.with_columns(
            place=source.places.gpus_of_processes(spans, GPU_CONTEXT.key),
            slot=source.slot(GPU_CONTEXT.key),
            value=source.labels.ids(GPU_CONTEXT.key, _names(source, spans)),
        )
    )


def _count_odd(source: Source, switches: pl.DataFrame) -> None:
    still_on = switches.filter(pl.col("begins") & pl.col("until").is_null()).height
    source.tally.count(Loss.STILL_ON_GPU, still_on)
    earlier = switches.filter(~pl.col("begins") & ~pl.col("before").fill_null(False)).height
    source.tally.count(Loss.NEVER_ON_GPU, earlier)


def _names(source: Source, spans: pl.DataFrame) -> pl.Series:
    """Return `program pid, context n` of each span."""
    programs = {p.global_pid: p.name.rsplit("/", 1)[-1] for p in source.report.identity.processes}
    key = ["globalPid", "contextId"]
    distinct = spans.select(key).unique()
    texts = [
        f"{programs.get(process or 0, 'process')} {pid_of(process or 0)}, context {context}"
        for process, context in distinct.rows()
    ]
    named = distinct.with_columns(text=pl.Series(texts, dtype=pl.String))
    return spans.select(key).join(named, on=key, how="left", nulls_equal=True, maintain_order="left")["text"]


FAMILY = Family(
    name="gpu_contexts",
    title="GPU context switches",
    draws=(schema.CONTEXT_SWITCHES,),
    reads={schema.CONTEXT_SWITCHES: ("timestamp", "tag", "seqNo", "contextId", "globalPid", "gpuId")},
    emits=(GPU_CONTEXT,),
    frames=_frames,
    makes_rows=False,
)
