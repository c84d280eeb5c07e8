"""CPU samples: the function that ran and its callers, an event type each, so that Paraver can count and color them."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.calls import on_threads
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.host.stacks import COLUMNS, stack_labels
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import CPU_CALLERS, CPU_SAMPLE
from nsys2prv.report import schema

# Event types by depth in the stack.
BY_DEPTH = (CPU_SAMPLE, *CPU_CALLERS)


def _frames(source: Source, state: None) -> Frames[None]:
    samples = on_threads(source, source.table(schema.CPU_SAMPLES))
    labels = stack_labels(source, samples["id"], source.table(schema.CPU_STACKS), dict(enumerate(BY_DEPTH)))
    instants = samples.with_columns(end=pl.col("start") + 1, slot=source.slot(CPU_SAMPLE.key))
    frame = pl.concat([instants, labels.rename({CPU_SAMPLE.key: "value"})], how="horizontal")
    yield source.thread_intervals(frame, tuple(t.key for t in CPU_CALLERS))


FAMILY = Family(
    name="cpu_samples",
    title="CPU samples with call stacks",
    draws=(schema.CPU_SAMPLES,),
    reads={schema.CPU_SAMPLES: ("id", "start", "globalTid"), schema.CPU_STACKS: COLUMNS},
    emits=BY_DEPTH,
    frames=_frames,
    makes_rows=False,
    default=False,
)
