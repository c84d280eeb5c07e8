"""The sentences of a comparison's verdict: what changed, by how much, and why it counts or not."""

from __future__ import annotations

from collections.abc import Sequence

from nsys2prv.analysis.compare.average import FEWEST_LONG, LEAST_APART, Average, average
from nsys2prv.analysis.compare.collective_counts import of_other_counts
from nsys2prv.analysis.compare.compare_figures import same_marks, same_pattern
from nsys2prv.analysis.compare.run_figures import RunFigures
from nsys2prv.analysis.compare.significance import LEAST_CHANGE, Change, Significance, least_iterations
from nsys2prv.analysis.compare.size_of_work import of_other_input, other_bytes, other_grids
from nsys2prv.analysis.compare.verdict import DecidedBy, Decision
from nsys2prv.analysis.compare.work_of_iterations import common_work, more_work, same_launches
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.model.words import short
from nsys2prv.run.iterations.steady import STEADY

NONE = "No difference that the spread of iterations does not explain"
# More than chance explains, and less than counts.
NONE_THAT_COUNTS, BELOW = "No difference that counts", f"real but below {100 * LEAST_CHANGE:g} %"
UNKNOWN = "It cannot be told if B is slower"
# A lower p is written so.
LEAST_P = 0.001
# Ranks whose change a verdict tells.
MOST_CHANGED = 3


def verdict_sentences(a: RunFigures, b: RunFigures, tested: Significance, decision: Decision) -> str:
    """Return the sentences of a decision about two runs."""
    if tested.iteration is None:
        if told := _of_same_launches(a, b):
            return f"{told} Whether that is chance cannot be told: {without_iterations(a, b, tested)}."
        return f"{UNKNOWN}: {without_iterations(a, b, tested)}.{_without_test(a, b)}"
    decided = tested.average if tested.average and decision.by == DecidedBy.AVERAGE else tested.iteration
    beside = decision.explained_by(decided.a, decided.b) if decision.by != DecidedBy.RANKS else ()
    return "".join(
        [
            _decided(tested, tested.iteration, decision),
            of_other_input(other_grids(a.work, b.work), other_bytes(a.collectives, b.collectives)),
            of_other_counts(a, b),
            f" {_ranks(beside)}." if beside else "",
            _of_marks(a, b),
        ]
    )


def _decided(tested: Significance, iteration: Change, decision: Decision) -> str:
    """Return the sentences on what a decision rests on. `iteration`: the change of the iteration."""
    if tested.average and decision.by == DecidedBy.AVERAGE:
        usual = _times(iteration) if iteration.p is None else _taken(iteration)
        what = NONE_THAT_COUNTS if decision.outcome == "none" else f"B is {decision.outcome}"
        return f"{what}: {tested.average.text}. The usual one (median) takes {usual}."
    mean = _of_average(tested)
    if decision.by == DecidedBy.MEDIAN:
        return f"B is {decision.outcome}: the median iteration takes {_taken(iteration)}.{mean}"
    if decision.by == DecidedBy.RANKS and iteration.p is None:
        return f"{_ranks(decision.ranks)}. The median iteration takes {_times(iteration)}; {_too_few(tested)}.{mean}"
    if decision.by == DecidedBy.TOO_FEW:
        return f"{UNKNOWN}: {_too_few(tested)}. The median iteration takes {_times(iteration)}.{mean}"
    alone = _of_ranks_alone(iteration, decision.ranks) if decision.by == DecidedBy.RANKS else ""
    if iteration.probable and not _mean_moves_otherwise(tested, iteration):
        word = "slower" if iteration.share > 0 else "faster"
        return (
            f"B is probably {word}, but that is not proven: the median iteration takes {_times(iteration)[:-1]}, "
            f"p = {iteration.p:.3f}; proven from {iteration.level:g} on, which more iterations may reach).{mean}{alone}"
        )
    if tested.average and _may_count(tested.average):
        return f"{_open(tested.average, iteration)}{alone}"
    what = NONE_THAT_COUNTS if iteration.real else NONE
    return f"{what}: the median iteration takes {_taken(iteration)}.{mean}{alone}"


def _mean_moves_otherwise(tested: Significance, iteration: Change) -> bool:
    """Return whether the average iteration changed in the other direction than the median, `iteration`."""
    return tested.average is not None and tested.average.share * iteration.share < 0


def _may_count(mean: Average) -> bool:
    """Return True if the average iteration changed by much, though too few long ones decide that."""
    less, more = sorted((mean.a, mean.b))
    return mean.apart and more >= LEAST_APART * less


def _open(mean: Average, iteration: Change) -> str:
    """Return the sentences on an average that changed by much, where the median, `iteration`, did not."""
    word = "slower" if mean.share > 0 else "faster"
    opposed = mean.share * iteration.share < 0
    what = "It is open if B is slower or faster" if opposed else f"B may be {word}, but that is not proven"
    return (
        f"{what}: {mean.text}, and fewer than {FEWEST_LONG} long ones may be chance. "
        f"The usual one (median) takes {_taken(iteration)}."
    )


def _of_ranks_alone(iteration: Change, ranks: Sequence[Change]) -> str:
    """Return the ranks that changed though the iteration did not, and how much of it that is, as a sentence."""
    text = _ranks(ranks)
    most = 100 * max(abs(one.b - one.a) for one in ranks) / max(iteration.a, 1)
    return f" But {text[0].lower()}{text[1:]}: {most:.1f} % of the iteration{' at most' * (len(ranks) > 1)}."


