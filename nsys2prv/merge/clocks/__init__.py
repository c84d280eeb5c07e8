"""Clocks: from each report's session time to the time of the trace."""

from __future__ import annotations

from nsys2prv.merge.clocks.alignment import Align, Alignment, ReportClock, align
from nsys2prv.merge.clocks.clock import Clock
from nsys2prv.merge.clocks.offsets import Offsets, read_offsets

__all__ = ["Align", "Alignment", "Clock", "Offsets", "ReportClock", "align", "read_offsets"]
