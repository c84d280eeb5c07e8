"""The figures of two runs side by side."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.overlap import ALL
from nsys2prv.analysis.result import Analysis

# `difference` is b less a, `change_percent` that of a (null where a is 0 or missing).
COMPARISON = {
    "what": pl.String(),
    "name": pl.String(),
    "a": pl.Float64(),
    "b": pl.Float64(),
    "difference": pl.Float64(),
    "change_percent": pl.Float64(),
}

# Figures that are sums over the window, beside those of classes and kernels.
SUMS = ("window", "devices", "overlap", "memory")


def figures(found: Analysis, iteration: str = "iteration") -> dict[tuple[str, str], float]:
    """Return the figures of one run to compare: (what, name) -> value. Times in ns, sums over all ranks.

    `iteration`: what an iteration of it is called.
    """
    e = found.efficiency
    every = found.overlap.filter(pl.col("operation") == ALL)
    values: dict[tuple[str, str], float] = {
        ("window", "duration_ns"): found.window.spans.total(),
        ("run", "ranks"): len(found.run.tasks),
        ("devices", "count"): len(e.devices),
        ("efficiency", "parallel"): e.parallel,
        ("efficiency", "load_balance"): e.load_balance,
        ("efficiency", "communication"): e.communication,
        ("efficiency", "orchestration"): e.orchestration,
        ("devices", "useful_ns"): sum(t.useful_ns for t in e.devices),
        ("devices", "busy_ns"): sum(t.busy_ns for t in e.devices),
    }
    if every.height:
        columns = ("communication_ns", "overlapped_ns", "exposed_ns")
        values |= {("overlap", name): float(every[name].sum()) for name in columns}
    copied = found.memory.filter(pl.col("rank").is_null())
    if copied.height:
        values["memory", "total_ns"] = float(copied["total_ns"].sum())
    steady = found.iterations.filter("steady")
    if steady.height:
        times = ("total_ns", "own_ns", "exposed_ns", "idle_ns")
        values |= {(f"{iteration}, mean", n): float(steady[n].mean() or 0) for n in times}  # type: ignore[arg-type]
    for phase in found.phases:
        values["phase", phase.name] = phase.efficiency.parallel
    for table, what in ((found.classes, "class, total_ns"), (found.kernels, "kernel, total_ns")):
        over_all = table.filter(pl.col("rank").is_null())
        name = "family" if "family" in over_all.columns else "name"
        sums = over_all.group_by(name).agg(pl.col("total_ns").sum()).sort("total_ns", name, descending=[True, False])
        values |= {(what, n): float(t) for n, t in sums.rows()}
    # The first fit of a metric is over all GPUs that were sampled.
    over_all_gpus = {fit.metric: fit for fit in reversed(found.metrics)}
    for fit in reversed(over_all_gpus.values()):
        values |= {(fit.metric, " + ".join(c.classes)): c.mean for c in fit.classes if c.mean is not None}
    return values


def compare_figures(a: Analysis, b: Analysis) -> pl.DataFrame:
    """Return COMPARISON of two analyses. Figures of one run only, and iterations of other ranges, are null."""
    # Iterations of other names may be other work: epochs of one run are not the steps of the other.
    alike = same_iterations(a, b)
    left, right = (figures(run, "iteration" if alike else f"iteration {run.iteration_pattern}") for run in (a, b))
    keys = [*left, *(k for k in right if k not in left)]
    rows = [(what, name, left.get((what, name)), right.get((what, name))) for what, name in keys]
    names = list(COMPARISON)[:4]
    return _with_changes(pl.DataFrame(rows, schema={n: COMPARISON[n] for n in names}, orient="row"))


def same_iterations(a: Analysis, b: Analysis) -> bool:
    """Return False if both runs have iterations, but of other ranges."""
    return len({a.iteration_pattern, b.iteration_pattern} - {None}) < 2


def figures_per_iteration(table: pl.DataFrame, iterations: tuple[int, int]) -> pl.DataFrame:
    """Return COMPARISON with sums over the window divided by the number of its iterations in each run."""
    if not all(iterations):
        return table
    of_window = pl.col("what").is_in(SUMS) & pl.col("name").ne("count") | pl.col("what").str.ends_with(", total_ns")
    each = {
        name: pl.when(of_window).then(pl.col(name) / count).otherwise(name)
        for name, count in zip("ab", iterations, strict=True)
    }
    return _with_changes(table.with_columns(**each))


def _with_changes(table: pl.DataFrame) -> pl.DataFrame:
    change = pl.when(pl.col("a") != 0).then(100 * (pl.col("b") - pl.col("a")) / pl.col("a"))
    return table.with_columns(difference=pl.col("b") - pl.col("a"), change_percent=change)
