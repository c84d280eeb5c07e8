"""Roofline by class of kernels: operations and bytes against the peaks of the GPU.

Operations, DRAM bytes and time of a kernel are its figures of Nsight Compute, which measures every kernel alone, at a
clock of its own; sums over a class are weighted by how often the run launches each kernel.
Williams, Waterman and Patterson, Roofline: An Insightful Visual Performance Model, Comm. ACM 52 (2009).
"""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import Run, kernels_of
from nsys2prv.model.schemas import to_schema
from nsys2prv.report.ncu.figures import PIPES

# `kernels`: those with all figures needed; `of`: all kernels of the class; `ns`: time of `kernels` in the run;
# `profiled_ns`: their time under the profiler; `flop`, `bytes`: sums of operations and DRAM bytes; `flop_byte`: their
# ratio; `flop_s`, `bytes_s`: per second of `profiled_ns`; `pipe`: the arithmetic that would take the class longest at
# its peak; `peak_*`: the peaks of that and of DRAM at the profiler's clocks; `*_percent`: of these; `bound`: the lower
# roof, `memory` or `compute`.
ROOFLINE = {
    "class": pl.String(),
    "kernels": pl.Int64(),
    "of": pl.Int64(),
    "ns": pl.Int64(),
    "profiled_ns": pl.Float64(),
    "flop": pl.Float64(),
    "bytes": pl.Float64(),
    "flop_byte": pl.Float64(),
    "flop_s": pl.Float64(),
    "bytes_s": pl.Float64(),
    "pipe": pl.String(),
    "peak_flop_s": pl.Float64(),
    "peak_bytes_s": pl.Float64(),
    "flop_percent": pl.Float64(),
    "bytes_percent": pl.Float64(),
    "bound": pl.String(),
}


def roofline(work: pl.DataFrame, run: Run, by: str) -> pl.DataFrame:
    """Return ROOFLINE, the class of most time first. `work`: WORK with JOIN and `ns`; `by`: its column of classes."""
    assert run.figures is not None
    kernels = kernels_of(work).with_columns(pl.col(by).cast(pl.String).alias("class"))
    counted = kernels.group_by("class", "figures").agg(pl.col("ns").sum(), n=pl.len())
    known = counted.join(run.figures.with_row_index("figures").rename({"ns": "alone"}), on="figures", how="left")
    # Floats add up to the last digit only in one order.
    known = known.sort("class", "figures")
    measured = pl.all_horizontal(pl.col(c).is_not_null() for c in ("flop", "dram_bytes", "alone"))
    whole = known.group_by("class").agg(of=pl.col("n").sum())
    sums = (
        known.filter(measured)
        .group_by("class")
        .agg(
            kernels=pl.col("n").sum(),
            ns=pl.col("ns").sum(),
            profiled_ns=_sum(pl.col("alone")),
            flop=_sum(pl.col("flop")),
            bytes=_sum(pl.col("dram_bytes")),
            bytes_at_peak=_at_peak("dram_bytes", "peak_bytes"),
            **{f"done_{p}": _sum(pl.col(f"flop_{p}")) for p in PIPES},
            **{f"at_{p}": _at_peak(f"flop_{p}", f"peak_{p}") for p in PIPES},
            roof_bytes=pl.col("peak_bytes").mean(),
        )
    )
    return _with_rates(sums.join(whole, on="class")).sort("ns", "class", descending=[True, False])


def _sum(value: pl.Expr) -> pl.Expr:
    """Return the sum over all kernels of figures that serve `n` of them."""
    return (value * pl.col("n")).sum()


def _at_peak(amount: str, peak: str) -> pl.Expr:
    """Return the time (ns) that all kernels would take at their peaks; null if one has an amount and no peak."""
    lacking = (pl.col(amount) > 0) & pl.col(peak).is_null()
    return pl.when(~lacking.any()).then(_sum(pl.col(amount) / pl.col(peak) * 1e9))


def _with_rates(sums: pl.DataFrame) -> pl.DataFrame:
    times = [pl.col(f"at_{p}").fill_nan(0.0) for p in PIPES]
    at = pl.concat_list(times).list.arg_max()
    pipe = pl.lit(pl.Series(PIPES)).implode().list.get(at)
    done = pl.concat_list([pl.col(f"done_{p}") for p in PIPES]).list.get(at)
    longest = pl.when(pl.all_horizontal(time.is_not_null() for time in times)).then(pl.max_horizontal(times))
    limited = (pl.col("flop") > 0) & (longest > 0)
    peak_bytes = pl.when(pl.col("bytes_at_peak") > 0).then(pl.col("bytes") / pl.col("bytes_at_peak") * 1e9)
    rates = sums.with_columns(
        flop_byte=pl.when(pl.col("bytes") > 0).then(pl.col("flop") / pl.col("bytes")),
        flop_s=pl.col("flop") / pl.col("profiled_ns") * 1e9,
        bytes_s=pl.col("bytes") / pl.col("profiled_ns") * 1e9,
        pipe=pl.when(limited).then(pipe),
        # The mean peak of the pipe, weighted by its operations.
        peak_flop_s=pl.when(limited).then(done / longest * 1e9),
        peak_bytes_s=pl.coalesce(peak_bytes, "roof_bytes"),
        flop_percent=pl.when(limited).then(100 * longest / pl.col("profiled_ns")),
        bytes_percent=100 * pl.col("bytes") / pl.coalesce(peak_bytes, "roof_bytes") / pl.col("profiled_ns") * 1e9,
    )
    ridge = pl.col("peak_flop_s") / pl.col("peak_bytes_s")
    memory = (pl.col("flop") == 0) | (pl.col("flop_byte") < ridge)
    known = pl.col("peak_bytes_s").is_not_null() & (pl.col("peak_flop_s").is_not_null() | (pl.col("flop") == 0))
    bound = pl.when(known & memory).then(pl.lit("memory")).when(known).then(pl.lit("compute"))
    return to_schema(rates.with_columns(bound=bound), ROOFLINE)


def roofs(run: Run) -> dict[str, float]:
    """Return the median peaks of the GPU over all figures: operations a second by pipe, and `dram` bytes a second."""
    assert run.figures is not None
    columns = {**{p: f"peak_{p}" for p in PIPES}, "dram": "peak_bytes"}
    medians = {name: run.figures[column].median() for name, column in columns.items()}
    return {name: value for name, value in medians.items() if isinstance(value, float) and value > 0}
