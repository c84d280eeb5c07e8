"""Garbage collections of Python: advice on them, and what shows that a host may be in one."""

from __future__ import annotations

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.common_advice import CommonAdvice, parts_on
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen
from nsys2prv.analysis.facts.thresholds import ALL_COLLECTING, COLLECTING, INTERPRETER_ALONE


def garbage_collection(case: Case) -> str:
    """Return the words for garbage collection, with what to do about it."""
    when = "at the same step on all ranks" if case.run.rank_count > 1 else "when nothing waits"
    return f"garbage collection (gc.freeze() before the loop, gc.disable(), and gc.collect() {when})"


def common_garbage(case: Case, advice: str) -> tuple[CommonAdvice, ...]:
    """Return the part of an advice that is on garbage collection: a pause may be told by several findings."""
    return parts_on("garbage collection", garbage_collection(case), "garbage collection (see above)", advice)


def advice_on_garbage(case: Case, seen: Seen, in_few: str) -> str:
    """Return the end of a sentence on samples, if their host collects garbage or may do so; else an empty text.

    `seen`: samples of hosts that are in no call of the system or of CUDA then; `in_few`: words on the few iterations
    with nearly all of that time (see few_iterations). A loop in Python has most samples in the interpreter, too, and
    some in collections.
    """
    alone = bool(in_few) and seen.interpreter >= INTERPRETER_ALONE.value
    if seen.collecting >= (COLLECTING.value if alone else ALL_COLLECTING.value):
        return f"; the collector is among them: {garbage_collection(case)}"
    return f"; that may be {garbage_collection(case)}, or a loop in Python" if alone else ""
