"""Attributes of a report's points that depend on other reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from nsys2prv.model.event_types import NCCL_COMMUNICATOR, NCCL_SEQUENCE
from nsys2prv.model.interning import MEMBER, PLACE, STREAM, THREAD
from nsys2prv.pipeline.encode.run_attributes import OfRun, with_run_attributes

PROCESSES = P, Q = 1 << 24, 2 << 24
# Threads of two processes, and streams on two GPUs of the second.
PLACES = [(THREAD, P, None), (THREAD, Q, None), (STREAM, Q, 0), (STREAM, Q, 1)]


def test_sequences_go_on_for_each_process_and_gpu() -> None:
    """Members of `a` did 100, 99 and 7 collectives before, those of `b` none; a thread may call for both GPUs."""
    members = [(P, None, "a"), (Q, 0, "a"), (Q, 1, "a"), (P, None, "b")]
    summary: Any = SimpleNamespace(
        labels={NCCL_COMMUNICATOR.key: ["b", "a"]},
        members=pl.DataFrame(
            [{"process": p, "device": d, "communicator": c} for p, d, c in members],
            schema={c: MEMBER[c] for c in ("process", "device", "communicator")},
        ),
        places=pl.DataFrame(
            [{"kind": k, "process": p, "device": d, "id": n} for n, (k, p, d) in enumerate(PLACES)], schema=PLACE
        ),
    )
    of_run = OfRun(summary, 0, SimpleNamespace(), np.array([100, 99, 7, 0]))  # type: ignore[arg-type]
    points = pl.DataFrame(
        {
            "place": [0, 1, 2, 3, 0, 0],
            "phase": [1, 1, 1, 1, 1, -1],
            "combination": [0, 0, 0, 0, 1, 0],
            NCCL_SEQUENCE.key: [1, 1, 1, 1, 1, 0],
        },
        schema_overrides={"place": pl.UInt32(), "combination": pl.UInt32()},
    )
    found = with_run_attributes(of_run, points, pl.DataFrame({NCCL_COMMUNICATOR.key: [2, 1]}))
    assert found[NCCL_SEQUENCE.key].to_list() == [101, 100, 100, 8, 1, 0]
