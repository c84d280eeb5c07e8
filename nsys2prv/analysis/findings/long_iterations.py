"""Long iterations: a few take much longer than the others, for other work or because the host does other things."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.chief_gap import ChiefGap, chief_gap_of_long, seen_in_gap, where_text
from nsys2prv.analysis.facts.hosts.code_loading import advice_on_loading, long_ones_load
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen
from nsys2prv.analysis.facts.hosts.garbage import advice_on_garbage, garbage_collection
from nsys2prv.analysis.facts.starved import PARTS
from nsys2prv.analysis.facts.thresholds import EXPLAINS, MOST_NAMED, SAME_COUNT
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.interval_frames import at_longest
from nsys2prv.analysis.sentences import counted
from nsys2prv.model.units import text_ms

OTHER_WORK = Words(
    general="See what long ones do beside the others' work, such as output, statistics, evaluation, or kernels that "
    "are tried for new shapes: do it less often or in fewer launches, and keep shapes the same.",
    pytorch="See what long ones do beside the others' work, such as evaluation, statistics for a log, or kernels that "
    "are tried for new shapes: do it less often, without gradients and in large batches, and keep shapes the same.",
)
HOST_WORK = Words(
    general="checkpoints, logs, results that are written, {garbage}, or code that is compiled again. Move it to "
    "another process",
    pytorch="checkpoints, logs, {garbage}, code that is compiled again, or a new epoch, for which a DataLoader starts "
    "its processes (persistent_workers=True keeps them). Move it to another process",
    cuda="checkpoints, logs, results that are written, or memory that is allocated. Move it to another thread",
)
LARGER_INPUT = Words(
    general="Their input is larger, as with sequences of unlike length: sort it by length, pack several into one, or "
    "limit a batch by its tokens rather than by its rows.",
    cuda="Their work is larger, as where particles gather, a grid is refined or a solver takes more steps: limit it in "
    "each iteration, or spread it over several.",
)


def long_iterations(case: Case) -> Iterator[Finding]:
    """Yield the time that a few long iterations take beyond usual ones, as far as host or devices work in it.

    That is: devices have nothing to do while the host is busy, or they compute longer. The rest of the time is that of
    other rules: on loading data, calls of the system, copies and waiting.
    """
    long = case.long_steps
    if long.lengths.is_empty():
        return
    # Rules on the other parts leave out the longest iteration of all.
    parts = ["launching"] if long.found.height > 1 else PARTS
    starving = max(long.more_of(case.starved.select("repeat", "number", ns=pl.sum_horizontal(parts))), 0.0)
    computing = max(long.more_of(case.analysis.iterations.select("repeat", number="iteration", ns="compute_ns")), 0.0)
    count = long.found.height
    if (starving + computing) * count < EXPLAINS.value * long.excess_ns:
        return
    length = float(long.found["ns"].mean() or 0)  # type: ignore[arg-type]
    of_host = starving > computing
    gap = chief_gap_of_long(case) if of_host else None
    seen = seen_in_gap(case, gap, long.spans) if of_host else Seen()
    cause, advice = _cause(case, of_host, gap, seen)
    yield Finding(
        "long-iterations",
        f"{_long_ones(long.lengths)} {text_ms(length)}, the others {text_ms(long.usual_ns)}: {cause}",
        (starving + computing) * count / case.step_count,
        advice,
        iterations=tuple(sorted(set(long.found["number"].to_list()))),
        evidence={
            "long_ns": round(length),
            "usual_ns": round(long.usual_ns),
            "excess_ns": round(long.excess_ns / case.step_count),
            "host_busy_longer_ns": round(starving),
            "compute_longer_ns": round(computing),
            **seen.evidence,
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show iterations,idle",
        cfg="analysis/pop_by_iteration",
        at_ns=int(long.found.select(at_longest("ns", "begin")).item()),
    )


def _long_ones(lengths: pl.DataFrame) -> str:
    """Return the long ones of LongSteps.lengths and a verb: `Iteration 8 takes`, `3 of 13 iterations (3, 7) take`."""
    count = int(lengths["long"].sum())
    if count == 1:
        return f"{counted(lengths.filter('long').select('number', 'repeat').rows()).capitalize()} takes"
    return f"{count} of {lengths.height} iterations ({_named(lengths)}) take"


def _named(lengths: pl.DataFrame) -> str:
    """Name the long ones of LongSteps.lengths, and how often they come.

    `2, 9, 16: every 7th`; of several epochs `4 of repeats 0 to 2: every 6th`.
    """
    at = np.flatnonzero(lengths["long"].to_numpy())
    own = lengths.select("number", "repeat")[at]
    names = counted(own.rows()).partition(" ")[2]
    if not own["repeat"].sum():
        more = " ..." if len(at) > MOST_NAMED.value else ""
        names = ", ".join(map(str, own["number"].head(int(MOST_NAMED.value)))) + more
    apart = np.unique(np.diff(at))
    return f"{names}: every {_ordinal(int(apart[0]))}" if len(at) > 2 and len(apart) == 1 and apart[0] > 1 else names


def _ordinal(number: int) -> str:
    """Return a number as `2nd`, `3rd` or `7th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _cause(case: Case, of_host: bool, gap: ChiefGap | None, seen: Seen) -> tuple[str, str]:
    """Return what is in the long iterations, and advice. `of_host`: they are longer because devices have no work.

    `gap`: where they have none; `seen`: what samples say of hosts then.
    """
    longer, usual = _kernels(case)
    single = case.long_steps.found.height == 1
    if longer > SAME_COUNT.value * usual:
        return (
            f"{'it launches' if single else 'they launch'} {longer:,.0f} kernels, the others {usual:,.0f}",
            OTHER_WORK.of(case.framework),
        )
    if of_host and long_ones_load(case):
        return (
            "code is loaded, as where kernels are compiled for new shapes, and the device has no work",
            advice_on_loading(case),
        )
    if of_host:
        garbage = advice_on_garbage(case, seen, "in long iterations")
        known = f"{seen.text}{garbage}. Move it to another thread or process" if seen.text else ""
        others = HOST_WORK.of(case.framework).format(garbage=garbage_collection(case))
        return (
            "the host is busy meanwhile, and the device has no work",
            f"See what the host does in them{where_text(gap)}: {known or others}, or do it less often.",
        )
    return (
        f"{'it computes' if single else 'they compute'} longer, with as many kernels",
        LARGER_INPUT.of(case.framework),
    )


def _kernels(case: Case) -> tuple[float, float]:
    """Return how many kernels begin on a device in a long iteration, and in another, on average."""
    lengths = case.long_steps.lengths
    begin = lengths["begin"].to_numpy()
    start = case.kernels["start"].to_numpy()
    at = np.searchsorted(begin, start, side="right") - 1
    inside = (at >= 0) & (start < (begin + lengths["ns"].to_numpy())[np.maximum(at, 0)])
    counts = np.bincount(at[inside], minlength=len(begin)) / max(len(case.run.devices), 1)
    long = lengths["long"].to_numpy()
    return float(counts[long].mean()), float(counts[~long].mean())
