"""Contention: how much longer kernels take beside communication than alone.

An NCCL kernel that waits holds multiprocessors and polls memory, so a late rank costs twice: others wait, and compute
slowly meanwhile. A kernel that is beside waiting communication for a share w of its time, and beside transferring
communication for a share t, takes exp(a w + b t) times as long as alone. a and b come from kernels that do the same
work with other shares: at the same place of other iterations, else of the same name and grid; of other ranks too, if
they do as much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.frames import NCCL, Run
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Times, difference, one_span, time_in

# Lowest number of kernels, and highest standard error of a logarithm of a factor, with which a factor is known.
FEWEST_KERNELS, MOST_ERROR = 20, 0.1
# Highest share of its time beside communication at which a kernel counts as alone. Kernels of one name and grid whose
# times alone differ by more than the second number (9th by 1st decile) do different work.
MOST_SHARE_BESIDE, MOST_SPREAD = 0.02, 1.25
# Ranks whose kernels differ by more than this do different work.
MOST_RATIO_OF_RANKS = 1.05
# By kernel family; `waiting`, `transfer`: time beside such communication by time alone, for a kernel that is beside it
# all the time, with standard errors; `..._ns`: what this costs in all, over all ranks.
CONTENTION = {
    "family": pl.String(),
    "kernels": pl.Int64(),
    "waiting": pl.Float64(),
    "waiting_error": pl.Float64(),
    "waiting_ns": pl.Int64(),
    "transfer": pl.Float64(),
    "transfer_error": pl.Float64(),
    "transfer_ns": pl.Int64(),
}
Shares = npt.NDArray[np.float64]


class Slowdown(NamedTuple):
    """Time of each work of a run alone (ns), and logarithms of its factors beside waiting and beside transfers.

    `table`: CONTENTION.
    """

    alone_ns: Shares
    waiting: Shares
    transfer: Shares
    table: pl.DataFrame

    def beside(self, waiting: Shares, transfer: Shares) -> Shares:
        """Return the time of each work (ns) if it is beside communication for these shares of its time."""
        return self.alone_ns * np.exp(waiting * self.waiting + transfer * self.transfer)


def beside_communication(run: Run, begin: Times, ready: Times, end: Times) -> tuple[Shares, Shares]:
    """Return the shares of each work's time beside communication that waits, and that transfers.

    Times are ns, by the rows of Run.work: `ready` is the end of the waiting of NCCL kernels. Where both kinds run, it
    is transfer. Communication has no shares itself.
    """
    shares = np.zeros((2, run.work.height))
    nccl = (run.work["kind"] == NCCL).to_numpy()
    computes = run.work["kind"].is_in(USEFUL_KINDS).to_numpy()
    if nccl.any():
        device = run.work["device"].to_numpy()
        axis = axis_over(one_span(int(begin.min()), int(end.max())), len(run.devices))
        transfers = axis.union(device[nccl], ready[nccl], end[nccl])
        waiting = difference(axis.union(device[nccl], begin[nccl], ready[nccl]), transfers)
        at = [axis.at(device[computes], times[computes]) for times in (begin, end)]
        length = np.maximum(end[computes] - begin[computes], 1)
        for share, spans in zip(shares, (waiting, transfers), strict=True):
            share[computes] = (time_in(spans, at[1]) - time_in(spans, at[0])) / length
    return shares[0], shares[1]


def slowdown(run: Run, ready: Times, launched: pl.DataFrame) -> Slowdown:
    """Measure the contention of a run.

    `ready`: end of the waiting of NCCL kernels, by the rows of Run.work (ns); `launched`: work, number and repeat of
    the work of iterations.
    """
    begin, end = run.work["start"].to_numpy(), run.work["end"].to_numpy()
    waiting, transfer = beside_communication(run, begin, ready, end)
    work = run.work.select("family", "name", "shape", "kind", "task").with_row_index("work")
    work = work.with_columns(pl.Series("waiting", waiting), pl.Series("transfer", transfer), ns=pl.Series(end - begin))
    computing = work.filter(pl.col("kind").is_in(USEFUL_KINDS))
    factors = _fitted(computing, launched)
    found = work.join(factors, on="family", how="left", maintain_order="left").with_columns(
        pl.col("log_waiting", "log_transfer").fill_null(0.0)
    )
    logs = found["log_waiting"].to_numpy(), found["log_transfer"].to_numpy()
    alone = (end - begin) / np.exp(waiting * logs[0] + transfer * logs[1])
    costs = found.with_columns(
        waiting_ns=pl.Series((end - begin) * (1 - np.exp(-waiting * logs[0]))),
        transfer_ns=pl.Series((end - begin) * (1 - np.exp(-transfer * logs[1]))),
    )
    table = (
        costs.filter(pl.col("family").is_in(factors["family"].implode()))
        .group_by("family", maintain_order=True)
        .agg(pl.col("waiting_ns", "transfer_ns").sum().round())
        .join(factors, on="family")
        .with_columns(waiting=pl.col("log_waiting").exp(), transfer=pl.col("log_transfer").exp())
    )
    chosen = table.select(pl.col(c).cast(t, strict=False) for c, t in CONTENTION.items())
    return Slowdown(alone, *logs, chosen.sort(pl.col("waiting_ns") + pl.col("transfer_ns"), descending=True))


def _fitted(computing: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """Return family, kernels, log_waiting, log_transfer and their errors, for families that tell them."""
    compared = pl.concat(part.with_columns(order=n) for n, part in enumerate(_comparisons(computing, launched)))
    known = compared.filter((pl.col("kernels") >= FEWEST_KERNELS) & (pl.col("error") < MOST_ERROR)).sort("order")
    best = known.unique(["family", "part"], keep="first", maintain_order=True)
    sides = [
        best.filter(pl.col("part") == part).select(
            "family",
            "kernels",
            pl.col("log").clip(lower_bound=0.0).alias(f"log_{part}"),
            (pl.col("error") * pl.col("log").clip(lower_bound=0.0).exp()).alias(f"{part}_error"),
        )
        for part in ("waiting", "transfer")
    ]
    joined = sides[0].join(sides[1], on="family", how="full", coalesce=True)
    return joined.with_columns(pl.coalesce("kernels", "kernels_right").alias("kernels")).drop("kernels_right")


def _comparisons(computing: pl.DataFrame, launched: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the regressions (see _regressed) of the ways to find kernels that do the same work, the surest way first.

    They are at the same place of other iterations, of all ranks if these are alike, then of one rank; then those of one
    name and grid.
    """
    same = ["family", "name", "shape"]
    nth = pl.int_range(pl.len()).over("task", "repeat", "number", *same)
    in_iterations = computing.join(launched.cast({"work": pl.UInt32}), on="work", maintain_order="left")
    placed = in_iterations.with_columns(nth=nth)
    own_place = _regressed(placed, [*same, "nth", "task"])
    of_alike = _alike(placed, [*same, "nth"])
    by_place = _regressed(placed.join(of_alike, on="family", how="semi"), [*same, "nth"])
    named = _of_one_time_alone(computing, same)
    by_name = pl.concat(
        [
            _regressed(named.join(of_alike, on="family", how="semi"), same),
            _regressed(named.join(of_alike, on="family", how="anti"), [*same, "task"]),
        ]
    )
    return [by_place, own_place, by_name]


