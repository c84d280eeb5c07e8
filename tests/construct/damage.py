"""Runs of which one rank began to record late, was slow, or lacks tables.

Where a rank takes longer, the others wait for it: the same time is inserted on each rank, so that whatever is later
stays together on the wall clock. On the slow rank it passes in kernels and in the calls that wait for these, or in its
main thread; on the others in the communication (NCCL kernels, MPI calls) that the slow rank enters late.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from .report import CALLS, DEVICE_WORK, Report, Sources, close, open_copies

KERNELS = DEVICE_WORK[0]
MPI = ("MPI_COLLECTIVES_EVENTS", "MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS")
ON_DEVICE = (*DEVICE_WORK, "GPU_METRICS", "CUDA_GPU_MEMORY_USAGE_EVENTS")
WAITS = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
)
NCCL = "(SELECT value FROM StringIds WHERE id = shortName) LIKE 'nccl%'"

Interval = tuple[int, int]


class Inserted(NamedTuple):
    """Time (ns) that is inserted at an instant of a report."""

    at: int
    ns: int


def recording_late(sources: Sources, folder: Path, rank: int, iteration: str) -> list[Path]:
    """Let the report of this rank begin in the middle of an iteration, named by its range.

    What begins before, and device work whose call does, is not in it.

    Truth: the rank lacks this iteration and all before it. Clocks, ranks and all that is later are the source's.
    """
    reports = open_copies(sources, folder)
    late = reports[rank]
    middle = sum(_range(late, iteration)) // 2
    for table in late.events:
        if table.begin:
            early = f'"{table.begin}" < {middle} AND {table.activity} AND {table.session_clock}'
            late.run(f'DELETE FROM "{table.name}" WHERE {early}')
    for table in late.events:
        if table.caused_by_call and CALLS in late.tables():
            late.run(f'DELETE FROM "{table.name}" WHERE correlationId NOT IN (SELECT correlationId FROM {CALLS})')
    return close(reports)


def sleeping(
    sources: Sources, folder: Path, rank: int, iterations: Sequence[str], ns: int, phase: str = ""
) -> list[Path]:
    """Let the main thread of this rank sleep as each iteration, or a phase within it, begins.

    Truth: this rank is late in these iterations (and this phase) by this time, in which its device does nothing; its
    kernels last as long as before. The others wait for it in their next communication.
    """
    reports = open_copies(sources, folder)
    host, device = [], []
    for iteration in iterations:
        start, end = _range(reports[rank], iteration)
        begin = start if not phase else next(s for s, _ in _ranges(reports[rank], phase) if start <= s < end)
        host.append(Inserted(begin + 1, ns))
        launched = [s for table in DEVICE_WORK for s, _ in _launched(reports[rank], begin, end, table)]
        device += [Inserted(min(launched) - 1, ns)] if launched else []
    _let_pass(reports, rank, host, device)
    return close(reports)


def slow_kernels(sources: Sources, folder: Path, rank: int, iterations: Sequence[str], ns: int) -> list[Path]:
    """Let the kernels of this rank, without those of NCCL, last longer by `ns` together in each of some iterations.

    Each kernel lasts longer by the same factor.

    Truth: useful time of the rank is longer by this in each of these iterations. Its host waits for it in the calls
    that wait for its device, the others in their next communication.
    """
    reports = open_copies(sources, folder)
    slow = reports[rank]
    device = []
    for iteration in iterations:
        kernels = _launched(slow, *_range(slow, iteration), KERNELS, f"NOT {NCCL}")
        total = sum(e - s for s, e in kernels)
        device += [Inserted((s + e) // 2, ns * (e - s) // total) for s, e in kernels]
    _let_pass(reports, rank, _where_host_waits(slow, device), device)
    return close(reports)


def rank_without(sources: Sources, folder: Path, rank: int, tables: Sequence[str]) -> list[Path]:
    """Drop tables from the report of one rank, as when it was recorded with other options.

    Truth: what these tables hold is missing of this rank. Nothing else changes.
    """
    reports = open_copies(sources, folder)
    reports[rank].drop(*tables)
    return close(reports)


def _let_pass(reports: Sequence[Report], rank: int, host: list[Inserted], device: list[Inserted]) -> None:
    """Insert time on a rank, and on the others in the communication that waits for it."""
    slow = reports[rank]
    later = _later(device if _with_nccl(slow) else host)
    entered = _communication(slow)
    # The time by which the rank enters each communication later, beyond the one before.
    late = [later(start) - start for start, _ in entered]
    more = [(end, b - a) for (_, end), a, b in zip(entered, [0, *late], late, strict=False) if b > a]
    for report in reports:
        if report is not slow:
            waits = _waiting(report, [(end + slow.utc - report.utc, ns) for end, ns in more])
            if _with_nccl(report):
                _insert(report, _where_host_waits(report, waits), waits)
            else:
                _insert(report, waits, [Inserted(_next_start(report, at), ns) for at, ns in waits])
    _insert(slow, host, device)


def _waiting(report: Report, ended: Iterable[Interval]) -> list[Inserted]:
    """Return the time that a rank waits: in the communication that ends next to each of the instants."""
    own = sorted(_communication(report), key=lambda one: one[1])
    ends = [end for _, end in own]
    work = sorted(_kernels(report, f"NOT {NCCL}")) if _with_nccl(report) else []
    waits: dict[Interval, int] = {}
    for at, ns in ended:
        place = bisect_left(ends, at)
        near = min(own[max(place - 1, 0) : place + 1], key=lambda one: abs(one[1] - at))
        waits[near] = waits.get(near, 0) + ns
    return [Inserted(_free(work, *one), ns) for one, ns in waits.items()]


def _next_start(report: Report, at: int) -> int:
    """Return the instant before the first device work that is launched after an instant."""
    return min((s - 1 for table in DEVICE_WORK for s, _ in _launched(report, at, 1 << 62, table)), default=at)


def _free(work: Sequence[Interval], start: int, end: int) -> int:
    """Return the middle of the longest time within [start, end) in which none of the work runs; else the end."""
    at, found = start, []
    for s, e in work[: bisect_left(work, (end, end))]:
        if e > start:
            found.append((s - at, (s + at) // 2))
            at = max(at, e)
    found.append((end - at, (end + at) // 2))
    longest, middle = max(found)
    return middle if longest > 1 else end


def _insert(report: Report, host: list[Inserted], device: list[Inserted]) -> None:
    """Make all times later by what was inserted before them, those of the device and those of the host."""
    report.function("host_time", 1, _later(host))
    report.function("device_time", 1, _later(device))
    for table in report.tables().values():
        side = "device_time" if table.name in ON_DEVICE else "host_time"
        terms = ", ".join(f'"{time}" = {side}("{time}")' for time in table.times if time != "rawTimestamp")
        if terms:
            report.run(f'UPDATE "{table.name}" SET {terms} WHERE {table.session_clock}')


def _later(inserted: Iterable[Inserted]) -> Callable[[int], int]:
    """Return the function that makes a time later by all that was inserted before it."""
    ordered = sorted(inserted)
    instants = [one.at for one in ordered]
    sums = [0, *accumulate(one.ns for one in ordered)]
    return lambda time: time if time is None else time + sums[bisect_left(instants, time)]


def _where_host_waits(report: Report, device: list[Inserted]) -> list[Inserted]:
    """Return the same time in the calls that wait for the device; time for which none waits is not passed on."""
    if not device or CALLS not in report.tables():
        return []
    names = ", ".join(f"'{name}'" for name in WAITS)
    waits: list[Interval] = report.rows(
        f'SELECT start, "end" FROM {CALLS} JOIN StringIds s ON s.id = nameId'
        f" WHERE rtrim(rtrim(s.value, '0123456789'), '_v') IN ({names}) ORDER BY start"
    )
    ends = [end for _, end in waits]
    ns = [0] * len(waits)
    for one in device:
        place = bisect_right(ends, one.at)
        if place < len(waits):
            ns[place] += one.ns
    return [Inserted((s + e) // 2, more) for (s, e), more in zip(waits, ns, strict=True) if more]


def _with_nccl(report: Report) -> bool:
    """Return True if the ranks communicate by NCCL's kernels; else they do by MPI calls."""
    return bool(_kernels(report, NCCL))


