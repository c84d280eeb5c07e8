"""Numbers of collectives where a rank began to record late: its first one may be the fifth of the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

# Highest number of operations that are compared for one numbering, and highest number of one.
MOST_COMPARED_OPERATIONS, HIGHEST_NUMBER = 64, 1 << 16
# Ends that vary so many times more than those of the best numbering, or less than this (ns), are as likely.
LIKELY_SPREAD_RATIO, EXACT_SPREAD_NS = 2.0, 1000.0

_LATER = {"communicator": pl.String(), "report": pl.Int64(), "later": pl.Int64()}


def renumbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Return anchors of all reports with the numbers of the report that has most of each communicator.

    All ranks leave a collective at nearly the same moment. With the right numbers the ends on two reports differ by
    what their clocks do, which hardly varies; with wrong ones they vary as the operations follow each other.
    """
    collective = pl.col("kind") == "collective"
    ends = rows.filter(collective).group_by("communicator", "report", "sequence").agg(pl.col("end").min())
    last = ends.group_by("communicator", "report").agg(last=pl.col("sequence").max())
    unequal = (pl.col("last").n_unique() > 1) & (pl.col("last").max() < HIGHEST_NUMBER)
    found = [pl.DataFrame(schema=_LATER)]
    for (name,), group in last.filter(unequal.over("communicator")).group_by("communicator", maintain_order=True):
        of_group = ends.filter(pl.col("communicator") == name).partition_by("report", as_dict=True)
        own = {int(report): _by_number(part, ends["end"].min()) for (report,), part in of_group.items()}
        most = max(sorted(own), key=lambda report: len(own[report]))
        later = [(name, report, _later(own[most], own[report])) for report in group["report"].sort()]
        found.append(pl.DataFrame(later, schema=_LATER, orient="row"))
    moved = rows.join(pl.concat(found), on=["communicator", "report"], how="left", maintain_order="left")
    by = pl.when(collective).then("later").fill_null(0)
    return moved.with_columns(pl.col("sequence") + by).drop("later")


def _by_number(ends: pl.DataFrame, origin: object) -> npt.NDArray[np.float64]:
    """Return the end of each operation at its number (ns since the origin), NaN where it is no anchor."""
    times = np.full(int(ends["sequence"].max()) + 1, np.nan)  # type: ignore[arg-type]
    times[ends["sequence"].to_numpy()] = (ends["end"] - origin).to_numpy()
    return times


def _later(most: npt.NDArray[np.float64], fewer: npt.NDArray[np.float64]) -> int:
    """Return the number of operations that one report has before the first one of another, by their ends (ns).

    Each operation of the other must be one of the former, too: broadcasts, for example, are no anchors.
    """
    known = np.flatnonzero(np.isfinite(fewer))
    chosen = known[:: len(known) // MOST_COMPARED_OPERATIONS + 1]
    differences = np.lib.stride_tricks.sliding_window_view(most, len(fewer))[:, chosen] - fewer[chosen]
    away = np.abs(differences - np.median(differences, axis=1, keepdims=True))
    spread = np.nan_to_num(np.median(away, axis=1), nan=np.inf)
    alike = spread <= max(LIKELY_SPREAD_RATIO * spread.min(), EXACT_SPREAD_NS)
    # Most ends of a few operations may agree by chance, but hardly all of them.
    return 0 if alike[0] else int(np.argmin(np.where(alike, np.max(away, axis=1), np.inf)))
