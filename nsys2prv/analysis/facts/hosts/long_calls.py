"""Long calls of CUDA: in which call hosts are while devices have no work, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.gaps import Gaps
from nsys2prv.analysis.facts.launchers import calls_in_gaps, idle_of_launchers
from nsys2prv.analysis.facts.thresholds import BLOCKED, LONG_CALL, ONE_PLACE, PART_PLACE
from nsys2prv.analysis.frames import COPY
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.host.cuda_api import CALL_THAT_WAITS, LAUNCHING, MANAGING_MEMORY
from nsys2prv.intervals.spans import Spans, time_in
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.words import few

# Calls that belong to other findings: allocations, launches, and waits for work.
OF_OTHER_FINDINGS = rf"{MANAGING_MEMORY}|Launch|{CALL_THAT_WAITS}|Query"
COPY_IN_BACKGROUND = Words(
    general="Copy with cudaMemcpyAsync from pinned memory on a stream, and merge small copies",
    pytorch="Copy with non_blocking=True from pinned memory, merge small copies into one, and make tensors on the "
    "device where that is possible (device=)",
    jax="Put data on the device ahead of time, in few large arrays (jax.device_put does not wait), and pass results to "
    "the next step as they are: float(x) and np.asarray(x) wait for them",
    cupy="Copy from pinned memory on a stream (cupyx.empty_pinned, numba.cuda.pinned_array), and merge small copies",
)
BETWEEN_RANKS = Words(
    general="; between ranks, pass device pointers to a CUDA-aware MPI or use NCCL",
    pytorch="; between ranks use NCCL",
    jax="; between ranks use the collectives of jax.lax",
    cupy="; between ranks, pass device arrays to a CUDA-aware MPI or use NCCL",
)
# Contexts are made and code is loaded at the first call that needs them (CUDA programming guide, initialization and
# lazy loading).
WARM_UP = "A first call makes the context or loads code: call it before the part that counts (warm up)."
KEEP = "Call it once before the loop, and keep what it makes or returns (streams, events, handles, properties)."

# Calls that make, end or ask for what a program can keep, such as streams, events and properties of devices.
MAKING_OR_ASKING = r"(Stream|Event|Ctx)(Create|Destroy)|^cu(da)?(MemGetInfo|GetDeviceProp|DeviceGetAttr)"


# A kernel is loaded when it is launched for the first time (CUDA programming guide, lazy loading).
FIRST_LAUNCH = (
    "a first launch loads the code of its kernel (launch kernels of all shapes once before the loop, or set "
    "CUDA_MODULE_LOADING=EAGER); or the profiler stored what it had recorded, which a run without it does not do."
)
LATER_LAUNCH = (
    "their kernels had been launched before, so that no code was loaded. Most likely the profiler stored records, "
    "which a run without it does not do: record less (nsys profile --sample=none), and compare."
)


class LongCall(NamedTuple):
    """A call of CUDA, by its name, and the time in which hosts are in it while a device has no work.

    `ns`: of an iteration, the mean of the devices.
    """

    name: str
    ns: float


def long_call(case: Case, starved: float) -> LongCall | None:
    """Return the long call that fills most of the time in which a device has nothing launched; None without one.

    `starved`: that time (ns of an iteration, the mean).
    """
    of_cuda = (pl.col("kind") == "cuda") & ~text_contains("name", OF_OTHER_FINDINGS)
    by_name = calls_meanwhile(case, of_cuda)
    if by_name.is_empty() or by_name["each_ns"][0] < ONE_PLACE.value * starved:
        return None
    name, ns, calls, each = by_name.row(0)
    return LongCall(name, each) if ns >= LONG_CALL.value * calls else None


class LongLaunches(NamedTuple):
    """Launching calls of BLOCKED or more during which a device has no work.

    `name`: of most of that time; `number`: the words for how many, and in how many iterations; `ns`: that time
    (of an iteration, the mean of the devices); `share`: of the time with nothing launched; `later`: True if each had
    launched its kernel before.
    """

    name: str
    number: str
    ns: float
    share: float
    later: bool

    @property
    def advice(self) -> str:
        """Return why they are long, and what to do, to follow their name and a colon."""
        return LATER_LAUNCH if self.later else FIRST_LAUNCH


def long_launches(case: Case, starved: float) -> LongLaunches | None:
    """Return the long launching calls, if these fill PART_PLACE of the time in which a device has nothing launched.

    `starved`: that time (ns of an iteration, the mean).
    """
    gaps = case.idle_gaps(case.usual_time())
    calls = _long_launches_in(case, idle_of_launchers(case.launchers, gaps))
    ns = float(calls["ns"].sum()) / _iterations_of_devices(case, gaps)
    if calls.is_empty() or ns < PART_PLACE.value * starved:
        return None
    by_name = calls.group_by(pl.col("name").cast(pl.String)).agg(pl.col("ns").sum())
    name = by_name.sort("ns", "name", descending=[True, False])["name"][0]
    return LongLaunches(name, _number(case, calls), ns, min(ns / starved, 1.0), _had_been_launched(case, calls))


def _long_launches_in(case: Case, idle: Spans) -> pl.DataFrame:
    """Return the long launching calls (CALLS) in idle times on the axis of the launching threads, with `ns` of these.

    A call within another one, as one of the driver within one of the runtime, is part of that.
    """
    rows, axis = case.launchers.rows, case.launchers.axis
    is_long = pl.col("end") - pl.col("start") >= BLOCKED.value
    launches = (pl.col("kind") == "cuda") & text_contains("name", LAUNCHING[DeviceKind.COMPUTE])
    long = case.run.calls.filter(pl.col("row").is_in(pl.Series(rows).implode()), launches & is_long)
    before = pl.col("end").cum_max().shift(1).over("row")
    ordered = long.sort("row", "start", "end", descending=[False, False, True])
    outermost = ordered.filter((pl.col("start") >= before).fill_null(True))
    thread = np.searchsorted(rows, outermost["row"].to_numpy())
    start, end = (time_in(idle, axis.at(thread, outermost[c].to_numpy())) for c in ("start", "end"))
    return outermost.with_columns(ns=pl.Series(end - start, dtype=pl.Int64)).filter(pl.col("ns") > 0)


def _number(case: Case, calls: pl.DataFrame) -> str:
    """Return the words for the number of calls: `6 long calls in 6 iterations`."""
    words = f"{calls.height:,} long call{'s' * (calls.height > 1)}"
    words += " of all ranks" * (calls["task"].n_unique() > 1)
    steps = _usual_iterations(case)
    return f"{words} in {steps:,} iteration{'s' * (steps > 1)}" if case.analysis.window.iterations else words


def _had_been_launched(case: Case, calls: pl.DataFrame) -> bool:
    """Return True if the kernels that some calls (CALLS) launch had all been launched before in their process."""
    kernels = case.run.work.filter(pl.col("kind") != COPY).select("task", "name", "launched", row="caller_row")
    first = kernels.group_by("task", "name").agg(first=pl.col("launched").min())
    # A kernel may be of a call within the one that counts.
    begun = calls.select("row", "end", launched="start").sort("launched")
    own = (
        kernels.drop_nulls(["row", "launched"])
        .sort("launched")
        .join_asof(begun, on="launched", by="row", check_sortedness=False)
        .filter(pl.col("launched") <= pl.col("end"))
        .join(first, on=["task", "name"])
    )
    return own.height > 0 and bool((own["launched"] > own["first"]).all())


def advice_on_repeated_calls(case: Case, starved: float) -> str:
    """Return advice on calls that make or ask for what a loop can keep; empty where they take little time.

    `starved`: time in which a device has nothing launched (ns of an iteration, the mean).
    """
    of_cuda = (pl.col("kind") == "cuda") & text_contains("name", MAKING_OR_ASKING)
    by_name = calls_meanwhile(case, of_cuda)
    # A call of the driver may lie within one of the runtime.
    share = min(float(by_name["each_ns"].sum()) / starved, 1.0)
    if share < PART_PLACE.value:
        return ""
    names = [f"`{name}`" for name in by_name["name"]]
    return (
        f"For {100 * share:.0f} % of that time the host is in {few(names)}: make what a loop needs before it, and keep "
        "it (streams, events, properties of the device). "
    )


def calls_meanwhile(case: Case, chosen: pl.Expr) -> pl.DataFrame:
    """Return `name`, `ns` and `calls` of chosen calls in which hosts are while devices idle, by time.

    `each_ns`: of an iteration, the mean of the devices. Long iterations do not count.
    """
    gaps = case.idle_gaps(case.usual_time())
    by_name = calls_in_gaps(case.run, case.launchers, gaps, chosen)
    return by_name.with_columns(each_ns=pl.col("ns") / _iterations_of_devices(case, gaps))


def _iterations_of_devices(case: Case, gaps: Gaps) -> int:
    """Return the number of iterations in which the idle times of devices count, of all devices together."""
    return _usual_iterations(case) * max(gaps.users["device"].n_unique(), 1)


def _usual_iterations(case: Case) -> int:
    """Return the number of iterations without the long ones; 1 without iterations."""
    return case.step_count - case.long_steps.found.height


def advice_on_blocking_copies(case: Case) -> str:
    """Return advice on copies that keep the host from launching; a single rank sends nothing to others."""
    between = BETWEEN_RANKS.of(case.framework) if case.run.rank_count > 1 else ""
    return f"{COPY_IN_BACKGROUND.of(case.framework)}{between}."


def advice_on_long_call(case: Case, name: str) -> str:
    """Return advice on a long call of CUDA by its name: in a loop, or without iterations."""
    if pl.Series([name]).str.contains(LAUNCHING[DeviceKind.COPY])[0]:
        return advice_on_blocking_copies(case)
    return KEEP if case.analysis.window.iterations else WARM_UP