def _of_average(tested: Significance) -> str:
    """Return what an iteration takes on average, as a sentence, where the median alone would mislead."""
    mean = tested.average
    if mean is None or not mean.apart:
        return ""
    return f" On average it takes {_times(Change(None, mean.a, mean.b, None))}."


def without_iterations(a: RunFigures, b: RunFigures, tested: Significance) -> str:
    """Return why no iterations are compared, and what to do, as a clause."""
    instead = ", and --window device compares without iterations" if a.window == STEADY else ""
    if more := more_work(a.work, b.work):
        one, other = "BA" if more.in_b else "AB"
        least, most = (f"{number:,.0f}" for number in more.launches)
        return (
            f"an iteration of {one} does the work of {more.times} iterations of {other}, {most} launches of "
            f"{short(more.kernel)} instead of {least}; --iteration names an NVTX range of the same work in both"
            f"{instead}"
        )
    if not same_marks(a, b):
        patterns, common = f"{a.iteration_pattern!r} in A, {b.iteration_pattern!r} in B", common_work(a.work, b.work)
        known = f", and in an iteration {common.text}" if a.work and b.work else ""
        return f"the iterations are of other work, {patterns}{known}; --iteration names an NVTX range of both{instead}"
    which = " and ".join(n for n, count in zip("AB", tested.iterations, strict=True) if not count)
    whole = instead if any(tested.iterations) or a.kept or b.kept else ""
    return f"no steady iterations in {which}; --iteration names their NVTX range{whole}"


def _of_same_launches(a: RunFigures, b: RunFigures) -> str:
    """Return how long the same launches of both recordings take, as a sentence; nothing where they are others.

    Nor where a window of time was asked for, or iterations of other lengths do the same work: see `_without_test`.
    """
    same = same_launches(a.recorded_work, b.recorded_work)
    if same is None or a.window != STEADY or a.active_ns is None or b.active_ns is None or more_work(a.work, b.work):
        return ""
    one = len(same.names) == 1
    of = f"`{short(same.names[0])}`" if one else f"{len(same.names)} kernels and graphs"
    work, recorded = Change(None, same.a, same.b, None), Change(None, a.active_ns, b.active_ns, None)
    return (
        f"In B the same {same.launches:,} launch{'es' * (same.launches != 1)} of {of} take"
        f"{'s' * (same.launches == 1)} {_times(work)}, and all from the first activity to the last {_times(recorded)}."
    )


def _of_marks(a: RunFigures, b: RunFigures) -> str:
    """Return why iterations that are found by other work compare, as a sentence; nothing for those of one name."""
    if same_pattern(a, b):
        return ""
    patterns = f"by {short(str(a.iteration_pattern))!r} in A, by {short(str(b.iteration_pattern))!r} in B"
    return f" Iterations are found {patterns}; in an iteration {common_work(a.work, b.work).text}."


def _without_test(a: RunFigures, b: RunFigures) -> str:
    """Return what takes how long where no iterations are compared, as a sentence: the window, or the same work.

    Steady iterations may be others. There, all that was recorded is compared; of a stored run that is not known.
    """
    if a.window != STEADY:
        window = Change(None, a.figures["window", "duration_ns"], b.figures["window", "duration_ns"], None)
        return f" The window ({short(a.window)}) takes {_times(window)}."
    if (more := more_work(a.work, b.work)) and a.kept and b.kept:
        means = average(iteration_lengths(a.iterations), iteration_lengths(b.iterations))
        once = (means.a * more.times, means.b) if more.in_b else (means.a, means.b * more.times)
        work = f"{more.times} iterations of {'A' if more.in_b else 'B'}"
        return f" The work of {work} takes {_times(Change(None, *once, None))} on average."
    if a.active_ns is None or b.active_ns is None:
        return ""
    recorded, common = Change(None, a.active_ns, b.active_ns, None), common_work(a.recorded_work, b.recorded_work)
    # Of a single name this tells nothing of the rest.
    known = f", and in all of that {common.text}" if common.every > 1 else ""
    return f" From the first activity to the last it takes {_times(recorded)}{known}."


def _too_few(tested: Significance) -> str:
    counts = " and ".join(map(str, tested.iterations))
    return f"{counts} steady iterations are too few to tell, record {least_iterations()} or more of each run"


def _ranks(changed: Sequence[Change]) -> str:
    shown = [f"{one.subject} {_taken(one)} an iteration" for one in changed[:MOST_CHANGED]]
    others = len(changed) - MOST_CHANGED
    more = f", and {others} more rank{'s' * (others != 1)} changed" if others > 0 else ""
    text = ", ".join(shown) + more
    return text[0].upper() + text[1:]


def _times(change: Change) -> str:
    """Write both times and the difference, in ms with three digits or more."""
    digits = 1 if min(change.a, change.b) >= 1e7 else 3
    a, b = (f"{ns / 1e6:.{digits}f}" for ns in (change.a, change.b))
    return f"{b} ms instead of {a} ({change.difference})"


def _taken(change: Change) -> str:
    """Write both times, the difference, and its significance."""
    word = "significant" if change.significant else BELOW if change.real else "not significant"
    p = f"p < {LEAST_P:g}" if change.p is not None and change.p < LEAST_P else f"p = {change.p:.3f}"
    return f"{_times(change)[:-1]}, {word}: {p})"
