"""What the analysis cfgs should say of a run, by SQL and plain loops over its rows.

Nothing of the project is used but the rules of kernel classes, which have tests of their own.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from truth_rows import Event, Report, Span, Table, common, length, union
from truth_waiting import mpi, nccl, split

# Ranges of the steady iterations of runs: before them is start-up, or a rank began to record late.
STEADY = {
    "gpt-ddp": ("step", range(4, 7)),
    "mpi-halo": ("iteration", range(1, 12)),
    "pipe": ("iteration", range(4, 7)),
    "fsdp": ("iteration", range(1, 4)),
    "straggler": ("iteration", range(1, 4)),
}

# ns of the units of tables.
US, MS = 1_000, 1_000_000
OVERLAP = (
    "No communication",
    "Communication alone",
    "Beside 1 kernel",
    "Beside 2 kernels",
    "Beside 3 or more kernels",
)


def without(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """What is left of spans when others are taken from them."""
    left = list(spans)
    for low, high in taken:
        cut = [part for s, e in left for part in ((s, min(e, low)), (max(s, high), e))]
        left = [(s, e) for s, e in cut if s < e]
    return left


def self_times(events: Iterable[Event], within: list[Span]) -> dict[tuple[str, str], int]:
    """Time by row and name, without that of events inside."""
    time: dict[tuple[str, str], int] = defaultdict(int)
    stack: dict[str, list[Event]] = defaultdict(list)
    for e in sorted(events, key=lambda e: (e.start, -e.end)):
        around = stack[e.row]
        while around and around[-1].end <= e.start:
            around.pop()
        own = length([(e.start, e.end)], within)
        time[e.row, e.name] += own
        if around:
            time[e.row, around[-1].name] -= own
        around.append(e)
    return {key: t for key, t in time.items() if t}


class Run:
    """All ranks of a run, and the time that figures are of: some iterations, or all device activity.

    An iteration, named by its NVTX range, lasts from the first to the last activity on any device that any rank
    launched in it.
    """

    def __init__(self, paths: list[Path], iterations: Sequence[str] = ()) -> None:
        self.paths = sorted(paths)
        self.reports = [Report(path, rank) for rank, path in enumerate(self.paths)]
        if iterations:
            parts = [[e for r in self.reports for e in r.launched_in(name)] for name in iterations]
        else:
            parts = [[e for r in self.reports for e in (*r.all_kernels, *r.memory)]]
        whole = [Event(min(e.start for e in part), max(e.end for e in part), "", "") for part in parts]
        self.iterations = dict(zip(iterations, whole, strict=False))
        self.window = union(whole)
        self.duration = sum(end - start for start, end in self.window)

    def iterations_by_span(self) -> list[list[str]]:
        """Names of the iterations in each span of the window."""
        return [[n for n, e in self.iterations.items() if low <= e.start < high] for low, high in self.window]

    def _each_task(self, column: str, figure: Callable[[Report], float]) -> Table:
        return {(r.task, column): value for r in self.reports if (value := figure(r))}

    def _shares(
        self,
        names: Sequence[str],
        spent: Callable[[Report], dict[int, int]],
        whole: Callable[[dict[int, int]], float],
    ) -> Table:
        """In percent; the names of columns by number, as `spent` counts them."""
        table: Table = {}
        for r in self.reports:
            time = {n: t for n, t in spent(r).items() if t}
            table |= {(r.task, names[n]): 100.0 * t / whole(time) for n, t in time.items()}
        return table

    def _percent(self, column: str, time: Callable[[Report], int]) -> Table:
        return self._each_task(column, lambda r: 100 * time(r) / self.duration)

    def _useful(self, r: Report) -> int:
        return length(union(r.kernels), self.window)

    def _busy(self, r: Report) -> int:
        return length(union(r.all_kernels + r.memory), self.window)

    def useful_time(self) -> Table:
        return self._each_task("Useful time [ms]", lambda r: self._useful(r) / MS)

    def parallel_efficiency(self) -> Table:
        return self._percent("Parallel efficiency [%]", self._useful)

    def parallel_efficiency_nccl_useful(self) -> Table:
        return self._percent("Parallel efficiency [%]", lambda r: length(union(r.all_kernels), self.window))

    def device_busy(self) -> Table:
        return self._percent("Busy [%]", self._busy)

    def _not_waiting(self) -> dict[str, int]:
        """Time in which each rank's device does anything but only wait for other ranks."""
        moves: dict[int, list[Event]] = defaultdict(list)
        for s in split(nccl(self.paths)):
            moves[s.rank].append(Event(s.ready, s.end, "", ""))
        return {
            r.task: length(union([*r.kernels, *r.memory, *moves[rank]]), self.window)
            for rank, r in enumerate(self.reports)
        }

    def pop_efficiency(self) -> Table:
        useful, busy = [self._useful(r) for r in self.reports], [self._busy(r) for r in self.reports]
        going = self._not_waiting()
        mean = sum(useful) / len(useful)
        factors = {
            "Parallel efficiency": mean / self.duration,
            "Load balance": mean / max(useful),
            "Communication efficiency": max(useful) / max(busy),
            "Serialization efficiency": max(going.values()) / max(busy),
            "Transfer efficiency": max(useful) / max(going.values()),
            "Orchestration efficiency": max(busy) / self.duration,
        }
        return {("all", name): 100 * value for name, value in factors.items()}

    def pop_efficiency_by_rank(self) -> Table:
        going, table = self._not_waiting(), {}
        for r in self.reports:
            useful, busy, moves = self._useful(r), self._busy(r), going[r.task]
            factors = {
                "Parallel efficiency": useful / self.duration,
                "Communication efficiency": useful / busy,
                "Serialization efficiency": moves / busy,
                "Transfer efficiency": useful / moves,
                "Orchestration efficiency": busy / self.duration,
            }
            table |= {(r.task, name): 100 * value for name, value in factors.items()}
        return table

    def _device_states(self, useful: Callable[[Report], list[Event]]) -> Table:
        def spent(r: Report) -> dict[int, int]:
            work = length(union(useful(r)), self.window)
            busy = length(union(r.all_kernels + r.memory), self.window)
            return {0: self.duration - busy, 1: busy - work, 2: work}

        return self._shares(("Idle", "Only communication or copies", "Useful"), spent, lambda _: self.duration)

    def device_states(self) -> Table:
        return self._device_states(lambda r: r.kernels)

    def device_states_nccl_useful(self) -> Table:
        return self._device_states(lambda r: r.all_kernels)

    def _overlap(self, r: Report) -> dict[int, int]:
        """Time of the window in which NCCL runs: 1 alone, 2 to 4 beside kernels on one, two, or more streams."""
        streams = [union(k for k in r.kernels if k.row == row) for row in sorted({k.row for k in r.kernels})]
        borders = sorted([(at, step) for spans in streams for s, e in spans for at, step in ((s, 1), (e, -1))])
        levels: dict[int, list[Span]] = {2: [], 3: [], 4: []}
        running = 0
        for (at, step), (until, _) in pairwise(borders):
            running += step
            if running and at < until:
                levels[min(running, 3) + 1].append((at, until))
        found = {n: length(common(union(r.nccl), spans), self.window) for n, spans in levels.items()}
        return {1: length(union(r.nccl), self.window) - sum(found.values()), **found}

    def overlap_of_communication(self) -> Table:
        return self._shares(OVERLAP, self._overlap, lambda time: sum(time.values()))

    def overlap_of_window(self) -> Table:
        def spent(r: Report) -> dict[int, int]:
            time = self._overlap(r)
            return {**time, 0: self.duration - sum(time.values())}

        return self._shares(OVERLAP, spent, lambda _: self.duration)

    def iteration_time(self) -> Table:
        parts = (
            (r.task, e.name, length([(e.start, e.end)], self.window) / MS) for r in self.reports for e in r.outermost
        )
        return _added(parts)

    def iteration_efficiency(self) -> Table:
        """Where two streams of a rank are in different iterations, the one that is later in order of label counts."""
        table: Table = {}
        for r in self.reports:
            compute, later = union(r.kernels), []
            for name in sorted({e.name for e in r.outermost_on_device}, reverse=True):
                own = [e for e in r.outermost_on_device if e.name == name]
                free = without(common(union(own), self.window), union(later))
                if not free:
                    continue
                table[r.task, name] = 100 * length(compute, free) / sum(e - s for s, e in free)
                later += own
        return {key: value for key, value in table.items() if value}

    def useful_bursts(self) -> Table:
        """How many bursts of useful time last so many us, rounded up; whole in each span that they reach into."""
        bursts = [(r, s, e) for r in self.reports for s, e in union(r.kernels) for _ in common([(s, e)], self.window)]
        return _added((r.task, f"{min(math.ceil((e - s) / US), 1000):,}.00 us", 1) for r, s, e in bursts)

    def waiting_by_rank(self) -> Table:
        """Where a rank waits for several at once, the highest counts."""
        waits: dict[int, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
        for s in split([*nccl(self.paths), *mpi(self.paths)]):
            if s.waited_for is not None:
                waits[s.rank][s.waited_for].append(Event(s.start, s.ready, "", ""))
        table: Table = {}
        for rank, own in waits.items():
            higher: list[Event] = []
            for other in sorted(own, reverse=True):
                alone = without(union(own[other]), union(higher))
                table[f"rank {rank}", f"rank {other}"] = length(alone, self.window) / MS
                higher += own[other]
        return {key: ms for key, ms in table.items() if ms}

    def _runs(self, choose: Callable[[Report], list[Event]]) -> dict[tuple[str, str], list[Event]]:
        runs = defaultdict(list)
        for r in self.reports:
            for e in choose(r):
                runs[e.row, e.name].append(e)
        return runs

    def _inside(self, events: Iterable[Event]) -> list[int]:
        """Durations of what lies in the window of each event."""
        return [end - start for e in events for start, end in common([(e.start, e.end)], self.window)]

    def _times(self, runs: dict[tuple[str, str], list[Event]]) -> Table:
        return {key: sum(parts) / MS for key, es in runs.items() if (parts := self._inside(es))}

    def _means(self, runs: dict[tuple[str, str], list[Event]]) -> Table:
        return {key: sum(parts) / len(parts) / US for key, es in runs.items() if (parts := self._inside(es))}

    def _bytes(self, runs: dict[tuple[str, str], list[Event]]) -> Table:
        """Bytes of all that reaches into the window, whole."""
        return {key: size for key, es in runs.items() if (size := sum(e.bytes for e in es if self._inside([e])))}

    def kernel_time(self) -> Table:
        return self._times(self._runs(lambda r: r.kernels))

    def kernel_time_by_class(self) -> Table:
        return self._times(self._runs(lambda r: r.classed))

    def kernel_duration(self) -> Table:
        return self._means(self._runs(lambda r: r.kernels))

    def kernel_duration_by_class(self) -> Table:
        return self._means(self._runs(lambda r: r.classed))

    def kernel_durations(self, kernel: str, beside: bool) -> Table:
        """How many kernels of a name last so many us, rounded up, and run beside NCCL's at any time or never."""
        runs = [(e, union(r.nccl)) for r in self.reports for e in r.kernels if e.name == kernel and self._inside([e])]
        chosen = [e for e, nccl in runs if bool(common([(e.start, e.end)], nccl)) == beside]
        return _added((e.row, f"{min(math.ceil((e.end - e.start) / US), 1000):,}.00 us", 1) for e in chosen)

    def in_kernels(self, metric: str) -> Table:
        """Mean of the held samples of the rank's GPU over the sampled time of the kernels of each class, by row."""
        spent: Table = defaultdict(float)
        lasting: Table = defaultdict(float)
        for r in self.reports:
            times, values = r.samples(metric)
            held = [0.0]
            for n in range(1, len(times)):
                held.append(held[-1] + values[n - 1] * (times[n] - times[n - 1]))
            for e in r.classed:
                spent[e.row, e.name] += _until(e.end, times, values, held) - _until(e.start, times, values, held)
                if times:
                    lasting[e.row, e.name] += max(min(e.end, times[-1]) - max(e.start, times[0]), 0)
        return {key: integral / lasting[key] for key, integral in spent.items() if integral}

    def nccl_time(self) -> Table:
        return self._times(self._runs(lambda r: [e for e, _ in r.collectives]))

    def nccl_bytes(self) -> Table:
        return self._bytes(self._runs(lambda r: [e for e, _ in r.collectives]))

    def collective_time(self) -> Table:
        """Those of one number on several communicators are added."""
        numbered = [(e, number) for r in self.reports for e, number in r.collectives if number]
        return _added((e.row, f"value {number}", sum(self._inside([e])) / US) for e, number in numbered)

    def memory_bytes(self) -> Table:
        return self._bytes(self._runs(lambda r: r.memory))

    def memory_bandwidth(self) -> Table:
        """In MB/s, each operation's rounded to bytes a second, weighted by time."""
        runs = self._runs(lambda r: r.memory)
        moved = {
            key: sum(round(e.bytes * 1e9 / (e.end - e.start)) * sum(self._inside([e])) for e in es)
            for key, es in runs.items()
        }
        spent = self._times(runs)
        return {key: bytes_ns / 1e6 / MS / spent[key] for key, bytes_ns in moved.items() if bytes_ns}

    def bytes_between_ranks(self) -> Table:
        """All sends are on the world communicator, and within the window."""
        parts = ((r.task, f"rank {to}", size) for r in self.reports for to, size in r.sent())
        return _added(parts)

    def _by_thread(self, choose: Callable[[Report], list[Event]]) -> Table:
        return _added(
            (row, name, t / MS) for r in self.reports for (row, name), t in self_times(choose(r), self.window).items()
        )

    def host_cuda_calls(self) -> Table:
        return self._by_thread(lambda r: r.calls)

    def host_synchronization(self) -> Table:
        return self._by_thread(lambda r: r.waits)

    def host_mpi(self) -> Table:
        return self._by_thread(lambda r: r.mpi)

    def host_states(self) -> Table:
        def spent(r: Report) -> dict[int, int]:
            held_up = [e for e in r.waits if e.name != "Stream wait event"]
            mpi = length(union(r.mpi), self.window)
            waits = length(union(r.mpi + held_up), self.window)
            busy = length(union(r.mpi + held_up + r.calls), self.window)
            return {0: self.duration - busy, 1: busy - waits, 2: waits - mpi, 3: mpi}

        return self._shares(("Neither", "CUDA call", "CUDA synchronization", "MPI"), spent, lambda _: self.duration)


def steady(run: str, paths: list[Path]) -> Run:
    """A run in its steady iterations."""
    name, numbers = STEADY[run]
    return Run(paths, [f"{name} {number}" for number in numbers])


def _until(at: int, times: list[int], values: list[int], held: list[float]) -> float:
    """Integral of the held samples up to a time."""
    n = bisect_right(times, at) - 1
    return held[n] + values[n] * (at - times[n]) if n >= 0 else 0.0


def _added(parts: Iterable[tuple[str, str, float]]) -> Table:
    table: Table = defaultdict(float)
    for row, column, value in parts:
        table[row, column] += value
    return {key: value for key, value in table.items() if value}
