"""All kernels of a run in the order of their launches, with the facts that Nsight Compute has of each kernel, too."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import KERNEL, NCCL, TEXT
from nsys2prv.analysis.gather.stored_intervals import KINDS, analyzed_spills, label_texts, merged_intervals
from nsys2prv.analysis.gather.work_of_run import ACTIVITY_KEY, kernel_kinds, launch_times
from nsys2prv.model import event_types as types
from nsys2prv.report.ncu.names import name_key
from nsys2prv.run.plan import Plan

# An attribute of kernels that is stored whole for this alone.
FULL_NAME = types.KERNEL_FULL_NAME.key
# Columns of the size of a kernel -> attribute that holds it.
SIZES = {
    **{f"grid{axis}": t.key for axis, t in zip("XYZ", types.GRID, strict=True)},
    **{f"block{axis}": t.key for axis, t in zip("XYZ", types.BLOCK, strict=True)},
}
# Columns that tell kernels of one name apart.
SHAPE = (*SIZES, "registers")
# Kernels of the run. `sort`: a number that kernels of one name and SHAPE share; `key`, `short_key`: spellings of the
# full and the short name (see report.ncu.names); `row` and `start` find a kernel in WORK.
ORDERED_LAUNCH = {
    "task": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "key": TEXT,
    "short_key": TEXT,
    "class": TEXT,
    **dict.fromkeys(SHAPE, pl.Int64()),
    "sort": pl.UInt32(),
}


def kernel_launches(plan: Plan) -> pl.DataFrame:
    """Return ORDERED_LAUNCH of all kernels, by task in the order of their launches, then of start.

    A kernel whose launch the report lacks is taken to be launched when it began.
    """
    kinds = {family: kind for family, kind in KINDS.items() if kind in (KERNEL, NCCL)}
    columns = {c: t for c, t in ORDERED_LAUNCH.items() if c != "sort"}
    parts = [pl.DataFrame(schema={**columns, "launched": pl.Int64()})]
    for r, summary in enumerate(plan.summaries):
        called = launch_times(plan, r)
        for kind, spill in analyzed_spills(summary, kinds):
            frame = merged_intervals(plan, r, spill, None)
            for real, part in kernel_kinds(plan, r, kind, frame) if frame.height else ():
                parts.append(
                    _launches(plan, r, real, part)
                    .join(called, on=list(ACTIVITY_KEY), how="left")
                    .select(
                        *(pl.col(c).cast(t) for c, t in columns.items()),
                        pl.coalesce("launched", "start").alias("launched"),
                    )
                )
    # Two reports of one process may hold the same kernel.
    once = pl.concat(parts).unique(["row", "start"], keep="first", maintain_order=True)
    alike = pl.struct(pl.col("key", "short_key").to_physical(), *SHAPE).rank("dense")
    ordered = once.sort("task", "launched", "start", maintain_order=True)
    return ordered.with_columns(alike.cast(ORDERED_LAUNCH["sort"]).alias("sort")).select(list(ORDERED_LAUNCH))


def _launches(plan: Plan, r: int, kind: str, part: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of ORDERED_LAUNCH and `time` of kernels of one kind of a report."""
    short = label_texts(plan, r, {KERNEL: types.KERNEL, NCCL: types.NCCL_KERNEL}[kind].key, part["value"])
    full, of_class = (label_texts(plan, r, key, part[key]) for key in (FULL_NAME, types.KERNEL_CLASS.key))
    texts = {"key": _keys(full), "short_key": _keys(short), "class": of_class}
    sizes = {column: pl.col(key) for column, key in SIZES.items()}
    return part.with_columns(**texts, **sizes, registers=pl.col(types.REGISTERS.key))


def _keys(names: pl.Series) -> pl.Series:
    """Return the spelling of names, each distinct name once through the rules."""
    distinct = pl.DataFrame({"name": names.unique()})
    texts = distinct.select("name", key=name_key(pl.col("name").cast(pl.String)).cast(TEXT))
    return names.to_frame("name").join(texts, on="name", how="left", maintain_order="left")["key"]
