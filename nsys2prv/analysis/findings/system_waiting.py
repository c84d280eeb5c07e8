"""Waiting in the system: devices have nothing to do while the launching thread is in a call such as `poll`."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.few_iterations import starved_in_few
from nsys2prv.analysis.facts.gaps import Gaps, kept_time
from nsys2prv.analysis.facts.hosts.code_loading import advice_on_loading, common_loading, iterations_that_load
from nsys2prv.analysis.facts.hosts.functions_of_hosts import seen_functions
from nsys2prv.analysis.facts.hosts.system_calls import advice_on_call
from nsys2prv.analysis.facts.launchers import os_calls_in_gaps
from nsys2prv.analysis.facts.ranks.chief_cause import interpreter_lock
from nsys2prv.analysis.facts.ranks.host_on_path import in_system, waiting_title
from nsys2prv.analysis.facts.starved import longest_at
from nsys2prv.analysis.facts.thresholds import IN_TURN, ONE_PLACE
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.model.units import text_ms

# Begin of the names of the threads in which PyTorch's Gloo exchanges data and launches its copies (ProcessGroupGloo).
GLOO_THREAD = "pt_gloo"


def system_waiting(case: Case) -> Iterator[Finding]:
    """Yield the time in which devices have nothing to do while the threads that launch are in OS calls."""
    least, mean = case.idle("system")
    on_path = in_system(case)
    cost = max(least, on_path.unexplained_ns)
    if not cost:
        return
    gaps = case.idle_gaps(kept_time(case.analysis))
    seen = seen_functions(case, kept_time(case.analysis), waiting=True)
    in_turn = cost > IN_TURN.value * least
    if in_turn:
        # Devices may idle in none of these calls.
        name = on_path.call
        of_call = {"calls": on_path.calls, "path_in_call_ns": round(on_path.call_ns)}
    else:
        in_gaps = os_calls_in_gaps(case.run, case.launchers, gaps)
        # An idle time may go on into an iteration that is left out, and have its calls there.
        if in_gaps.is_empty():
            return
        name, ns, calls = in_gaps.row(0)
        of_call = {"calls": calls, "idle_in_call_ns": round(ns / case.step_count)}
    advice = (
        _of_gloo(case, gaps)
        or interpreter_lock(case, case.run.ranks.values(), str(name))
        or _of_compiling(case)
        or advice_on_call(case, str(name), seen)
    )
    yield Finding(
        "system-waiting",
        waiting_title(f"{text_ms(cost)} {case.unit}", str(name), in_turn) + starved_in_few(case, "system"),
        cost,
        advice,
        iterations=case.iterations,
        evidence={
            "call": name,
            **of_call,
            "idle_in_calls_ns": round(mean),
            "on_critical_path_ns": round(on_path.unexplained_ns),
            **seen.evidence,
        },
        command="nsys2prv analyze RUN --show idle,api",
        cfg="basics/osrt",
        at_ns=longest_at(case.starved, "system"),
        common=common_loading(case, advice),
    )


def _of_compiling(case: Case) -> str:
    """Return advice where code is loaded in the loop, as after other processes have compiled it; else nothing."""
    loading = iterations_that_load(case)
    if not loading:
        return ""
    return f"Code is loaded in {loading} of {case.step_count} iterations. {advice_on_loading(case)}"


def _of_gloo(case: Case, gaps: Gaps) -> str:
    """Return advice where most idle time ends with a launch by a thread of Gloo; else nothing."""
    rows = [row for row, label in enumerate(case.run.row_labels) if label.startswith(GLOO_THREAD)]
    idle = gaps.found.select("caller_row", ns=pl.col("until") - pl.col("start"))
    of_gloo = int(idle.filter(pl.col("caller_row").is_in(rows))["ns"].sum())
    if not of_gloo or of_gloo < ONE_PLACE.value * int(idle["ns"].sum()):
        return ""
    return (
        "Ranks exchange data by Gloo: it copies from the GPU, sends by the host's network, and copies back. Use NCCL "
        "(torch.distributed.init_process_group('nccl')) with a GPU for each rank."
    )
