"""Calls of cuBLAS and cuDNN on host threads."""

from __future__ import annotations

from functools import partial

from nsys2prv.families.calls import COLUMNS, call_intervals
from nsys2prv.families.family import Family, Frames
from nsys2prv.families.source import Source
from nsys2prv.model.event_type import EventType
from nsys2prv.model.event_types import CUBLAS_CALL, CUDNN_CALL
from nsys2prv.report import schema
from nsys2prv.report.declaration import Table


def _frames(source: Source, state: None, table: Table, event_type: EventType) -> Frames[None]:
    yield call_intervals(source, [table], event_type)


def _family(name: str, title: str, table: Table, event_type: EventType) -> Family:
    return Family(
        name=name,
        title=title,
        draws=(table,),
        reads={table: COLUMNS},
        emits=(event_type,),
        frames=partial(_frames, table=table, event_type=event_type),
        seen=False,
        sliced=True,
    )


CUBLAS_FAMILY = _family("cublas", "cuBLAS calls", schema.CUBLAS, CUBLAS_CALL)
CUDNN_FAMILY = _family("cudnn", "cuDNN calls", schema.CUDNN, CUDNN_CALL)
