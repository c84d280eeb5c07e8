"""Reports whose clock says something else."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from .report import Report, Sources, close, listed, open_copies

KERNELS, MPI_COLLECTIVES = "CUPTI_ACTIVITY_KIND_KERNEL", "MPI_COLLECTIVES_EVENTS"


def with_clock(sources: Sources, folder: Path, utc_shift_ns: int = 0, stretch_ppm: float = 0.0) -> list[Path]:
    """Give the reports' host a clock that is ahead by `utc_shift_ns` and runs fast by `stretch_ppm`.

    `utcEpochNs` becomes later by the shift; each session time t becomes t + round(t * stretch_ppm / 10^6), halves away
    from zero, so the session start is the fixed point.

    Truth: aligned to the true clock with offset -utc_shift_ns and slope 1 / (1 + stretch_ppm / 10^6) about the session
    start, each time is the source's, to 1 ns (exactly when stretch_ppm is 0).
    """
    reports = open_copies(sources, folder)
    for report in reports:
        if stretch_ppm:
            report.change_times(lambda time: f"{time} + CAST(round({time} * :ppm / 1e6) AS INTEGER)", ppm=stretch_ppm)
        report.move_session_start(utc_shift_ns)
    return close(reports)


def normalized(sources: Sources, folder: Path, extra_shift: int = 0) -> list[Path]:
    """Make the reports as `nsys export --ts-normalize=true --ts-shift=EXTRA` writes them.

    Event times are UTC ns (plus the extra shift) while `utcEpochNs` stays, and `META_DATA_EXPORT` holds the whole shift
    as `EXPORT_CONFIG_TIME_SHIFT`. A metric's raw timestamp stays.

    Truth: a time less `EXPORT_CONFIG_TIME_SHIFT` is the source's time, so the trace is the source's, byte for byte.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        shift = report.utc + extra_shift
        report.change_times(lambda time: f"{time} + :shift", skip=("rawTimestamp",), shift=shift)
        said = {
            "EXPORT_PARAM_TIME_NORMALIZE": "true",
            "EXPORT_PARAM_TIME_SHIFT": str(extra_shift),
            "EXPORT_CONFIG_TIME_SHIFT": str(shift),
        }
        for name, value in said.items():
            report.run("DELETE FROM META_DATA_EXPORT WHERE name = :name", name=name)
            report.run("INSERT INTO META_DATA_EXPORT(name, value) VALUES (:name, :value)", name=name, value=value)
    return close(reports)


def on_hosts(sources: Sources, folder: Path, names: Sequence[str]) -> list[Path]:
    """Let the k-th report have been recorded on the host of the k-th name, with GPUs that no other host has.

    Truth: as many hosts as names; times and ranks are the sources'.
    """
    reports = open_copies(sources, folder)
    for report, name in zip(reports, names, strict=True):
        report.run("UPDATE TARGET_INFO_SYSTEM_ENV SET value = :name WHERE name = 'Hostname'", name=name)
        report.run("UPDATE META_DATA_CAPTURE SET value = :name WHERE name = 'DEVICE_DISPLAY_NAME'", name=name)
        if "TARGET_INFO_GPU" in report.tables():
            report.run("UPDATE TARGET_INFO_GPU SET uuid = uuid || :name", name=f"-{name}")
    return close(reports)


def on_many_hosts(sources: Sources, folder: Path, count: int) -> list[Path]:
    """Copy every report `count` times, each copy as `on_hosts` on a host of its own, with the number in its name.

    Truth: as many hosts as files; times and ranks are the sources'.
    """
    made = []
    for source in listed(sources):
        for number in range(count):
            (copy,) = on_hosts(source, folder / "one", [f"{source.stem}-{number:04}"])
            made.append(copy.replace(folder / f"{source.stem}.{number:04}{source.suffix}"))
    return made


def began_later(sources: Sources, folder: Path, by_ns: int) -> list[Path]:
    """Let the sessions have begun later: their times are less by `by_ns`, `utcEpochNs` is later by it.

    Truth: on the wall clock nothing changed; what was recorded before the session start has a negative time.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        report.change_times(lambda time: f"{time} - :by", by=by_ns)
        report.move_session_start(by_ns)
    return close(reports)


def without_wall_clock(sources: Sources, folder: Path, system_ahead_ns: int | None = None) -> list[Path]:
    """Remove what the reports say of UTC at their session start, as exports that lack the table do.

    With `system_ahead_ns` they say instead when that was on their host's monotonic clock, which is UTC plus this.

    Truth: times within a report are the source's. Where the sessions lie only other reports tell: by collectives, or by
    the monotonic clock where another report of the host states both.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        begin = report.utc
        report.drop("TARGET_INFO_SESSION_START_TIME")
        if system_ahead_ns is not None:
            report.run("CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, systemClockNs INTEGER)")
            report.run("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (NULL, :at)", at=begin + system_ahead_ns)
    return close(reports)


