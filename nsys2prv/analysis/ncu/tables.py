"""Figures of Nsight Compute in the tables of kernels and of their classes, and how many kernels have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from nsys2prv.analysis.frames import Run, kernels_of
from nsys2prv.analysis.metrics.metrics_by_class import MetricFit
from nsys2prv.analysis.ncu.join import CLASS, EXACT, SAME, SHARES, main_stall, weighted_mean
from nsys2prv.analysis.ncu.roofline import roofline, roofs
from nsys2prv.model.metric_names import TENSOR

# Columns of tables. Shares are %, weighted by the kernels' time in the run; bytes are means of a kernel;
# `tensor_estimate_percent` is the estimate from GPU metrics (null: none). `exact`, `same_kernel`, `class_mean`,
# `without`: kernels by how they got their figures.
_MEANS = ("dram_bytes", "l2_bytes")
COUNTS = {"exact": EXACT, "same_kernel": SAME, "class_mean": CLASS, "without": None}
COLUMNS = (
    *("sm_percent", "tensor_percent", "tensor_estimate_percent", "dram_bytes", "l2_bytes", "occupancy_percent"),
    *("registers", "stall", *COUNTS),
)


def kernel_figures(work: pl.DataFrame, figures: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return `by` and COLUMNS but the estimate of groups of kernels.

    `work`: WORK with JOIN and `ns`, the time of each kernel that counts; `figures`: FIGURES.
    """
    # Some figures serve thousands of kernels: their times are added up first.
    together = work.group_by(*by, "figures", "joined").agg(pl.col("ns").sum(), kernels=pl.len())
    values = figures.with_row_index("figures").select("figures", "registers", "stall", *SHARES, *_MEANS)
    known = together.join(values, on="figures", how="left").cast({pl.Categorical: pl.String})
    # Floats add up to the last digit only in one order.
    known = known.sort(*by, "figures", "joined")
    counts = {
        name: pl.col("kernels").filter(pl.col("joined").eq_missing(how)).sum().cast(pl.Int64)
        for name, how in COUNTS.items()
    }
    table = known.group_by(by, maintain_order=True).agg(
        *(weighted_mean(c, pl.col("ns")) for c in SHARES),
        *(weighted_mean(c, pl.col("kernels")) for c in _MEANS),
        # Kernels of one name may have several versions.
        registers=pl.col("registers").max(),
        **counts,
    )
    stalls = main_stall(known, by, pl.col("ns"))
    joined_table = table.join(stalls, on=by, how="left", maintain_order="left", nulls_equal=True)
    return joined_table.select(*by, *(c for c in COLUMNS if c != "tensor_estimate_percent"))


class NcuFigures(NamedTuple):
    """Figures of Nsight Compute: `files` (PROFILED), `classes` (see class_figures), `roofline` (ROOFLINE), `roofs`.

    `by_class`: `class` and `tensor_estimate_percent`.
    """

    files: pl.DataFrame
    classes: pl.DataFrame
    roofline: pl.DataFrame
    roofs: Mapping[str, float]
    by_class: pl.DataFrame

    def as_json(self) -> dict[str, Any]:
        """Return all tables as JSON values."""
        tables = {"files": self.files, "classes": self.classes, "roofline": self.roofline}
        return {**{name: table.to_dicts() for name, table in tables.items()}, "roofs": dict(self.roofs)}


def ncu_figures(work: pl.DataFrame, run: Run, by: str, fits: Sequence[MetricFit]) -> NcuFigures | None:
    """Return the figures of a run with files of Nsight Compute; None without.

    `work`: WORK with JOIN and `ns`; `by`: `family` or `class`, by which `fits` split metrics.
    """
    if run.figures is None or run.profiled is None:
        return None
    estimates = tensor_estimates(fits)
    return NcuFigures(
        files=run.profiled,
        classes=class_figures(work, run, by, estimates),
        roofline=roofline(work, run, by),
        roofs=roofs(run),
        by_class=estimates_by_class(work, by, estimates),
    )


def with_figures(table: pl.DataFrame, work: pl.DataFrame, run: Run, figures_of: NcuFigures | None) -> pl.DataFrame:
    """Add COLUMNS to the sums of kernels by rank (null: all), class and name. Without files the table stays as it is.

    `work`: WORK with JOIN, `ns` and `rank`.
    """
    if run.figures is None or figures_of is None:
        return table
    by = ["class", "name"]
    parts = [kernel_figures(kernels_of(work), run.figures, keys) for keys in (by, ["rank", *by])]
    over_all = parts[0].select(pl.lit(None, pl.Int64).alias("rank"), pl.all())
    figures = pl.concat([over_all, parts[1].select(over_all.columns)])
    found = table.join(figures, on=["rank", *by], how="left", maintain_order="left", nulls_equal=True)
    return found.join(figures_of.by_class, on="class", how="left", maintain_order="left").select(
        *table.columns, *COLUMNS
    )


def class_figures(work: pl.DataFrame, run: Run, by: str, estimates: Mapping[str, float]) -> pl.DataFrame:
    """Return `class`, `ns` (its kernels' time), `kernels` and COLUMNS by class, over all ranks, the longest first.

    `by`: `family` or `class`, the column of WORK.
    """
    assert run.figures is not None
    kernels = kernels_of(work).with_columns(pl.col(by).cast(pl.String).alias("class"))
    times = kernels.group_by("class").agg(pl.col("ns").sum(), kernels=pl.len().cast(pl.Int64))
    found = kernel_figures(kernels, run.figures, ["class"]).join(times, on="class")
    estimated = pl.col("class").replace_strict(dict(estimates), default=None, return_dtype=pl.Float64)
    table = found.with_columns(tensor_estimate_percent=estimated)
    return table.select("class", "ns", "kernels", *COLUMNS).sort("ns", "class", descending=[True, False])


def tensor_estimates(fits: Sequence[MetricFit]) -> dict[str, float]:
    """Return the estimate of tensor activity (%) of each class that has one: over all GPUs, or of the only one.

    Classes that were estimated together have none of their own.
    """
    tensor = [fit for fit in fits if TENSOR in fit.metric.lower()]
    chosen = next((fit for fit in tensor if fit.device is None), tensor[0] if tensor else None)
    means = chosen.classes if chosen else ()
    return {m.classes[0]: m.mean for m in means if len(m.classes) == 1 and m.mean is not None}


def estimates_by_class(work: pl.DataFrame, by: str, estimates: Mapping[str, float]) -> pl.DataFrame:
    """Return `class` and `tensor_estimate_percent`: of the class, or of its family if metrics were split by family."""
    found = work.select(pl.col("class").cast(pl.String), of=pl.col(by).cast(pl.String)).unique("class", keep="first")
    value = pl.col("of").replace_strict(dict(estimates), default=None, return_dtype=pl.Float64)
    return found.select("class", tensor_estimate_percent=value)
