"""Ranks that compute longer than others, which wait for them: which one, in which iterations, and what it costs."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.ranks.chief_cause import chief_cause
from nsys2prv.analysis.facts.ranks.latecomers import Latecomer, awaited_ranks, latecomer_ranks
from nsys2prv.analysis.facts.ranks.longer_call import longer_call
from nsys2prv.analysis.facts.thresholds import LATE, LIKE_MOST, MEDIUM, MOSTLY_THEN, OF_ONE_RANK, SELDOM


def uneven_rank(case: Case) -> Latecomer | None:
    """Return the rank that others wait for the longest because it computes longer, or None.

    Where equal shares gain at least MEDIUM, a rank whose excess is half of that gain counts even if it waits longer for
    others than they wait for it, as when it writes a file now and then.
    """
    late = [one for one in latecomer_ranks(case) if one.by_compute]
    if late or case.gain("imbalance=0") < MEDIUM.value * case.iteration_ns:
        return next(iter(late), None)
    # Where others compute longer in turn, equal shares gain more than the excess of one rank.
    least = max(LATE.value * case.iteration_ns, OF_ONE_RANK.value * case.gain("imbalance=0"))
    longer = [one for one in awaited_ranks(case) if min(one.excess_ns, one.longer_ns) >= least]
    return min(longer, key=lambda one: (-one.excess_ns, one.member), default=None)


def cost_of_shares(case: Case, uneven: Latecomer) -> float:
    """Return the gain of equal shares (ns of an iteration), at most what the rank computes longer than the mean.

    What they gain beyond that is of ranks that compute longer in turn, or of stages of a pipeline. It costs at least
    the exposed waiting for the rank, as far as longer compute explains it.
    """
    then = seldom_longer(case, uneven.member)
    excess = max(float(then["excess"].sum()) / case.step_count, uneven.excess_ns)
    return max(min(case.gain("imbalance=0"), excess), min(uneven.excess_ns, uneven.net_ns))


def seldom_longer(case: Case, rank: int) -> pl.DataFrame:
    """Return iteration, repeat and `excess` (ns above the mean of all ranks) of the few iterations with most excess.

    Empty if a rank computes longer in more than SELDOM of the iterations, or on several GPUs.
    """
    own = excess_by_step(case, rank)
    longer = pl.col("excess").clip(lower_bound=0)
    longest = own.sort("excess", descending=True).with_columns(before=longer.cum_sum() - longer)
    most = longest.filter(pl.col("before") < MOSTLY_THEN.value * longer.sum(), pl.col("excess") > 0)
    like_most = pl.col("excess") >= LIKE_MOST.value * pl.lit(most["excess"].mean(), pl.Float64())
    then = own.filter(like_most).select("iteration", "repeat", "excess")
    is_seldom = then.height <= SELDOM.value * own.height and len(shared_compute(case).get(rank, ())) == 1
    return then if is_seldom else then.clear()


def excess_by_step(case: Case, rank: int) -> pl.DataFrame:
    """Return the iterations of a rank: iteration, repeat, `excess` (compute above the mean of ranks, ns), `longest`."""
    step = ("repeat", "iteration")
    excess = pl.col("compute_ns") - pl.col("compute_ns").mean().over(step)
    # Of ranks that compute equally long none is the longest.
    longest = (pl.col("compute_ns") == pl.col("compute_ns").max().over(step)) & (excess > 0)
    computing = pl.col("rank").is_in([*shared_compute(case)])
    compared = case.held(case.analysis.iterations).filter(pl.col("steady"), computing)
    return compared.select("rank", *step, excess=excess, longest=longest).filter(rank=rank).drop("rank")


def uneven_host(case: Case) -> Latecomer | None:
    """Return the latest rank of a run without devices that works longer than others outside of MPI, or None.

    Equal shares must gain MEDIUM, and its excess over the mean explain half of the waiting for it. Where its work has
    the name of a call, that is the cause: see late_rank.
    """
    if case.run.devices:
        return None
    late = next(iter(latecomer_ranks(case)), None)
    if late is None or case.gain("imbalance=0") < MEDIUM.value * case.iteration_ns:
        return None
    excess = worked(case)[late.member] - mean_worked(case)
    cause, call = chief_cause(case, late.member), longer_call(case, late.member)
    named = (cause is not None and cause.name) or (call is not None and 2 * call.ns >= late.net_ns)
    return late if 2 * excess >= late.net_ns and not named else None


def worked(case: Case) -> dict[int, float]:
    """Return how long each rank of a run without devices is outside of MPI (ns of an iteration)."""
    ranks = {case.run.rank(task) for task in case.run.rank_tasks}
    return {rank: max(case.iteration_ns - waits, 0.0) for rank, waits in case.host_waits.items() if rank in ranks}


def mean_worked(case: Case) -> float:
    """Return how long the ranks of a run without devices are outside of MPI (ns of an iteration, the mean)."""
    times = worked(case).values()
    return sum(times) / len(times)
