"""CUDA API calls of host threads."""

from __future__ import annotations

import re

import polars as pl

from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.device_kinds import DeviceKind, LaunchCount
from nsys2prv.model.event_types import CUDA_API
from nsys2prv.model.global_ids import pid_of, process_of
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema


def _call_name(text: pl.Expr) -> pl.Expr:
    """Remove the version of the interface: `cudaLaunchKernel_v7000` -> `cudaLaunchKernel`."""
    return text.str.replace(r"_v\d+$", "")


# Calls that put work on a device, by the kind of work: not cudaLaunchHostFunc. Polars has no look-ahead.
LAUNCHING = {
    DeviceKind.COMPUTE: r"^cu(da)?(Launch([^H]|$)|GraphLaunch)",
    DeviceKind.COPY: r"^cu(da)?Memcpy",
    DeviceKind.MEMSET: r"^cu(da)?Memset",
    DeviceKind.GRAPH: r"^cu(da)?(Graph|StreamBeginCapture)",
}
# Calls that allocate memory, and calls that allocate, free, map or pin it.
ALLOCATING = r"^cu(da)?(Malloc|HostAlloc|Mem(Alloc|HostAlloc|Create))"
MANAGING_MEMORY = rf"{ALLOCATING}|^cu(da)?(Free|Host|Mem(Free|Map|Host))"
# Of calls for 0 bytes CUPTI records no work. They last 0.1 to 0.8 us, rarely 2; those with work 1.4 us and more
# (measured on two hosts of H200, while nsys recorded).
BRIEF_NS = 1_000
# Part of the names of calls that wait for a device, a stream or an event.
CALL_THAT_WAITS = "Synchronize"
# Errors of work that has run on the device, which any later call returns, such as CUDA_ERROR_ILLEGAL_ADDRESS (700),
# CUDA_ERROR_ASSERT (710) and CUDA_ERROR_LAUNCH_FAILED (719).
FAULTS = (700, 702, 710, *range(714, 720))
# CUDA_ERROR_NOT_READY, the answer of a query while work still runs.
NOT_READY = 600
_WORKS = re.compile("|".join([*(own for kind, own in LAUNCHING.items() if kind is not DeviceKind.GRAPH), ALLOCATING]))


def _frames(source: Source, state: None) -> Frames[None]:
    calls = source.table(schema.RUNTIME)
    _count_launches(source, calls)
    _count_failed(source, calls)
    yield source.thread_intervals(
        calls.with_columns(
            slot=source.slot(CUDA_API.key),
            value=source.label_ids(CUDA_API.key, calls["nameId"], _call_name),
        )
    )


def _count_launches(source: Source, calls: pl.DataFrame) -> None:
    """Count the calls that put work on a device, by process and kind of work."""
    done = calls.filter(pl.col("returnValue") == 0).group_by(process_of(pl.col("globalTid")), "nameId")
    brief = (pl.col("end") - pl.col("start") < BRIEF_NS).sum()
    counts, launches = done.agg(pl.len(), brief.alias("brief")), source.notes.launches
    names = source.texts(counts["nameId"])
    for process, name, *found in zip(counts["globalTid"], names, counts["len"], counts["brief"], strict=True):
        for kind in (kind for kind, pattern in LAUNCHING.items() if name and re.match(pattern, name)):
            before = launches.get((process, kind), LaunchCount())
            launches[process, kind] = LaunchCount(*(n + own for n, own in zip(before, found, strict=True)))


def _count_failed(source: Source, calls: pl.DataFrame) -> None:
    """Count calls that returned an error, by name, error and process: those whose work did not run, and others."""
    failed = calls.filter(~pl.col("returnValue").is_in([0, NOT_READY]))
    if failed.is_empty():
        return
    names = dict(source.table(schema.CUDA_RESULTS).drop_nulls().select("id", "name").rows())
    text = pl.DataFrame({"name": source.texts(failed["nameId"])}).select(_call_name(pl.col("name"))).to_series()
    by = failed.with_columns(text, process=process_of(pl.col("globalTid"))).group_by("name", "returnValue", "process")
    for name, code, process, rows in by.len().sort("name", "returnValue", "process").rows():
        error = f"{code} ({names[code]})" if code in names else str(code)
        loss = Loss.FAILED_CALL if code in FAULTS or _WORKS.match(name) else Loss.OTHER_FAILED_CALL
        source.tally.count(loss, rows, name, error, pid_of(process))


FAMILY = Family(
    name="cuda_api",
    title="CUDA API calls",
    draws=(schema.RUNTIME,),
    reads={
        schema.RUNTIME: ("start", "end", "globalTid", "nameId", "returnValue"),
        schema.CUDA_RESULTS: ("id", "name"),
    },
    emits=(CUDA_API,),
    frames=_frames,
    public=("cuda_api_trace",),
    sliced=True,
    calls="cuda",
)
