"""Options to leave out or reduce data."""

from __future__ import annotations

from typing import NamedTuple


class Reduction(NamedTuple):
    """Data that the user can do without.

    `min_duration`: intervals that last less (ns) are left out; `metrics_every`: GPU metrics are averaged over periods
    of so many ns, 0: not; `merge_streams`: all streams of a process on one device share rows.
    """

    min_duration: int = 0
    metrics_every: int = 0
    merge_streams: bool = False


ALL = Reduction()
