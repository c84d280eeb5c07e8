"""Runs whose programs call MPI in another way, with the same times."""

from __future__ import annotations

from pathlib import Path

from .report import Report, Sources, close, open_copies

# The call that begins a collective lasts this long (ns); the wait begins as long after its end.
BEGINNING = 1
REQUEST = 7


def nonblocking(sources: Sources, folder: Path) -> list[Path]:
    """Let each MPI_Allreduce be an MPI_Iallreduce of 1 ns, and 1 ns later an MPI_Wait for it.

    Truth: all collectives enter and end when they did, all under one request handle. A rank waits for the others in
    MPI_Wait, 2 ns less than before, or nowhere if it waited for less.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        _begin_and_wait(report)
    return close(reports)


def _begin_and_wait(report: Report) -> None:
    texts = {name: report.value("SELECT max(id) + 1 FROM StringIds") + n for n, name in enumerate(("begin", "wait"))}
    for name, text in (("begin", "MPI_Iallreduce"), ("wait", "MPI_Wait")):
        report.run("INSERT INTO StringIds(id, value) VALUES (:id, :text)", id=texts[name], text=text)
    blocking = "textId IN (SELECT id FROM StringIds WHERE value = 'MPI_Allreduce')"
    report.run(
        'INSERT INTO MPI_START_WAIT_EVENTS (start, "end", globalTid, textId, requestHandle)'
        f' SELECT start + {2 * BEGINNING}, "end", globalTid, :wait, {REQUEST}'
        f" FROM MPI_COLLECTIVES_EVENTS WHERE {blocking}",
        wait=texts["wait"],
    )
    report.run(
        f'UPDATE MPI_COLLECTIVES_EVENTS SET "end" = start + {BEGINNING}, requestHandle = {REQUEST}, textId = :begin'
        f" WHERE {blocking}",
        begin=texts["begin"],
    )
