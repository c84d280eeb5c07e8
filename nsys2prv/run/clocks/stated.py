"""Stated clocks: the wall clock at each session start, and a host's own clock if it is known."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from nsys2prv.report.identity import Identity
from nsys2prv.run.clocks.clock import Clock
from nsys2prv.run.hosts import Host

# Largest difference between UTC and a host's own clock from one session start to another. Another clock, such as a
# container's own, is off by seconds; a clock under NTP by far less than this.
SYSTEM_CLOCK_TOLERANCE = 100_000_000


def stated_clocks(identities: Sequence[Identity], hosts: Sequence[Host]) -> tuple[list[Clock], list[str]]:
    """Return a clock for each report by the wall clock at its session start, and warnings.

    The earliest session is 0.

    An export with shifted times has the session start at EXPORT_CONFIG_TIME_SHIFT instead of 0: the clock starts there.
    Reports of a host are aligned with each other by its monotonic clock if all of them state it, and it agrees with UTC
    to 0.1 s: UTC may be set between two session starts, or be missing in a report. A report without a clock begins with
    the earliest session.
    """
    starts, warnings = _session_starts(identities, hosts)
    known = [s for s in starts if s is not None]
    if not known:
        lone = len(identities) < 2
        return unstated_clocks(identities), [] if lone else ["no report has a wall clock: all sessions begin at once"]
    earliest = min(known)
    missing = len(starts) - len(known)
    if missing:
        warnings.append(f"{missing} of {len(starts)} reports have no wall clock: they begin with the earliest session")
    return [
        Clock(i.time_shift_ns, 0 if s is None else s - earliest, method="none" if s is None else "utc")
        for i, s in zip(identities, starts, strict=True)
    ], warnings


def unstated_clocks(identities: Sequence[Identity]) -> list[Clock]:
    """Return clocks that let all sessions begin at once."""
    return [Clock(i.time_shift_ns, 0, method="none") for i in identities]


def _session_starts(identities: Sequence[Identity], hosts: Sequence[Host]) -> tuple[list[int | None], list[str]]:
    """Return the UTC (ns) of each session start, and warnings.

    Within a host its monotonic clock counts if it agrees with UTC."""
    starts = [i.utc_epoch_ns for i in identities]
    warnings = []
    for host in hosts:
        members = [identities[r] for r in host.reports]
        ahead = [m.utc_epoch_ns - m.system_clock_ns for m in members if m.utc_epoch_ns and m.system_clock_ns]
        if not ahead or any(m.system_clock_ns is None for m in members) or len(members) < 2:
            continue
        if max(ahead) - min(ahead) > SYSTEM_CLOCK_TOLERANCE:
            spread = (max(ahead) - min(ahead)) / 1e9
            warnings.append(
                f"{host.name}: the reports' system clocks and UTC differ by {spread:.3f} s; UTC is taken "
                "(containers may have a clock of their own)"
            )
            continue
        utc = median_low(ahead)
        for report, member in zip(host.reports, members, strict=True):
            starts[report] = (member.system_clock_ns or 0) + utc
    return starts, warnings
