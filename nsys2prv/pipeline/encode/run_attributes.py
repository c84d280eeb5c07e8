"""What an attribute's value needs to know of the other reports: ranks of a communicator, earlier parts of a process."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.model import event_types as types
from nsys2prv.pipeline.encode.bandwidth import bandwidths
from nsys2prv.run.matching.communicators import Communicators
from nsys2prv.run.report_summary import Summary

# Type of a sequence number, and of the communicator beside it.
_SEQUENCES = {
    types.NCCL_SEQUENCE.key: types.NCCL_COMMUNICATOR.key,
    types.MPI_SEQUENCE.key: types.MPI_COMMUNICATOR.key,
}
_ALGORITHM, _BUS = types.NCCL_ALGORITHM_BANDWIDTH.key, types.NCCL_BUS_BANDWIDTH.key


def known_of_the_run(
    communicators: Communicators, report: int, summary: Summary, points: pl.DataFrame, combinations: pl.DataFrame
) -> pl.DataFrame:
    """Points of a report with bandwidths by the number of ranks, and sequence numbers over all reports of a process.

    `combinations`: what points have in common, by their column `combination`. Begins are changed; ends, which set
    everything to 0, are not.
    """
    begins, at = pl.col("phase") > 0, points["combination"]
    changes = []
    for sequence, communicator in _SEQUENCES.items():
        if sequence in points.columns and communicators.before[report].any():
            before = pl.Series(_by_label(summary, communicator, communicators.before[report])).gather(
                combinations[communicator].fill_null(0).gather(at)
            )
            changes.append(pl.when(begins).then(pl.col(sequence) + before).otherwise(sequence).alias(sequence))
    if _BUS in points.columns:
        ranks = communicators.ranks[communicators.number[report]]
        found = bandwidths(
            points[_ALGORITHM],
            combinations[types.NCCL_OPERATION.key].gather(at),
            _by_label(summary, types.NCCL_COMMUNICATOR.key, ranks)[
                combinations[types.NCCL_COMMUNICATOR.key].fill_null(0).gather(at).to_numpy()
            ],
        )
        changes += [
            pl.when(begins).then(f).otherwise(k).alias(k) for k, f in zip((_ALGORITHM, _BUS), found, strict=True)
        ]
    return points.with_columns(changes)


def _by_label(summary: Summary, key: str, of_member: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The highest number of a communicator's members by the report's label of it (0: no label)."""
    highest = dict(sorted(zip(summary.members["communicator"], of_member.tolist(), strict=True)))
    return np.array([0, *(highest.get(name, 0) for name in summary.labels.get(key, ()))], dtype=np.int64)
