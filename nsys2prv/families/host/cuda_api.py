"""CUDA API calls of host threads."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.family import Family, Frames, Source
from nsys2prv.model.event_types import CUDA_API
from nsys2prv.report import schema


def _call_name(text: pl.Expr) -> pl.Expr:
    """Remove the version of the interface: `cudaLaunchKernel_v7000` -> `cudaLaunchKernel`."""
    return text.str.replace(r"_v\d+$", "")


def _frames(source: Source, state: None) -> Frames[None]:
    calls = source.table(schema.RUNTIME)
    yield source.thread_intervals(
        calls.with_columns(
            slot=pl.lit(source.slots.number(CUDA_API.key)),
            value=source.label_ids(CUDA_API.key, calls["nameId"], _call_name),
        )
    )


FAMILY = Family(
    name="cuda_api",
    title="CUDA API calls",
    draws=(schema.RUNTIME,),
    reads={schema.RUNTIME: ("start", "end", "globalTid", "nameId")},
    emits=(CUDA_API,),
    frames=_frames,
    public=("cuda_api_trace",),
    sliced=True,
    calls="cuda",
)