def _communication(report: Report) -> list[Interval]:
    """Return begin and end of all communication, in order."""
    return sorted(_kernels(report, NCCL) or _calls_of_mpi(report))


def _calls_of_mpi(report: Report) -> Iterator[Interval]:
    for table in report.tables():
        if table in MPI:
            yield from report.rows(f'SELECT start, "end" FROM {table}')


def _kernels(report: Report, which: str) -> list[Interval]:
    """Return begin and end of the kernels that fulfill a condition."""
    return report.rows(f'SELECT start, "end" FROM {KERNELS} WHERE {which}') if KERNELS in report.tables() else []


def _launched(report: Report, start: int, end: int, table: str, which: str = "1") -> list[Interval]:
    """Return begin and end of the device work of a table whose calls began in a time."""
    if table not in report.tables():
        return []
    calls = f"SELECT correlationId FROM {CALLS} WHERE start >= {start} AND start < {end}"
    return report.rows(f'SELECT start, "end" FROM {table} WHERE {which} AND correlationId IN ({calls})')


def _ranges(report: Report, text: str) -> list[Interval]:
    """Return begin and end of all ranges of a text, in order."""
    return report.rows(
        'SELECT start, "end" FROM NVTX_EVENTS WHERE "end" IS NOT NULL'
        " AND coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) = :text ORDER BY start",
        text=text,
    )


def _range(report: Report, text: str) -> Interval:
    """Return begin and end of the first range of a text."""
    return _ranges(report, text)[0]
