"""Imbalance: a rank computes longer than the others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.chief_cause import chief_cause
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.latecomers import Latecomer, awaited_ranks, late_ranks, shared_compute
from nsys2prv.analysis.findings.longer_call import longer_call
from nsys2prv.analysis.findings.shared_gpu import shared_gpu
from nsys2prv.analysis.findings.shares_of_launches import SHARED
from nsys2prv.analysis.findings.thresholds import LATE, LIKE_MOST, MEDIUM, MOSTLY_THEN, OF_ONE_RANK, PAUSED, SELDOM
from nsys2prv.analysis.sentences import counted

ADVICE = (
    "More launches or larger grids are unequal shares; the same kernels taking longer are a slower GPU (clocks, power, "
    "other processes)."
)


def imbalance(case: Case) -> Iterator[Finding]:
    """Yield the rank that is waited for the longest because it computes longer.

    Where kernels pause for a process that is not of the run, that is a finding of its own, if it explains most of this.
    """
    if (host := uneven_host(case)) is not None:
        yield _of_hosts(case, host)
        return
    worst, gain = uneven_rank(case), case.gain("imbalance=0")
    if worst is None:
        return
    if any(one.ranks == (worst.member,) and one.cost_ns >= PAUSED.value * worst.longer_ns for one in shared_gpu(case)):
        return
    by_step = _excess_by_step(case, worst.member)
    longest, compared = by_step["longest"].sum(), by_step.height
    often = f" (the longest in {longest} of {compared} iterations)" if longest else ""
    longer = f"{text_ms(worst.excess_ns)} longer than the mean{case.in_window}{often}"
    then = seldom_longer(case, worst.member)
    if then.height:
        each = text_ms(float(then["excess"].mean()))  # type: ignore[arg-type]
        which = counted(then.select("iteration", "repeat").rows())
        longer = f"{each} longer than the mean in {which} ({then.height} of {compared})"
    yield Finding(
        "imbalance",
        f"{_name(case, worst.member)} computes {longer}, and others wait",
        cost_of_shares(case, worst),
        f"{SHARED} Where it launches the same, its input is longer then."
        if then.height
        else f"Share the work evenly: compare its kernels with another's. {ADVICE}",
        ranks=(worst.member,),
        iterations=tuple(sorted(set(then["iteration"]))) or case.iterations,
        evidence={
            "longer_than_mean_ns": round(worst.excess_ns),
            "exposed_waiting_ns": round(max(worst.net_ns, 0.0)),
            "waiting_ranks": list(worst.waiting),
            "load_balance": round(case.analysis.efficiency.load_balance, 4),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="high" if then.height or 2 * longest > compared or not case.analysis.window.iterations else "medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="analysis/useful_time",
        at_ns=worst.at,
    )


def uneven_host(case: Case) -> Latecomer | None:
    """Return the latest rank of a run without devices that works longer than others outside of MPI, or None.

    Equal shares must gain MEDIUM, and its excess over the mean explain half of the waiting for it. Where its work has
    the name of a call, that is the cause: see late_rank.
    """
    if case.run.devices:
        return None
    late = next(iter(late_ranks(case)), None)
    if late is None or case.gain("imbalance=0") < MEDIUM.value * case.iteration_ns:
        return None
    excess = worked(case)[late.member] - _mean_worked(case)
    cause, call = chief_cause(case, late.member), longer_call(case, late.member)
    named = (cause is not None and cause.name) or (call is not None and 2 * call.ns >= late.net_ns)
    return late if 2 * excess >= late.net_ns and not named else None


def worked(case: Case) -> dict[int, float]:
    """Return how long each rank of a run without devices is outside of MPI (ns of an iteration)."""
    ranks = {case.run.rank(task) for task in case.run.rank_tasks}
    return {rank: max(case.iteration_ns - waits, 0.0) for rank, waits in case.host_waits.items() if rank in ranks}


def _mean_worked(case: Case) -> float:
    times = worked(case).values()
    return sum(times) / len(times)


def _of_hosts(case: Case, late: Latecomer) -> Finding:
    """Return the finding of a rank whose host works longer than others."""
    own, mean, gain = worked(case)[late.member], _mean_worked(case), case.gain("imbalance=0")
    return Finding(
        "imbalance",
        f"Rank {late.member} works {text_ms(own)} {case.unit} outside of MPI, {text_ms(own - mean)} longer than the "
        "mean, and others wait",
        min(gain, own - mean),
        f"Share the work evenly. If the shares are equal, see what slows the host of rank {late.member}: other "
        "processes on its cores, binding to cores, more profiling than on other ranks.",
        ranks=(late.member,),
        iterations=case.iterations,
        evidence={
            "worked_ns": round(own),
            "mean_worked_ns": round(mean),
            "exposed_waiting_ns": round(late.net_ns),
            "waiting_ranks": list(late.waiting),
            "gain_of_equal_shares_ns": round(gain),
        },
        confidence="medium",
        command="nsys2prv whatif RUN --set imbalance=0",
        cfg="views/collective_arrival",
        at_ns=late.at,
    )


def uneven_rank(case: Case) -> Latecomer | None:
    """Return the rank that others wait for the longest because it computes longer, or None.

    Where equal shares gain at least MEDIUM, a rank whose excess is half of that gain counts even if it waits longer for
    others than they wait for it, as when it writes a file now and then.
    """
    late = [one for one in late_ranks(case) if one.by_compute]
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
    own = _excess_by_step(case, rank)
    longer = pl.col("excess").clip(lower_bound=0)
    longest = own.sort("excess", descending=True).with_columns(before=longer.cum_sum() - longer)
    most = longest.filter(pl.col("before") < MOSTLY_THEN.value * longer.sum(), pl.col("excess") > 0)
    like_most = pl.col("excess") >= LIKE_MOST.value * pl.lit(most["excess"].mean(), pl.Float64())
    then = own.filter(like_most).select("iteration", "repeat", "excess")
    is_seldom = then.height <= SELDOM.value * own.height and len(shared_compute(case).get(rank, ())) == 1
    return then if is_seldom else then.clear()


def _excess_by_step(case: Case, rank: int) -> pl.DataFrame:
    """Return the iterations of a rank: iteration, repeat, `excess` (compute above the mean of ranks, ns), `longest`."""
    step = ("repeat", "iteration")
    excess = pl.col("compute_ns") - pl.col("compute_ns").mean().over(step)
    # Of ranks that compute equally long none is the longest.
    longest = (pl.col("compute_ns") == pl.col("compute_ns").max().over(step)) & (excess > 0)
    computing = pl.col("rank").is_in([*shared_compute(case)])
    compared = case.held(case.analysis.iterations).filter(pl.col("steady"), computing)
    return compared.select("rank", *step, excess=excess, longest=longest).filter(rank=rank).drop("rank")


def _name(case: Case, rank: int) -> str:
    """Return the words for a rank, with the GPU that computes longest if it shares its work over several."""
    own = shared_compute(case).get(rank, {})
    if len(own) < 2:
        return f"Rank {rank}"
    longest = max(own, key=lambda number: (own[number], -number))
    return f"GPU {case.run.devices[longest].gpu} of rank {rank}"