def _of_one_time_alone(computing: pl.DataFrame, same: list[str]) -> pl.DataFrame:
    """Return the kernels of groups (columns `same`) that take about one time alone: these do the same work."""
    alone = pl.col("waiting") + pl.col("transfer") < MOST_SHARE_BESIDE
    spread = pl.col("ns").quantile(0.9) / pl.col("ns").quantile(0.1)
    alike = computing.filter(alone).group_by(same).agg(spread=spread).filter(pl.col("spread") < MOST_SPREAD)
    return computing.join(alike, on=same, how="semi", nulls_equal=True)


def _alike(placed: pl.DataFrame, place: list[str]) -> pl.DataFrame:
    """Return the families whose kernels take as long on all ranks, at the same place and alone."""
    alone = placed.filter(pl.col("waiting") + pl.col("transfer") < MOST_SHARE_BESIDE)
    medians = alone.group_by(*place, "task").agg(pl.col("ns").median())
    # Kernels that one rank alone has, as with another size of batch, say nothing.
    ratios = medians.group_by(place).agg(ratio=pl.col("ns").max() / pl.col("ns").min(), tasks=pl.len())
    return (
        ratios.filter(pl.col("tasks") > 1)
        .group_by("family")
        .agg(pl.col("ratio").median())
        .filter(pl.col("ratio") < MOST_RATIO_OF_RANKS)
        .select("family")
    )


def _regressed(kernels: pl.DataFrame, same: list[str]) -> pl.DataFrame:
    """Return family, part, kernels, log and error: the regression of log time on the shares, within the same work.

    Ordinary least squares with a constant for each group of `same`, for each family by itself.
    """
    own = [pl.col("ns").cast(pl.Float64).log().alias("y"), pl.col("waiting").alias("w"), pl.col("transfer").alias("t")]
    centered = kernels.select("family", *((c - c.mean().over(same)).alias(n) for c, n in zip(own, "ywt", strict=True)))
    products = {
        "ww": ("w", "w"),
        "tt": ("t", "t"),
        "wt": ("w", "t"),
        "wy": ("w", "y"),
        "ty": ("t", "y"),
        "yy": ("y", "y"),
    }
    sums = centered.group_by("family", maintain_order=True).agg(
        pl.len().alias("kernels"), *((pl.col(a) * pl.col(b)).sum().alias(n) for n, (a, b) in products.items())
    )
    # Without a spread of a share its column is as if it were not there.
    ww, tt, wt, wy, ty, yy = (pl.col(n) for n in products)
    ww, tt = ww + 1e-9, tt + 1e-9
    determinant = ww * tt - wt**2
    waits, moves = (tt * wy - wt * ty) / determinant, (ww * ty - wt * wy) / determinant
    rest = (yy - waits * wy - moves * ty).clip(lower_bound=0.0) / (pl.col("kernels") - 2).clip(lower_bound=1)
    fitted = [
        # Sums of many numbers differ in the last digits from one machine to another.
        sums.select(
            "family", "kernels", part=pl.lit(part), log=log.round(9), error=(rest * other / determinant).sqrt().round(9)
        )
        for part, log, other in (("waiting", waits, tt), ("transfer", moves, ww))
    ]
    return pl.concat(fitted)
