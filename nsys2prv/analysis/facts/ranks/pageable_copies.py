"""A rank that is late as it copies pageable memory: its host waits for each copy."""

from __future__ import annotations

import re

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.hosts.pinned_memory import PIN
from nsys2prv.analysis.facts.ranks.chief_cause import ChiefCause
from nsys2prv.analysis.frames import COPY
from nsys2prv.analysis.graph.critical_path import COPYING
from nsys2prv.analysis.graph.host_labels import call_of
from nsys2prv.analysis.interval_frames import whole_with_ns
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.host.cuda_api import LAUNCHING
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.units import text_ms

_FROM_PAGEABLE = text_contains("memory", "^Pageable")


def advice_on_pageable(case: Case, rank: int, cause: ChiefCause | None) -> str:
    """Return what to do about a rank that is late as it copies pageable memory to its device; else "".

    Its copies on the device take half of the delay or more: the host waits for each of them.
    """
    if cause is None or not (cause.kind == COPYING or re.match(LAUNCHING[DeviceKind.COPY], call_of(cause.name))):
        return ""
    copies = case.run.work.filter(pl.col("kind") == COPY, _FROM_PAGEABLE, task=case.run.task_by_rank[rank])
    ns = int(whole_with_ns(copies, case.analysis.window.spans)["ns"].sum()) / case.step_count
    if not ns or 2 * ns < cause.ns:
        return ""
    return (
        f"Rank {rank} copies pageable memory, {text_ms(ns)} {case.unit}, and its host waits for each copy. "
        f"{PIN.of(case.framework)}"
    )
