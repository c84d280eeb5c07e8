"""Sentences on a run that the terminal and the page share: its size, its window, iterations left out, and defects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.efficiency import Efficiency, Phase
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.iterations.window import recordings
from nsys2prv.model.units import MS
from nsys2prv.model.words import few_ranks, short
from nsys2prv.report.nvprof.database import SERIAL
from nsys2prv.run.defects import Defect
from nsys2prv.run.iterations.steady import STEADY

# Highest number of runs of iterations that are named, and of ways in which repeats have different ones.
MOST_RUNS_NAMED, MOST_WAYS_NAMED = 6, 3
# Share of the mean length of iterations from which on their median is told, too.
MEDIAN_TOLERANCE = 0.2
# Efficiency of communication (of 1) from which on what lowers it is not told.
COMMUNICATION_WHOLE = 0.995
# Name of the row of iterations with the time between them.
WHOLE_ITERATIONS = "whole iterations"
# Name of the factor of efficiency that copies lower.
_COPIES = "copies"
# In place of an efficiency.
SERIAL_KERNELS = f"No efficiency: {SERIAL}."


def run_size(analysis: Analysis) -> str:
    """Return the numbers of ranks, helpers, GPUs and hosts: `4 ranks and 1 helper process, 4 GPUs, 2 hosts`."""
    tasks, ranks = analysis.run.tasks, analysis.run.rank_count
    helpers = len(tasks) - ranks
    beside = f" and {helpers} helper process{'es' * (helpers != 1)}" if helpers else ""
    sizes = [
        (ranks, "rank", beside),
        (len(analysis.run.devices), "GPU", ""),
        (len({t.host for t in tasks}), "host", ""),
    ]
    return ", ".join(f"{count} {what}{'s' * (count != 1)}{more}" for count, what, more in sizes)


def window_name(analysis: Analysis) -> str:
    """Return the name of the window of interest, with its iterations."""
    window = analysis.window
    if window.iterations:
        return f"{window.name}, {counted(window.iterations)}"
    return _recorded_time(analysis) if window.name == STEADY else window.name


def window_beside_parts(analysis: Analysis) -> str:
    """Return the name of the window beside phases and iterations.

    It is `step 5 (on hosts)` where one of them is `step 5`, too. The two differ: a window lasts from the begin to the
    end of its range on hosts, a part of the run as long as the device activity that was launched in it.
    """
    window = analysis.question.window
    parts = (*analysis.phases, *analysis.iteration_efficiency)
    return f"{window} (on hosts)" if window in (part.name for part in parts) else window


def windows_by_name(analysis: Analysis) -> Iterator[tuple[str, Efficiency]]:
    """Yield the efficiencies of the window, each with the name of its row; that of whole iterations if it is told."""
    yield window_beside_parts(analysis), analysis.efficiency
    if analysis.leaves_time_between:
        yield WHOLE_ITERATIONS, analysis.whole_efficiency


def parts_by_name(phases: Sequence[Phase], iterations: Sequence[Phase]) -> Iterator[tuple[str, Phase]]:
    """Yield phases and iterations with the names of their rows.

    A phase that is an iteration comes once. Where several iterations have its name, it has another one:
    `step 0 (phase)`.
    """
    of_iterations = {one.name: one for one in iterations}
    for phase in phases:
        same = of_iterations.get(phase.name)
        if same is None or same.occurrences != phase.occurrences:
            yield phase.name if same is None else f"{phase.name} (phase)", phase
    yield from ((one.name, one) for one in iterations)


def _recorded_time(analysis: Analysis) -> str:
    """Name the window of ranks that have no iterations: a chosen time may have no event of some of them."""
    run, window = analysis.run, analysis.window
    known = {run.rank(task): span for task, span in recordings(run).items() if task in run.rank_tasks}
    here = [rank for rank, span in known.items() if span.start < window.end and span.end > window.start]
    if len(known) == 1:
        return "from the first to the last device activity" if analysis.efficiency.measured else "the recorded time"
    if len(here) == len(known):
        return "the time in which all ranks recorded"
    return f"the time in which only {few_ranks(here)} recorded"


def left_out(analysis: Analysis) -> Iterator[str]:
    """Yield a sentence for each reason to leave out iterations."""
    by_why: dict[str, list[tuple[int, int]]] = {}
    for one in analysis.window.left_out:
        by_why.setdefault(one.why, []).append((one.iteration, one.repeat))
    for why, left in by_why.items():
        yield f"{counted(left)} left out: {why}"


def untold_defects(analysis: Analysis, shown: Sequence[Finding]) -> list[Defect]:
    """Return the defects that show in figures and that none of the `shown` findings names, the worst first."""
    untold = (one for one in analysis.run.defects if not any(one.sentence in finding.title for finding in shown))
    return [one for one in untold if one.shows]


def counted(iterations: Sequence[tuple[int, int]]) -> str:
    """Name iterations, each as (number, repeat): `iterations 0 to 3`, or `iterations 0 to 3 of repeats 0 to 2`."""
    of_repeat: dict[int, set[int]] = {}
    for number, repeat in iterations:
        of_repeat.setdefault(repeat, set()).add(number)
    if not any(of_repeat):
        return _numbered("iteration", of_repeat.get(0, set()))
    repeats: dict[frozenset[int], list[int]] = {}
    for repeat, numbers in sorted(of_repeat.items()):
        repeats.setdefault(frozenset(numbers), []).append(repeat)
    named = [f"{_numbered('iteration', numbers)} of {_numbered('repeat', own)}" for numbers, own in repeats.items()]
    others = sum(len(numbers) * len(own) for numbers, own in list(repeats.items())[MOST_WAYS_NAMED:])
    return ", ".join(named[:MOST_WAYS_NAMED]) + (f" and {others} in other repeats" if others else "")


def _numbered(what: str, numbers: Iterable[int]) -> str:
    """Name things by their numbers, and a run of them by first and last number: `iterations 1 to 13, 16 to 28`."""
    ordered = np.array(sorted(numbers))
    runs = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
    named = [f"{own[0]} to {own[-1]}" if len(own) > 1 else str(own[0]) for own in runs[:MOST_RUNS_NAMED]]
    others = sum(len(own) for own in runs[MOST_RUNS_NAMED:])
    more = f" and {others} more" if others else ""
    return f"{what}{'s' * (len(ordered) != 1)} {', '.join(named)}{more}"


def found_by(analysis: Analysis) -> Iterator[str]:
    """Yield the work by whose repetition iterations were found, if they were."""
    if analysis.found_by:
        on_all = " on every rank" if analysis.run.rank_count > 1 else ""
        yield f"Iterations found by `{short(analysis.found_by)}`, which repeats{on_all}"


def below_clock_error(error: int | None) -> str:
    """Say which waits for another host the clocks do not tell, given their error (ns; None: not known); empty: none."""
    if error is None:
        return "waits for another host are uncertain: nothing tells the error of the clocks"
    return f"waits for another host under {MS.text(error)} ms are below the error of the clocks" if error else ""


def communication_name(analysis: Analysis) -> str:
    """Return the name of the factor of efficiency that transfers lower.

    Copies count as communication; a run without any other has none that a reader would call so.
    """
    of_ranks = (analysis.run.work["kind"] == NCCL).any() or analysis.run.rank_count > 1
    return "communication" if of_ranks else _COPIES


def communication_row(analysis: Analysis) -> list[dict[str, float]]:
    """Return the row of the table of factors of communication (of 1); none of copies, which wait for no rank.

    Columns: communication, serialization, transfer.
    """
    factors = analysis.communication_factors if communication_name(analysis) != _COPIES else {}
    return [{"communication": analysis.efficiency.communication, **factors}] if factors else []


def factors_by_name(e: Efficiency, analysis: Analysis) -> dict[str, float]:
    """Return the factors (of 1) of an efficiency of devices, by their names; a single device has no load balance."""
    balance = {"load balance": e.load_balance} if len(e.devices) > 1 else {}
    return {**balance, communication_name(analysis): e.communication, "orchestration": e.orchestration}


def efficiency_text(e: Efficiency, analysis: Analysis) -> str:
    """Return an efficiency of devices and its factors: `9.1 % = load balance 99.8 x communication 9.4 x ...`."""
    return f"{100 * e.parallel:.1f} % = {_product(factors_by_name(e, analysis))}"


def _product(factors: Mapping[str, float]) -> str:
    """Return factors (of 1) as text, in percent."""
    return " x ".join(f"{name} {100 * value:.1f}" for name, value in factors.items())


def below_efficiency(analysis: Analysis) -> Iterator[str]:
    """Yield the lines that belong below the efficiency of a run: within iterations, its communication, idle GPUs."""
    yield from _efficiency_within(analysis)
    yield from communication_text(analysis)
    yield from _without_compute(analysis)


def communication_text(analysis: Analysis) -> Iterator[str]:
    """Yield communication as a product, as late ranks and slow transfers need other remedies; nothing if it is whole.

    Such as `communication 41.0 = waiting for late ranks 47.5 x transfers 86.2`.
    """
    whole, parts = analysis.headline_efficiency.communication, analysis.communication_factors
    if parts and analysis.run.rank_count > 1 and whole < COMMUNICATION_WHOLE:
        named = {"waiting for late ranks": parts["serialization"], "transfers": parts["transfer"]}
        yield f"communication {100 * whole:.1f} = {_product(named)}"


def _without_compute(analysis: Analysis) -> Iterator[str]:
    """Yield a sentence on GPUs that compute nothing while others do: the load balance counts them."""
    times = analysis.efficiency.devices
    idle = [time.device for time in times if not time.useful_ns]
    if idle and len(idle) < len(times):
        first = idle[0]
        named = f"GPU {first.gpu} of rank {first.rank}" if len(idle) == 1 else f"{len(idle)} of {len(times)} GPUs"
        yield f"{named} compute{'s' * (len(idle) == 1)} nothing in the window, which lowers the load balance"


def _efficiency_within(analysis: Analysis) -> Iterator[str]:
    """Yield the efficiency within iterations, which tables and cfgs have, if the one of the headline is another."""
    if analysis.leaves_time_between:
        within = 100 * analysis.efficiency.parallel
        yield f"of all the time; {within:.1f} % within iterations, which tables and cfgs have"


def window_time(analysis: Analysis) -> str:
    """Return how long the window lasts, after its name: `200.462 ms in all, an iteration every 67.073 ms`.

    It is that of its iterations where much of them is between their device work: see `outside_device_work`. If the
    median iteration is far from the mean, as where a few are long, it follows: `(median 22.104 ms)`.
    """
    times = _iteration_times(analysis)
    lasting = MS.text(analysis.headline_efficiency.window_ns)
    if times is None:
        return f"{lasting} ms"
    mean, median = (float(ns or 0) for ns in (times.mean(), times.median()))  # type: ignore[arg-type]
    apart = abs(mean - median) > MEDIAN_TOLERANCE * mean
    usual = f" (median {MS.text(median)} ms)" if apart else ""
    return f"{lasting} ms in all, an iteration every {MS.text(mean)} ms{usual}"


def outside_device_work(analysis: Analysis) -> Iterator[str]:
    """Yield how much of the iterations the window covers, if much is between their device work; else nothing."""
    if analysis.leaves_time_between:
        inside, whole = analysis.efficiency.window_ns, analysis.whole_efficiency.window_ns
        yield (
            f"{100 * (1 - inside / whole):.0f} % of it lies between iterations, from their last device work to the "
            f"next one's first: tables and cfgs cover the other {MS.text(inside)} ms"
        )


def _iteration_times(analysis: Analysis) -> pl.Series | None:
    """Return the measured times (ns) of the iterations of the window, None without any."""
    timed = [one for one in analysis.explanation.predictions[:1] if one.iterations["iteration"].null_count() == 0]
    return timed[0].iterations["measured_ns"] if analysis.window.iterations and timed else None
