"""Reports whose clock says something else."""

from __future__ import annotations

from pathlib import Path

from .report import Sources, close, open_copies


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