def stepped(sources: Sources, folder: Path, by_ns: int, at_fraction: float = 0.5) -> list[Path]:
    """Set the reports' clock in mid-run: from an instant on it is ahead by `by_ns`.

    The instant is where this fraction of the first report's collectives has ended, the same on the wall clock for all.

    Truth: aligned by one offset a report, times before or after the instant are wrong by `by_ns`.
    """
    reports = open_copies(sources, folder)
    ends = sorted(end for table in _collectives(reports[0]) for end in _ends(reports[0], *table))
    instant = ends[int(len(ends) * at_fraction)] + 1 + reports[0].utc
    for report in reports:
        later = "CASE WHEN {0} >= :at THEN {0} + :by ELSE {0} END"
        report.change_times(later.format, at=instant - report.utc, by=by_ns)
    return close(reports)


def jittered(sources: Sources, folder: Path, sigma_ns: float, seed: int = 0) -> list[Path]:
    """Move the end of each collective (NCCL kernel, MPI collective) by a normal deviate, but not before its begin.

    Truth: the clock is the sources'.
    """
    reports = open_copies(sources, folder)
    for number, report in enumerate(reports):
        dice = random.Random(1000 * seed + number)
        _move_ends(report, partial(_normal, dice, sigma_ns))
    return close(reports)


def straggling(sources: Sources, folder: Path, up_to_ns: int, seed: int = 0) -> list[Path]:
    """Let the reports be late in every collective: its end is later by up to `up_to_ns`, evenly distributed.

    Truth: the clock is the sources'.
    """
    reports = open_copies(sources, folder)
    for number, report in enumerate(reports):
        dice = random.Random(1000 * seed + number)
        _move_ends(report, partial(_even, dice, up_to_ns))
    return close(reports)


def entering_late(sources: Sources, folder: Path, share: float = 0.9) -> list[Path]:
    """Let the reports enter every collective late: it begins when only a part (1 - share) of its duration is left.

    Truth: the clock is the sources', and so is when everybody leaves.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        for table, which in _collectives(report):
            late = f'start + CAST(("end" - start) * {share} AS INTEGER)'
            report.run(f"UPDATE {table} SET start = {late} WHERE {which}")
    return close(reports)


def without_communicator(sources: Sources, folder: Path, communicator: int) -> list[Path]:
    """Remove the host ranges of NCCL calls on a communicator, as when they were not traced.

    Truth: nothing tells which collectives of the reports ran on it.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        texts = "SELECT id FROM StringIds WHERE value LIKE :like"
        report.run(
            f"DELETE FROM NVTX_EVENTS WHERE jsonText LIKE :like OR jsonTextId IN ({texts})", like=f"%{communicator}%"
        )
    return close(reports)


def few_collectives(sources: Sources, folder: Path, keep: int) -> list[Path]:
    """Keep only the first NCCL kernels of each report, by begin.

    Truth: the clock is the sources'; the k-th collective of a communicator stays the k-th.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        for table, which in _collectives(report):
            first = f"SELECT rowid FROM {table} WHERE {which} ORDER BY start LIMIT {keep}"
            report.run(f"DELETE FROM {table} WHERE {which} AND rowid NOT IN ({first})")
    return close(reports)


def _collectives(report: Report) -> list[tuple[str, str]]:
    """Tables that hold collectives, each with the condition on its rows."""
    nccl = "shortName IN (SELECT id FROM StringIds WHERE value LIKE 'nccl%')"
    known = {KERNELS: nccl, MPI_COLLECTIVES: "1"}
    return [(table, which) for table, which in known.items() if table in report.tables()]


def _ends(report: Report, table: str, which: str) -> list[int]:
    return [int(end) for (end,) in report.rows(f'SELECT "end" FROM {table} WHERE {which}')]


def _normal(dice: random.Random, sigma_ns: float) -> int:
    return round(dice.gauss(0, sigma_ns))


def _even(dice: random.Random, up_to_ns: int) -> int:
    return round(dice.uniform(0, up_to_ns))


def _move_ends(report: Report, by: Callable[[], int]) -> None:
    report.function("by", 0, by)
    for table, which in _collectives(report):
        report.run(f'UPDATE {table} SET "end" = max(start, "end" + by()) WHERE {which}')
