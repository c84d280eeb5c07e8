"""CPU samples: the function that ran and its callers, an event type each, so that Paraver can count and colour them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.activities.calls import on_threads
from nsys2prv.activities.family import Family, Source
from nsys2prv.paraver.event_types import CPU_CALLERS, CPU_SAMPLE
from nsys2prv.report import schema
from nsys2prv.timeline.frames import Intervals

# By depth in the stack; deeper callers are left out, and counted.
FRAMES = (CPU_SAMPLE, *CPU_CALLERS)
NO_STACK = "(no stack)"
# What the profiler writes where it could not follow the stack any further: `[Broken backtraces]`, `[Max depth]`.
NOTE = r"^\[.*\]$"


def _frames(source: Source) -> Iterator[Intervals]:
    samples = on_threads(source, source.table(schema.CPU_SAMPLES))
    stacks = _named(source, source.table(schema.CPU_STACKS))
    shown = stacks.filter(pl.col("stackDepth") < len(FRAMES))
    deeper = stacks.filter(pl.col("stackDepth") >= len(FRAMES))["id"].n_unique()
    source.tally.drop(f"stacks deeper than {len(FRAMES)} (drawn without the callers above)", deeper)
    frame = samples.with_columns(end=pl.col("start") + 1, slot=pl.lit(source.slots.number(CPU_SAMPLE.key)))
    for depth, kind in enumerate(FRAMES):
        here = shown.filter(pl.col("stackDepth") == depth).unique("id", keep="first").select("id", name="name")
        names = frame.select("id").join(here, on="id", how="left", maintain_order="left")["name"]
        if kind is CPU_SAMPLE:
            names = names.fill_null(NO_STACK)
        frame = frame.with_columns(source.labels.ids(kind.key, names).alias(kind.key))
    callers = tuple(t.key for t in CPU_CALLERS if frame[t.key].null_count() < frame.height)
    yield source.thread_intervals(frame.rename({CPU_SAMPLE.key: "value"}), callers)


def _named(source: Source, stacks: pl.DataFrame) -> pl.DataFrame:
    """The stacks' entries with `name`: the function, or the module where the function is not known."""
    key = ["symbol", "module", "unresolved"]
    distinct = stacks.select(key).unique(maintain_order=True)
    module = source.texts(distinct["module"]).str.replace(r"^.*/", "").fill_null("?")
    symbol = source.texts(distinct["symbol"])
    names = distinct.with_columns(
        name=pl.when(pl.col("unresolved") != 0).then(pl.format("[{}]", module)).otherwise(symbol),
        note=(pl.col("unresolved") == 0) & symbol.str.contains(NOTE),
    )
    return stacks.join(names, on=key, how="left", nulls_equal=True, maintain_order="left").filter(~pl.col("note"))


FAMILY = Family(
    name="cpu_samples",
    title="CPU samples with call stacks",
    draws=(schema.CPU_SAMPLES,),
    reads={
        schema.CPU_SAMPLES: ("id", "start", "globalTid"),
        schema.CPU_STACKS: ("id", "symbol", "module", "unresolved", "stackDepth"),
    },
    emits=FRAMES,
    frames=_frames,
    makes_rows=False,
    default=False,
)
