"""Attributes that depend on other reports: on the ranks of a communicator, or on earlier parts of a process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.families.nccl.bandwidth import bandwidths
from nsys2prv.intervals.spans import Indices
from nsys2prv.model import event_types as types
from nsys2prv.run.matching.communicators import COMMUNICATOR_BESIDE, Communicators
from nsys2prv.run.report_summary import Summary

_ALGORITHM, _BUS = types.NCCL_ALGORITHM_BANDWIDTH.key, types.NCCL_BUS_BANDWIDTH.key


class ReportInRun(NamedTuple):
    """A report by its number, and the run's facts on its communicators. `before`: see Matches, for this report."""

    summary: Summary
    number: int
    communicators: Communicators
    before: Indices


def with_run_attributes(report: ReportInRun, points: pl.DataFrame, combinations: pl.DataFrame) -> pl.DataFrame:
    """Set bandwidths by the number of ranks, and sequence numbers over all reports of a process.

    `combinations`: rows that the points' column `combination` numbers. Only begins change: ends set everything to 0.
    """
    begins, at = pl.col("phase") > 0, points["combination"]
    summary = report.summary
    changes = []
    for sequence, communicator in COMMUNICATOR_BESIDE.items():
        if sequence in points.columns and report.before.any():
            before = pl.Series(_by_label(summary, communicator, report.before)).gather(
                combinations[communicator].fill_null(0).gather(at)
            )
            changes.append(pl.when(begins).then(pl.col(sequence) + before).otherwise(sequence).alias(sequence))
    if _BUS in points.columns:
        ranks = report.communicators.ranks[report.communicators.number[report.number]]
        algorithm, bus = bandwidths(
            points[_ALGORITHM],
            combinations[types.NCCL_OPERATION.key].gather(at),
            _by_label(summary, types.NCCL_COMMUNICATOR.key, ranks)[
                combinations[types.NCCL_COMMUNICATOR.key].fill_null(0).gather(at).to_numpy()
            ],
        )
        rates = {_ALGORITHM: algorithm, _BUS: bus.round().cast(pl.Int64, strict=False)}
        changes += [pl.when(begins).then(rate).otherwise(key).alias(key) for key, rate in rates.items()]
    return points.with_columns(changes)


def _by_label(summary: Summary, key: str, of_member: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the highest number among a communicator's members by the report's label of it (0: no label)."""
    highest = dict(sorted(zip(summary.members["communicator"], of_member.tolist(), strict=True)))
    return np.array([0, *(highest.get(name, 0) for name in summary.labels.get(key, ()))], dtype=np.int64)
