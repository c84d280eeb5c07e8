"""Advice on a host that is late in single iterations: by a long call of CUDA, or by what samples show."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.hosts.code_loading import advice_on_compiling
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen
from nsys2prv.analysis.facts.hosts.garbage import advice_on_garbage, garbage_collection
from nsys2prv.analysis.facts.hosts.long_calls import FIRST_LAUNCH, KEEP
from nsys2prv.analysis.facts.thresholds import MOST_OF_DELAY
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.host.cuda_api import CALL_THAT_WAITS, LAUNCHING, MANAGING_MEMORY
from nsys2prv.intervals.spans import Span
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short

ALLOCATE_BEFORE = "keep memory from iteration to iteration, and allocate what is needed before the loop."
# Calls that wait for the device, as copies may: they are long where it is late.
WAITING_CALLS = f"{CALL_THAT_WAITS}|Query|{LAUNCHING[DeviceKind.COPY]}"


class SingleCall(NamedTuple):
    """One call of CUDA: its name and its length (ns)."""

    name: str
    ns: int


def advice_on_single_delay(case: Case, rank: int, latest: Span, delay_ns: int, seen: Seen) -> str:
    """Return what to do about a host that is late in single iterations.

    `latest`: the iteration with the longest delay (ns of the trace), and `delay_ns` that delay; `seen`: what samples
    say of all iterations in which it is late.
    """
    if call := unusual_call(case, rank, latest, delay_ns):
        return (
            f"The host of rank {rank} is in one `{short(call.name, 40)}` for {text_ms(call.ns)} in that iteration: "
            f"{_why(call)}"
        )
    causes = f"{garbage_collection(case)}, allocation, a slow read of data"
    conclusion = advice_on_compiling(case, seen) or advice_on_garbage(case, seen, in_few="")
    return f"See what the host of rank {rank} does there: {seen.text or causes}{conclusion}."


def unusual_call(case: Case, rank: int, iteration: Span, delay_ns: int) -> SingleCall | None:
    """Return the call of CUDA with which a launching thread of a rank is late in an iteration; None: there is none.

    It lasts longer than the usual longest call of its name in an iteration (the median) by MOST_OF_DELAY of the delay
    or more.
    """
    rows = case.run.work.filter(task=case.run.task_by_rank[rank])["caller_row"].drop_nulls().unique()
    calls = case.run.calls.filter(
        pl.col("kind") == "cuda", pl.col("row").is_in(rows.implode()), ~text_contains("name", WAITING_CALLS)
    ).select("start", pl.col("name").cast(pl.String), ns=pl.col("end") - pl.col("start"))
    steps = case.analysis.iterations.filter("steady", rank=rank).select(step="start_ns").sort("step")
    placed = calls.sort("start").join_asof(steps, left_on="start", right_on="step", check_sortedness=False)
    longest = placed.drop_nulls("step").group_by("name", "step").agg(pl.col("ns").max())
    # An iteration without such a call has one of no length.
    each = longest.group_by("name").agg(
        usual=pl.when(2 * pl.len() > steps.height).then(pl.col("ns").median()).otherwise(0)
    )
    own = calls.filter(pl.col("start").is_between(*iteration, closed="left")).join(each, on="name", how="left")
    unusual = own.filter(pl.col("ns") - pl.col("usual").fill_null(0) >= MOST_OF_DELAY.value * delay_ns)
    return None if unusual.is_empty() else SingleCall(*unusual.select("name", "ns").sort("ns", "name").row(-1))


def _why(call: SingleCall) -> str:
    """Return why a call may be long once, and what to do, as the end of a sentence."""
    if "Launch" in call.name:
        return FIRST_LAUNCH
    managing = pl.Series([call.name]).str.contains(MANAGING_MEMORY)[0]
    return ALLOCATE_BEFORE if managing else f"{KEEP[0].lower()}{KEEP[1:]}"
