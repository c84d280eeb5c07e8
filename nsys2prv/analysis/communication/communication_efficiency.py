"""Communication efficiency of the devices taken apart: serialization (waiting for other ranks) x transfer.

With K_d and B_d as in `efficiency`, and R_d the time in which device d does anything but only wait for other ranks:

    communication = max K / max B = [max R / max B] x [max K / max R] = serialization x transfer

POP's method has the same two factors, from a simulated network without cost
(https://pop-coe.eu/further-information/efficiency-metrics); here they are measured.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.efficiency import Efficiency
from nsys2prv.analysis.frames import NCCL, Run
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans


class CommunicationEfficiency(NamedTuple):
    """Factors of the communication efficiency (fractions of 1). `transfer` holds also copies and memsets."""

    serialization: float
    transfer: float


def communication_efficiency(
    run: Run, exchanges: pl.DataFrame, window: Spans, whole: Efficiency
) -> CommunicationEfficiency | None:
    """Return the factors inside a window, None where nothing computes. `exchanges`: see waiting.EXCHANGE.

    `whole`: the efficiency of the same window with NCCL as communication.
    """
    most = max((t.useful_ns for t in whole.devices), default=0)
    if not most:
        return None
    moving = exchanges.filter(pl.col("kind") == NCCL).select("device", "end", start="ready")
    others = run.work.filter(pl.col("kind") != NCCL).select("device", "end", "start")
    axis = axis_over(window, len(run.devices))
    spans = covered_by(axis, pl.concat([others, moving]), "device", window)
    running = int(axis.sums(spans).max())
    busy = max(t.busy_ns for t in whole.devices)
    return CommunicationEfficiency(running / busy, most / running)
