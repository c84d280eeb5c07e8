"""Parameters of reductions: least duration of events, period of averages, merged streams."""

from __future__ import annotations

from typing import NamedTuple


class Reduction(NamedTuple):
    """Reductions that the user asks for.

    `min_duration`: shorter intervals (ns) are dropped; `metrics_every`: GPU metrics are averaged over periods of so
    many ns, 0 for not at all; `merge_streams`: all streams of a process on one device share rows.
    """

    min_duration: int = 0
    metrics_every: int = 0
    merge_streams: bool = False


UNREDUCED = Reduction()
