"""Clocks: from each report's session time to the time of the trace."""

from __future__ import annotations

from nsys2prv.run.clocks.alignment import Align, Alignment, ReportClock, align
from nsys2prv.run.clocks.clock import Clock
from nsys2prv.run.clocks.offsets import Offsets, read_offsets

__all__ = ["Align", "Alignment", "Clock", "Offsets", "ReportClock", "align", "read_offsets"]
