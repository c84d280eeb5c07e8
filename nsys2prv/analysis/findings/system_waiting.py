"""Waiting in the system: devices have nothing to do while the launching thread is in a call such as `poll`."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.findings.case import Case, text_ms
from nsys2prv.analysis.findings.chief_cause import interpreter_lock
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.starved import idle_gaps, system_calls


def system_waiting(case: Case) -> Iterator[Finding]:
    """Yield the time in which devices have nothing to do while the threads that launch are in OS calls."""
    cost, mean = case.idle("system")
    if not cost:
        return
    name, idle, calls = system_calls(case.run, idle_gaps(case.found)).row(0)
    yield Finding(
        "system-waiting",
        f"The device waits {text_ms(cost)} {case.unit} while the host is in `{name}`",
        cost,
        interpreter_lock(case, case.run.ranks.values(), name)
        or "The thread that launches waits for another one or sleeps: for data, prepare more ahead (num_workers, "
        "prefetch_factor); else look for locks, files and pauses (nsys profile --python-sampling=true shows where).",
        iterations=case.iterations,
        evidence={
            "call": name,
            "calls": calls,
            "idle_in_call_ns": round(idle / case.steps),
            "idle_in_calls_ns": round(mean),
        },
        command="nsys2prv analyze RUN --show idle,api",
        cfg="basics/osrt",
        at_ns=case.starved.sort("system")["at"][-1],
    )
