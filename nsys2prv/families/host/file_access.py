"""Accesses of threads to files: the call, the file and the bytes."""

from __future__ import annotations

import polars as pl

from nsys2prv.families.calls import UNNAMED, on_threads
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_types import ACCESSED_BYTES, ACCESSED_FILE, FILE_ACCESS
from nsys2prv.model.global_ids import IDS_PER_FIELD, pid_of, tid_of
from nsys2prv.report import schema

ATTRIBUTES = (ACCESSED_FILE.key, ACCESSED_BYTES.key)


def _frames(source: Source, state: None) -> Frames[None]:
    files = source.table(schema.FILES).unique("fileAccessId", keep="first", maintain_order=True)
    accesses = source.table(schema.FILE_ACCESS).join(files, on="fileAccessId", how="left", maintain_order="left")
    accesses = on_threads(source, accesses.with_columns(_global_thread(source, accesses)))
    frame = accesses.with_columns(
        source.labels.ids(ACCESSED_FILE.key, accesses["filePath"]).alias(ACCESSED_FILE.key),
        pl.col("bytesProcessed").alias(ACCESSED_BYTES.key),
        slot=source.slot(FILE_ACCESS.key),
        value=source.label_ids(FILE_ACCESS.key, accesses["apiCallId"], lambda text: text.fill_null(UNNAMED)),
    )
    yield source.thread_intervals(frame, ATTRIBUTES)


def _global_thread(source: Source, accesses: pl.DataFrame) -> pl.Series:
    """Return the globalTid of each access, from the ids that the system gave process and thread."""
    processes = {p.pid: p.global_pid for p in source.report.identity.processes}
    # A process that the report does not list has its own id, on no host.
    known = {
        pid: processes.get(pid, pid * IDS_PER_FIELD)
        for pid in accesses.select(_plain("processId")).to_series().drop_nulls().unique()
    }
    process = _plain("processId").replace_strict(known, default=None, return_dtype=pl.Int64)
    return accesses.select(globalTid=process + tid_of(pl.col("threadId"))).to_series()


def _plain(column: str) -> pl.Expr:
    """Return the system's id of processes, which may stand as a globalPid."""
    return pl.when(pl.col(column) >= IDS_PER_FIELD).then(pid_of(pl.col(column))).otherwise(column)


FAMILY = Family(
    name="file_access",
    title="File accesses",
    draws=(schema.FILE_ACCESS,),
    reads={
        schema.FILE_ACCESS: ("start", "end", "fileAccessId", "threadId", "apiCallId", "bytesProcessed"),
        schema.FILES: ("fileAccessId", "processId", "filePath"),
    },
    emits=(FILE_ACCESS, ACCESSED_FILE, ACCESSED_BYTES),
    frames=_frames,
    makes_rows=False,
    seen=False,
)
