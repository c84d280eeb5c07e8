"""Sums by name and class, with the columns of NVIDIA's `*_sum` reports."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

# Times in ns; `time_percent`: see summary; `stddev` is the sample's, as in NVIDIA's reports.
NVIDIA = ("time_percent", "total_ns", "instances", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
# `med_ns` is p50.
SUMMARY = (*NVIDIA, "p90_ns", "p99_ns")


def summary(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return SUMMARY of the durations of a frame by the columns `by`, longest first.

    A duration is the column `ns` where the frame has it, else the time from start to end.
    Percentages are of the total of all; with `rank` or `kind` among the columns, of that rank's and kind's.
    """
    duration = pl.col("ns") if "ns" in frame.columns else pl.col("end") - pl.col("start")
    table = frame.group_by(by).agg(
        total_ns=duration.sum(),
        instances=pl.len().cast(pl.Int64),
        avg_ns=duration.mean(),
        med_ns=duration.median(),
        min_ns=duration.min(),
        max_ns=duration.max(),
        stddev_ns=duration.std().fill_null(0.0),
        p90_ns=duration.quantile(0.9, "linear"),
        p99_ns=duration.quantile(0.99, "linear"),
    )
    within = [c for c in ("rank", "kind") if c in by]
    whole = pl.col("total_ns").sum().over(within) if within else pl.col("total_ns").sum()
    # Nothing has a share where all together lasts no time.
    share = pl.when(whole > 0).then(100 * pl.col("total_ns") / whole).otherwise(0.0)
    shares = table.with_columns(time_percent=share).cast({pl.Categorical: pl.String})
    ordered = ["rank"] if "rank" in by else []
    down = [False] * len(ordered) + [True] + [False] * len(by)
    return shares.select(*by, *SUMMARY).sort(*ordered, "total_ns", *by, descending=down)


def sums_by_rank(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return rank, `by` and SUMMARY (see summary): over all ranks, with `rank` null, then by rank."""
    over_all, ranks = summary(frame, by), frame["rank"].unique()
    if len(ranks) == 1:
        # With one rank its sums are those over all ranks, and grouping millions of calls takes long.
        per_rank = over_all.select(pl.lit(ranks[0], pl.Int64).alias("rank"), pl.all())
    else:
        per_rank = summary(frame, ["rank", *by])
    return pl.concat([over_all.select(pl.lit(None, pl.Int64).alias("rank"), pl.all()), per_rank])


def _with_bytes(table: pl.DataFrame, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Add to a summary of memory operations their `bytes` and `gb_s`: bytes over time, of those with bytes.

    Both are null where no operation says its bytes. `bytes` is null, too, where the sum does not fit 64 bits, and
    `gb_s` where the operations last no time. `frame`: WORK with `ns`. Of an operation that lasts beyond the window, or
    was cut at the ends of a chosen time, only its share of the bytes counts.
    """
    share = pl.when("instant").then(1.0).otherwise(pl.col("ns") / pl.col("whole_ns"))
    moved = (
        frame.drop_nulls("bytes")
        .group_by(by)
        .agg(
            bytes=(pl.col("bytes") * share).sum().round().cast(pl.Int64, strict=False),
            gb_s=pl.when(pl.col("ns").sum() > 0).then((pl.col("bytes") * share).sum() / pl.col("ns").sum()),
        )
    )
    return table.join(
        moved.cast({pl.Categorical: pl.String}), on=by, how="left", maintain_order="left", nulls_equal=True
    )


def memory_sums(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return sums of memory operations with bytes and GB/s, per rank and over all."""
    over_all, per_rank = (_with_bytes(summary(frame, b), frame, b) for b in (by, ["rank", *by]))
    return pl.concat([over_all.select(pl.lit(None, pl.Int64).alias("rank"), pl.all()), per_rank])
