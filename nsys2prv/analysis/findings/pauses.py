"""Pauses: interrupted iterations, in which a program evaluates, saves, or makes an epoch ready."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from nsys2prv.analysis.efficiency import USEFUL_KINDS
from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.chief_gap import chief_gap, seen_in_gap, where_text
from nsys2prv.analysis.facts.hosts.functions_of_hosts import see_samples, seen_functions
from nsys2prv.analysis.facts.hosts.system_calls import FILE_CALLS, OF_FILES, OF_PROCESSES, PROCESS_CALLS
from nsys2prv.analysis.facts.launchers import os_calls_in_gaps
from nsys2prv.analysis.facts.thresholds import ONE_PLACE, PAUSE
from nsys2prv.analysis.findings.finding import Finding, severity_of
from nsys2prv.analysis.interval_frames import covered_by
from nsys2prv.intervals.grouped import axis_over
from nsys2prv.intervals.spans import Spans, difference, intersection, one_span, overlapping, union
from nsys2prv.model.units import text_ms
from nsys2prv.run.iterations.steady import INTERRUPTED

OF_HOSTS = "See what the hosts do there (nsys2prv analyze RUN --window trace --show api,host)."
OF_COMPUTE = "Evaluate less often, in large batches, or on other GPUs from a saved state."
OF_WAITING = Words(
    general="They wait for another thread or process there: start processes that prepare data once and keep them, "
    "evaluate and save less often, or beside the loop; {samples}.",
    pytorch="They wait for another thread or process there: keep processes that load data for all epochs "
    "(persistent_workers=True), evaluate and save less often, or beside the training; {samples}.",
)


def pauses(case: Case) -> Iterator[Finding]:
    """Yield the time of pauses between steady iterations: no figure of iterations holds it, but the run takes it."""
    found, between = find_pauses(case), _recorded(case).total()
    total = found.total()
    if not total or not (severity := severity_of(total / between)):
        return
    count, computing = len(found.start), _computing(case, found)
    what, evidence, advice = _content(case, found, computing)
    yield Finding(
        "pauses",
        f"{'A pause' if count == 1 else f'{count} pauses'} between iterations {'takes' if count == 1 else 'take'} "
        f"{text_ms(total)}, {100 * total / between:.0f} % of the time from the first to the last one: {what}",
        0.0,
        advice,
        evidence={"pauses": count, "pauses_ns": total, "computing_ns": round(computing), **evidence},
        confidence="medium",
        command="nsys2prv analyze RUN --window device --show idle,api",
        cfg="basics/osrt",
        at_ns=int(found.start[(found.end - found.start).argmax()]),
        # A single one may not come again.
        severity=severity if count > 1 or severity == "low" else "medium",
        share=total / between,
    )


def find_pauses(case: Case) -> Spans:
    """Return the pauses (ns of the trace): recorded time between two steady iterations in which one was interrupted.

    Its time counts where PAUSE iterations of it or more were recorded, as of captures apart from each other hardly any
    is. Long iterations that are not left out are no pauses: the figures of iterations hold their time.
    """
    least = PAUSE.value * case.iteration_ns
    named = [(one.iteration, one.repeat) for one in case.analysis.window.left_out if one.why.startswith(INTERRUPTED)]
    key = pl.DataFrame(named, schema={"iteration": pl.Int64(), "repeat": pl.Int64()}, orient="row")
    left = case.analysis.iterations.join(key, on=["iteration", "repeat"], how="semi").sort("start_ns")
    between = difference(_recorded(case), case.analysis.window.spans)
    interrupted = union(left["start_ns"].to_numpy(), (left["start_ns"] + left["total_ns"]).to_numpy())
    found = np.unique(overlapping(between, interrupted)[0])
    long = found[(between.end - between.start)[found] >= least]
    return Spans(between.start[long], between.end[long])


def _recorded(case: Case) -> Spans:
    """Return the recorded time from the begin of the first steady iteration to the end of the last one."""
    window = case.analysis.window
    recorded = one_span(window.start, window.end)
    for of_task in case.run.captures:
        recorded = intersection(recorded, of_task)
    return recorded


def _computing(case: Case, found: Spans) -> float:
    """Return how long devices compute in pauses (ns, the mean)."""
    devices = len(case.run.devices)
    axis = axis_over(one_span(int(found.start[0]), int(found.end[-1])), devices)
    useful = case.run.work.filter(pl.col("kind").is_in(USEFUL_KINDS))
    return intersection(axis.spread(found), covered_by(axis, useful, "device", found)).total() / max(devices, 1)


def _content(case: Case, found: Spans, computing: float) -> tuple[str, dict[str, object], str]:
    """Return what most of the pauses is, evidence of it, and advice."""
    total = found.total()
    if not case.run.devices:
        return "the program does other work", {}, OF_HOSTS
    if computing >= ONE_PLACE.value * total:
        return f"devices compute for {text_ms(computing)} of it", {}, OF_COMPUTE
    gaps = case.idle_gaps(found)
    idle = int((gaps.found["until"] - gaps.found["start"]).sum())
    calls = os_calls_in_gaps(case.run, case.launchers, gaps)
    if calls.is_empty() or calls["ns"][0] < ONE_PLACE.value * idle:
        gap = chief_gap(case, found)
        seen = seen_in_gap(case, gap, found)
        return (
            "hosts are busy, and devices have no work",
            seen.evidence,
            f"See what hosts do there{where_text(gap)}: {see_samples(case.run, seen)}.",
        )
    name, ns, count = calls.row(0)
    mean = ns / max(gaps.users["device"].n_unique(), 1)
    evidence = {"call": name, "calls": count, "idle_in_call_ns": round(mean)}
    if FILE_CALLS.match(name):
        return f"hosts are in `{name}`", evidence, OF_FILES
    if PROCESS_CALLS.match(name):
        return f"hosts are in `{name}`", evidence, OF_PROCESSES.of(case.framework)
    seen = seen_functions(case, found, waiting=True)
    waiting = OF_WAITING.of(case.framework).format(samples=see_samples(case.run, seen))
    return f"hosts are in `{name}` for {text_ms(mean)} of it", {**evidence, **seen.evidence}, waiting
