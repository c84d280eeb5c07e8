"""Reports whose tables lie otherwise: rows in another order, tables missing."""

from __future__ import annotations

import random
from pathlib import Path

from .report import CALLCHAINS, SAMPLE_CHAINS, Report, Sources, close, open_copies


def shuffled(sources: Sources, folder: Path, seed: int = 0) -> list[Path]:
    """Put the rows of every table in random order, the same for the same seed, with rowids to match.

    Tables whose primary key is the rowid (StringIds, COMPOSITE_EVENTS) can have no other order. The export says
    `EXPORT_PARAM_USE_SHUFFLE`, as versions that shuffle do.

    Truth: the same trace, byte for byte. Rows that are alike but for their order (equal begin and end on one thread)
    are ties that only a stable rule of the reader can break.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        dice = random.Random(seed)
        report.function("dice", 0, dice.random)
        for table in report.tables().values():
            if table.key is None:
                _shuffle(report, table.name)
        report.run("INSERT INTO META_DATA_EXPORT(name, value) VALUES ('EXPORT_PARAM_USE_SHUFFLE', 'true')")
    return close(reports)


def without_table(sources: Sources, folder: Path, table: str) -> list[Path]:
    """Drop one table from each report, as when its family was not traced.

    Truth: the trace lacks that family, and the relations that need it; nothing else changes.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        report.run(f'DROP TABLE "{table}"')
    return close(reports)


def no_events(sources: Sources, folder: Path) -> list[Path]:
    """Drop every event table, as an export does when nothing was recorded; all definitions stay.

    Truth: a valid report of a known host, process and session start in which nothing happened.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        report.drop(*(table.name for table in report.events), *CALLCHAINS, SAMPLE_CHAINS)
    return close(reports)


def _shuffle(report: Report, name: str) -> None:
    report.run(f'CREATE TEMP TABLE pile AS SELECT * FROM main."{name}" ORDER BY dice()')
    report.run(f'DELETE FROM main."{name}"')
    report.run(f'INSERT INTO main."{name}" SELECT * FROM pile ORDER BY rowid')
    report.run("DROP TABLE pile")
