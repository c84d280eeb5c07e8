"""Work of a host in place of launching, and what to do about it: titles and advice of the finding `host-bound`."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.hosts.chief_gap import IdlePlaces, where_text
from nsys2prv.analysis.facts.hosts.code_loading import (
    advice_on_compiling,
    advice_on_loading,
    has_ffts,
    iterations_that_load,
    other_threads_load,
)
from nsys2prv.analysis.facts.hosts.fewer_launches import LAUNCH_LESS, advice_on_processes, gpus_of_a_thread
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen, see_samples
from nsys2prv.analysis.facts.hosts.garbage import advice_on_garbage
from nsys2prv.analysis.facts.hosts.graphs_in_loop import advice_on_graphs
from nsys2prv.analysis.facts.hosts.host_compute import computes_between_copies, on_device_instead
from nsys2prv.analysis.facts.hosts.long_calls import (
    advice_on_blocking_copies,
    advice_on_long_call,
    calls_meanwhile,
    long_call,
    long_launches,
)
from nsys2prv.analysis.facts.hosts.round_trips import advice_on_round_trips
from nsys2prv.analysis.facts.thresholds import COMPUTING, IN_COPIES, ONE_PLACE
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.families.host.cuda_api import LAUNCHING
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.units import text_ms

# Calls that return when their copy is done.
BLOCKING_COPY = text_contains("name", LAUNCHING[DeviceKind.COPY]) & ~text_contains("name", "Async|Batch")
# Title and advice of a finding.
Told = tuple[str, str]


def busy_host(case: Case, starved: float, places: IdlePlaces, seen: Seen, in_few: str, whose: str = "") -> Told:
    """Return title and advice where the host does other things than to launch for the device: of the first that fits.

    `starved`: time in which a device has nothing launched (ns of an iteration, the mean); `places`: where it has none;
    `seen`: what samples say of that time; `in_few`: words on the few iterations with nearly all of it; `whose`: the
    devices without work and their verb, empty where it is any.
    """
    subject = whose or "the device has"
    return (
        _launches_for_many(case, whose or "each has")
        or _in_blocking_copies(case, starved, subject)
        or _loads_code(case, subject)
        or _in_long_launches(case, starved, subject)
        or _in_long_call(case, starved, places, subject)
        or _busy_between_launches(case, places, seen, in_few, subject)
    )


def _launches_for_many(case: Case, whose: str) -> Told | None:
    """Tell of a thread that launches for several GPUs, if one does."""
    gpus = gpus_of_a_thread(case)
    if gpus <= 1:
        return None
    return (
        f"Host-bound: one thread launches for {gpus} GPUs in turn, and {whose} no work meanwhile",
        f"Launch from a process for each GPU. {LAUNCH_LESS.of(case.framework)}",
    )


def _in_blocking_copies(case: Case, starved: float, whose: str) -> Told | None:
    """Tell of blocking copies, if the host is in them for much of the time."""
    if _copying_ns(case) < IN_COPIES.value * starved:
        return None
    return f"Host-bound: the host is in blocking copies, and {whose} no work", advice_on_blocking_copies(case)


def _loads_code(case: Case, whose: str) -> Told | None:
    """Tell of code that is loaded in the iterations, if it is in many."""
    loading = iterations_that_load(case)
    if not loading:
        return None
    why = f"as where kernels are compiled or tried for new shapes{', or plans of FFTs are made' * has_ffts(case)}"
    if other_threads_load(case):
        why = "by another thread each time"
    return (
        f"Host-bound: code is loaded in {loading} of {case.step_count} iterations, {why}, and {whose} no work",
        f"{advice_on_processes(case)}{advice_on_loading(case)}",
    )


def _in_long_launches(case: Case, starved: float, whose: str) -> Told | None:
    """Tell of long launching calls, if the host is in them for most of the time."""
    found = long_launches(case, starved)
    if found is None or found.share < ONE_PLACE.value:
        return None
    return (
        f"Host-bound: the host is in `{found.name}` for {text_ms(found.ns)} {case.unit} ({found.number}), and "
        f"{whose} no work",
        f"{advice_on_processes(case)}These calls are long: {found.advice}",
    )


def _in_long_call(case: Case, starved: float, places: IdlePlaces, whose: str) -> Told | None:
    """Tell of the call that the host is in, if it is mostly in one."""
    call = long_call(case, starved)
    if not call:
        return None
    # Part of the call may count for another cause, as a wait for the device that ends in it.
    lasting = f" for {text_ms(call.ns)}" if call.ns <= starved else ""
    place = where_text(places.gap)
    return (
        f"Host-bound: the host is in `{call.name}`{lasting}, and {whose} no work",
        f"{advice_on_processes(case)}{advice_on_graphs(case)}{advice_on_long_call(case, call.name)}"
        + (f" See what the host does{place}." if place else ""),
    )


def _busy_between_launches(case: Case, places: IdlePlaces, seen: Seen, in_few: str, whose: str) -> Told:
    """Tell of a host that works between launches, as samples and copies show it."""
    computes, between = seen.computing >= COMPUTING.value, computes_between_copies(case)
    title = f"Host-bound: {whose} no work while the host is busy between launches"
    if computes or between:
        where = " between a copy from the device and one to it" if between else ""
        title = f"Host-bound: the host {'computes' if computes else 'works'}{where}, and {whose} no work"
    first, instead = f"{advice_on_processes(case)}{advice_on_graphs(case)}", on_device_instead(case, seen, between)
    if computes and between:
        return title, f"{first}{seen.text[:1].upper()}{seen.text[1:]}; {instead}."
    if not computes and not between and advice_on_round_trips(case):
        instead = "where data goes to the device again, leave it there"
    look = f"See what the host does{where_text(places.gap) or ' between launches'}"
    more = advice_on_compiling(case, seen) or advice_on_garbage(case, seen, in_few) or f"; {instead}"
    return title, f"{first}{look}: {see_samples(case.run, seen, in_table=True)}{more}."


def _copying_ns(case: Case) -> float:
    """Return how long a host is in blocking copies while its device does nothing (ns of an iteration, the mean)."""
    of_cuda = (pl.col("kind") == "cuda") & BLOCKING_COPY
    if case.kept_calls(case.run.calls.filter(of_cuda)).is_empty():
        return 0.0
    return float(calls_meanwhile(case, of_cuda)["each_ns"].sum())
