"""The kernels of each stream in order, with the iteration that launched them."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.long_steps import steps_of_ranks
from nsys2prv.analysis.iterations.phases import projected


def kernels_in_order(analysis: Analysis, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return kernels (`kernels` of a case) by device, row and start.

    They get `repeat` and `number` of the iteration (null: none). Time alone does not tell the iteration: ranks may be
    in different ones, and a device may run work of the one before.
    """
    kernels = kernels.sort("device", "row", "start")
    steps = steps_of_ranks(analysis.run, analysis.iterations)
    launched = projected(kernels.select("work", "task", "launched"), steps).select("work", "repeat", "number")
    return kernels.join(launched, on="work", how="left", maintain_order="left")
