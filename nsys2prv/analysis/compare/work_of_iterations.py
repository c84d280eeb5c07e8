"""Do iterations of two runs the same work? One may be marked around several, or be found by other or rarer work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.frames import GRAPH, KERNEL, NCCL, Run
from nsys2prv.analysis.iterations.phases import projected
from nsys2prv.analysis.work_attributes import blocks_of, threads_of
from nsys2prv.model.words import short

# An iteration does the work of several of the other run if so large a share of its launches is of kernels that come a
# whole number of times as often, up to so small an error, and that take as many times as long, up to another error: a
# batch in smaller parts has more launches, but takes no longer.
LEAST_MULTIPLIED_SHARE, COUNT_ERROR, TIME_ERROR = 0.75, 0.02, 0.25
# Fewest kernels of both runs that come equally often, up to the first of these errors, where the work is the same: a
# single one may do so by chance.
FEWEST_EQUAL = 2
# Least share of each run's time in kernels and graphs of those that are launched equally often in both, if these runs
# are said to make the same launches.
LEAST_SAME_SHARE = 0.75
# What launches work on the device by a name.
NAMED = (KERNEL, GRAPH)
LAUNCHED_AND_TIMED = ("task", "launched", "start", "end")


class LaunchedWork(NamedTuple):
    """The work of a kernel, graph or collective: launches, time (ns).

    It is that of all of a run, or of a rank in the mean iteration; of collectives that of a device there.
    `size`: threads of a kernel's grids, or bytes of a collective (0: not known).
    """

    launches: float
    ns: float
    size: float = 0.0


class CommonWork(NamedTuple):
    """Names of the kernels and graphs that both runs launch.

    `every`: how many; `equal`: those that come equally often; `others`: the most that come another number of times as
    often, the same for all of them; `replaced`: names of the first run alone, each with one of the second run alone
    that comes as often in its place (see `common_work`).
    """

    every: int
    equal: int
    others: int
    replaced: tuple[tuple[str, str], ...] = ()

    @property
    def is_same(self) -> bool:
        """Return whether the work is the same but for changes: half of it or more comes equally often.

        Less of it comes another number of times as often. Or all of it comes equally often but for replaced names.
        """
        if self.replaced:
            return True
        return self.equal >= FEWEST_EQUAL and 2 * self.equal >= self.every and self.equal > self.others

    @property
    def text(self) -> str:
        """Return how many are launched equally often, and what is replaced, as a clause."""
        if not self.every:
            return "no kernel or graph has the same name in both"
        named = f"with the same name{'s' * (self.every > 1)} in both"
        if self.every == 1:
            often = "equally often" if self.equal else "more often in one of them"
            text = f"the only kernel or graph {named} is launched {often}"
        else:
            count = f"{self.equal or 'none'} of the {self.every} kernels and graphs {named}"
            text = f"{count} {'is' if self.equal == 1 else 'are'} launched equally often"
        if not self.replaced:
            return text
        (old, new), more = self.replaced[0], len(self.replaced) - 1
        beside = f" ({more} more replaced)" if more else ""
        return f"{text}, and `{short(new)}` as often as `{short(old)}`, which it replaces{beside}"


class SameLaunches(NamedTuple):
    """The kernels and graphs that take most of the time of both runs, and are launched equally often in both.

    `names`: those, the longest in the first run first; `launches`: how many; `a`, `b`: their time (ns) in each run.
    """

    names: tuple[str, ...]
    launches: int
    a: float
    b: float


class MoreWork(NamedTuple):
    """An iteration of one run does the work of several of the other.

    `in_b`: that of b has more; `times`: how many times the work; `kernel`: the one that comes most often, and
    `launches` how often in an iteration of each run, the lesser first.
    """

    in_b: bool
    times: int
    kernel: str
    launches: tuple[float, float]


class IterationWork(NamedTuple):
    """The work that the steady iterations launch, by name: kernels and graphs, and collectives by operation."""

    kernels: Mapping[str, LaunchedWork] = {}
    collectives: Mapping[str, LaunchedWork] = {}


def work_of_iterations(analysis: Analysis) -> IterationWork:
    """Return the work that the steady iterations launch; nothing without iterations."""
    run, steady = analysis.run, analysis.iterations.filter("steady")
    count = steady.select("iteration", "repeat", "rank").n_unique()
    task = pl.col("rank").replace_strict(run.task_by_rank, return_dtype=pl.Int64)
    ranges = steady.select(
        "repeat", task=task, number="iteration", start="start_ns", end=pl.col("start_ns") + pl.col("total_ns")
    )
    ranges = ranges.sort("task", "start")
    named, collectives = (projected(work, ranges) for work in (_named(run), _collectives(run)))
    return IterationWork(_by_name(named, count), _by_name(collectives, _of_devices(collectives, ranges)))


def _of_devices(collectives: pl.DataFrame, ranges: pl.DataFrame) -> int:
    """Return the number of iterations of all devices that run collectives: for NCCL each of a process is a rank.

    A process without collectives counts as one.
    """
    devices = collectives.group_by("task").agg(pl.col("device").n_unique())
    of_tasks = ranges.group_by("task").agg(count=pl.struct("number", "repeat").n_unique())
    each = of_tasks.join(devices, on="task", how="left").with_columns(pl.col("device").fill_null(1))
    return int(each.select((pl.col("count") * pl.col("device")).sum()).item())


def work_of_run(run: Run) -> dict[str, LaunchedWork]:
    """Return the kernels and graphs of all of a run, by name."""
    return _by_name(_named(run), 1)


def _named(run: Run) -> pl.DataFrame:
    """Return kernels and graphs: task, launched, name, start, end and size."""
    threads = blocks_of(pl.col("shape")) * threads_of(pl.col("resources"))
    return run.work.filter(pl.col("kind").is_in(NAMED)).select(*LAUNCHED_AND_TIMED, "name", size=threads)


def _collectives(run: Run) -> pl.DataFrame:
    """Return work of NCCL, as _named does, by the name of its operation, and its device."""
    work = run.work.filter(pl.col("kind") == NCCL, pl.col("operation").is_not_null())
    return work.select(*LAUNCHED_AND_TIMED, "device", name="operation", size="bytes")


def _by_name(work: pl.DataFrame, parts: int) -> dict[str, LaunchedWork]:
    """Return the work of each name in one of a number of parts, the mean. Sizes are those of which all are known."""
    size = pl.when(pl.col("size").null_count() == 0).then(pl.col("size").sum()).otherwise(0)
    sums = work.group_by("name").agg(pl.len(), ns=(pl.col("end") - pl.col("start")).sum(), size=size)
    return {str(name): LaunchedWork(*(one / parts for one in figures)) for name, *figures in sums.rows()}


def common_work(a: Mapping[str, LaunchedWork], b: Mapping[str, LaunchedWork]) -> CommonWork:
    """Return what both runs launch, and how much of it comes equally often.

    Names are replaced if every launch of one run has its counterpart in the other: all names of both come equally
    often, and each name of one run alone as often as one of the other.
    """
    times = np.sort([b[name].launches / a[name].launches for name in a.keys() & b.keys()])
    equal = np.abs(times - 1) <= COUNT_ERROR
    others = times[~equal]
    alike = np.searchsorted(others, others * (1 + COUNT_ERROR), side="right") - np.arange(len(others))
    replaced = _replaced(a, b) if len(times) and equal.all() else ()
    return CommonWork(len(times), int(equal.sum()), int(alike.max(initial=0)), replaced)


def _replaced(a: Mapping[str, LaunchedWork], b: Mapping[str, LaunchedWork]) -> tuple[tuple[str, str], ...]:
    """Return the names of one run alone in pairs, if all of them come as often as one of the other run; else nothing.

    Those with the most launches come first.
    """
    alone = [sorted(x.keys() - y.keys(), key=lambda name: (-x[name].launches, name)) for x, y in ((a, b), (b, a))]
    pairs = tuple(zip(*alone, strict=False))
    as_often = all(abs(b[new].launches / a[old].launches - 1) <= COUNT_ERROR for old, new in pairs)
    return pairs if as_often and len(alone[0]) == len(alone[1]) else ()


def same_launches(a: Mapping[str, LaunchedWork], b: Mapping[str, LaunchedWork]) -> SameLaunches | None:
    """Return the work that all of both runs launch equally often; None if other work takes much of the time."""
    names = sorted((name for name in a.keys() & b.keys() if a[name].launches == b[name].launches), key=_longest(a))
    times = [sum(run[name].ns for name in names) for run in (a, b)]
    every = [sum(work.ns for work in run.values()) for run in (a, b)]
    if not names or any(own < LEAST_SAME_SHARE * whole for own, whole in zip(times, every, strict=True)):
        return None
    return SameLaunches(tuple(names), round(sum(a[name].launches for name in names)), times[0], times[1])


def _longest(run: Mapping[str, LaunchedWork]) -> Callable[[str], tuple[float, str]]:
    return lambda name: (-run[name].ns, name)


def more_work(a: Mapping[str, LaunchedWork], b: Mapping[str, LaunchedWork]) -> MoreWork | None:
    """Return that an iteration of one run does the work of several of the other; None if none does."""
    return _multiple(a, b, in_b=True) or _multiple(b, a, in_b=False)


def _multiple(fewer: Mapping[str, LaunchedWork], more: Mapping[str, LaunchedWork], in_b: bool) -> MoreWork | None:
    multiplied: dict[int, list[str]] = {}
    for name in sorted(fewer.keys() & more.keys()):
        times = round(more[name].launches / fewer[name].launches)
        if times > 1 and _comes(times, fewer[name], more[name]):
            multiplied.setdefault(times, []).append(name)
    launched = {times: sum(more[name].launches for name in names) for times, names in multiplied.items()}
    times = max(launched, key=lambda number: launched[number], default=0)
    if not times or launched[times] < LEAST_MULTIPLIED_SHARE * sum(work.launches for work in more.values()):
        return None
    kernel = max(multiplied[times], key=lambda name: more[name].launches)
    return MoreWork(in_b, times, kernel, (fewer[kernel].launches, more[kernel].launches))


def _comes(times: int, fewer: LaunchedWork, more: LaunchedWork) -> bool:
    """Return whether a kernel comes and takes so many times as much in an iteration of one run as in the other's."""
    parts = ((fewer.launches, more.launches, COUNT_ERROR), (fewer.ns, more.ns, TIME_ERROR))
    return all(abs(much - times * little) <= error * times * little for little, much, error in parts)
