"""What a host does in single iterations in which it is late: a long call of CUDA, or what samples show."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.code_loading import advice_on_compiling
from nsys2prv.analysis.facts.functions_of_hosts import Seen
from nsys2prv.analysis.facts.garbage import advice_on_garbage, garbage_collection
from nsys2prv.analysis.facts.long_calls import KEEP, LongCall
from nsys2prv.analysis.facts.thresholds import ONE_PLACE
from nsys2prv.families.host.cuda_api import CALL_THAT_WAITS, MANAGING_MEMORY
from nsys2prv.intervals.spans import Spans
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import short

# A kernel is loaded when it is launched for the first time (CUDA programming guide, lazy loading).
FIRST_LAUNCH = (
    "a first launch loads the code of its kernel (launch kernels of all shapes once before the loop, or set "
    "CUDA_MODULE_LOADING=EAGER); or the profiler stored what it had recorded, which a run without it does not."
)
ALLOCATE_BEFORE = "keep memory from iteration to iteration, and allocate what is needed before the loop."


def advice_on_single_delay(case: Case, rank: int, late: Spans, longest_ns: int, seen: Seen) -> str:
    """Return what to do about a host that is late in single iterations.

    `late`: these iterations (ns of the trace); `longest_ns`: the longest delay; `seen`: what samples say of them.
    """
    if call := long_call_in(case, rank, late, longest_ns):
        return f"The host of rank {rank} is in one `{short(call.name, 40)}` for {text_ms(call.ns)} then: {_why(call)}"
    causes = f"{garbage_collection(case)}, allocation, a slow read of data"
    conclusion = advice_on_compiling(case, seen) or advice_on_garbage(case, seen, in_few="")
    return f"See what the host of rank {rank} does there: {seen.text or causes}{conclusion}."


def long_call_in(case: Case, rank: int, late: Spans, longest_ns: int) -> LongCall | None:
    """Return the longest call of CUDA of a rank that begins in some time; None if it lasts less than half of a delay.

    Calls that wait for the device make nobody late. `ns` of the result is the length of that call.
    """
    name, task = pl.col("name").cast(pl.String), case.run.task_by_rank[rank]
    within = pl.any_horizontal(
        pl.lit(False),
        *(pl.col("start").is_between(int(start), int(end), closed="left") for start, end in zip(*late, strict=True)),
    )
    own = case.run.calls.filter(
        pl.col("kind") == "cuda", pl.col("task") == task, ~name.str.contains(f"{CALL_THAT_WAITS}|Query"), within
    )
    if own.is_empty():
        return None
    lasting = own.select(name=name, ns=pl.col("end") - pl.col("start"))
    call, ns = lasting.sort("ns", "name").row(-1)
    return LongCall(call, ns) if ns >= ONE_PLACE.value * longest_ns else None


def _why(call: LongCall) -> str:
    """Return why a call may be long once, and what to do, as the end of a sentence."""
    if "Launch" in call.name:
        return FIRST_LAUNCH
    managing = pl.Series([call.name]).str.contains(MANAGING_MEMORY)[0]
    return ALLOCATE_BEFORE if managing else f"{KEEP[0].lower()}{KEEP[1:]}"
