"""Figures of Nsight Compute as events on the kernels of a trace."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nsys2prv.analysis.frames import Run, kernels_of
from nsys2prv.analysis.ncu.join import CLASS, SAME
from nsys2prv.families.whole_run import NCU_FAMILY
from nsys2prv.model.event_type import EventType
from nsys2prv.model.limits import Limits
from nsys2prv.model.losses import Loss, Lost
from nsys2prv.model.ncu_types import NCU_FIGURES, NCU_JOINED, NCU_STALL, OTHER_STALL
from nsys2prv.paraver.labels import PcfType
from nsys2prv.pipeline.encode.encoding_input import RunEvents
from nsys2prv.pipeline.store.points import Points, row_points
from nsys2prv.pipeline.store.spill import SpillOf, write_spill


def profiled_events(run: Run, least: int, folder: Path, limits: Limits) -> RunEvents:
    """Make the events of all kernels with figures (see join.with_profiles), and store them in `folder`.

    Kernels that last less than `least` ns are not drawn, and are not counted. As of other attributes, figures of 0 are
    not written. Raises OutputError.
    """
    assert run.figures is not None
    kernels = kernels_of(run.work, least)
    values = run.figures.with_row_index("figures").select("figures", *_values())
    joined = kernels.drop_nulls("joined").join(values, on="figures", how="left", maintain_order="left")
    placed = joined.with_columns(combination=pl.col("joined").cast(pl.Int64))
    types = (*NCU_FIGURES.values(), NCU_STALL)
    columns = [event_type.key for event_type in types]
    spill = None
    if placed.height:
        of, points = SpillOf("events", NCU_FAMILY.name, tuple(columns)), Points(row_points(placed, columns))
        spill = write_spill(folder / "ncu.arrow", of, points, limits.batch_rows)
    further = {event_type.key: _pcf(event_type) for event_type in types}
    counted = dict(kernels.group_by("joined").len().rows())
    reasons = {None: Loss.NO_PROFILE, SAME: Loss.SAME_KERNEL, CLASS: Loss.SAME_CLASS}
    left = {Lost(loss): counted[how] for how, loss in reasons.items() if counted.get(how)}
    return RunEvents(NCU_FAMILY.name, spill, _pcf(NCU_JOINED), further, left)


def _values() -> list[pl.Expr]:
    """Return the values of events from FIGURES; null where there is none, or 0."""
    numbers = [
        (pl.col(column) * 10**event_type.precision).round().cast(pl.Int64).replace(0, None).alias(event_type.key)
        for column, event_type in NCU_FIGURES.items()
    ]
    reasons = {text: n for n, text in NCU_STALL.values.items()}
    stall = pl.col("stall").replace_strict(reasons, default=OTHER_STALL, return_dtype=pl.Int64)
    return [*numbers, pl.when(pl.col("stall").is_not_null()).then(stall).alias(NCU_STALL.key)]


def _pcf(event_type: EventType) -> PcfType:
    values = {0: event_type.ended, **event_type.values} if event_type.values else {}
    return PcfType(event_type.number, event_type.label, values, event_type.precision)
