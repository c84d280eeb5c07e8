"""What is wrong with a trace, by the tables that it was made from: nothing of the project is used here."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import tables as held
from .tables import Event, Held, Place, Tables
from .trace import Drawn, Trace, clean

Seen = Sequence[tuple[object, int]]
METRIC_TYPES = range(9400, 9500)
MPI_TYPES = range(50000001, 50000006)
LAUNCHING = (held.RUNTIME, *held.DEVICE)
CORRELATION_TAG, MPI_TAG = 55001, 100_000
REAL = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")
# Begins of told losses that say nothing of intervals: what they carry, or where lines go.
OF_OTHER_THINGS = (
    "a payload", "messages to", "receives", "sends", "started requests", "kernels without the payload",
    "kernels that a thread without NCCL calls", "ends of messages", "kernels of a", "operations ",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Events that are judged together: their tables, the families that draw all of them, and how the trace names them.

    `named`: the name of an event type, by its number and label, as the tables' events have it; "" for other types.
    """

    tables: tuple[str, ...]
    families: tuple[str, ...]
    of: Callable[[Tables], Held]
    named: Callable[[int, str], str]
    of_threads: bool = False
    # Whether the tables say which events share a row.
    placed: bool = True


def _number(*numbers: int) -> Callable[[int, str], str]:
    return lambda number, _: str(number) if number in numbers else ""


def _nvtx(number: int, label: str) -> str:
    domain = 9600 <= number < 20000 and number % 100 == 0
    return label if number in (9004, 9500, 70000005) or domain else ""


OPENMP_TABLES = tuple(f"OPENMP_EVENT_KIND_{part}" for parts in held.OPENMP.values() for part in parts)
COPIES = (held.MEMCPY, held.MEMSET)
KINDS = {
    "calls": Kind((held.RUNTIME,), ("cuda_api",), held.cuda_calls, _number(63000000)),
    "kernels": Kind((held.KERNEL,), ("kernels", "nccl"), held.kernels, _number(63000006, 63000007)),
    "memory": Kind(COPIES, ("memory",), held.memory, _number(63000001)),
    "bytes": Kind(COPIES, ("memory",), held.sizes, _number(63000002)),
    "ranges": Kind((held.NVTX,), ("nvtx", "nccl"), held.ranges, _nvtx),
    "payloads": Kind((held.NVTX,), ("nvtx", "nccl"), held.payloads, _number(9502), of_threads=True),
    "operations": Kind((held.NVTX,), ("nccl_operations",), held.operations, _number(70000140), placed=False),
    "MPI": Kind(held.MPI, ("mpi",), held.mpi, lambda number, _: "MPI" if number in MPI_TYPES else ""),
    "OpenMP": Kind(OPENMP_TABLES, ("openmp",), held.openmp, _number(*held.OPENMP)),
    "OS calls": Kind((held.OSRT,), ("osrt",), held.os_calls, _number(70000003)),
}


class Told:
    """What the summary tells of losses, by family and reason; `reading`: the tables that each family reads."""

    def __init__(
        self,
        dropped: Mapping[str, Mapping[str, int]],
        warnings: Iterable[str],
        reading: Mapping[str, Collection[str]],
    ) -> None:
        self.dropped, self.warnings, self.reading = dropped, tuple(warnings), reading

    def of(self, tables: Collection[str]) -> int:
        """How many rows of tables are said not to be drawn as they are: the family that reads them first says it."""
        return sum(
            n
            for family, reasons in self.dropped.items()
            if set(tables) & set(self.reading.get(family, tables))
            for reason, n in reasons.items()
            if not reason.startswith(OF_OTHER_THINGS)
        )

    def names(self, tables: Collection[str]) -> bool:
        """Whether a warning names one of the tables."""
        return any(t in w for t in tables for w in self.warnings)


def wrong(database: sqlite3.Connection, prv: Path, families: Collection[str], told: Told) -> list[str]:
    """What the trace says that the tables do not, or lacks without a word."""
    trace, tables = Trace(prv), Tables(database)
    kinds = {}
    for name, kind in KINDS.items():
        if set(kind.families) <= set(families) and not told.names(kind.tables):
            expected = kind.of(tables)
            drawn = [d for d in trace.intervals if _named(trace, kind, d)]
            kinds[name] = kind, expected, [replace(d, label=expected.without_number(d.label)) for d in drawn]
    sightings: list[tuple[Seen, Seen]] = [
        (
            [((e - b, named, label), b) for _, (b, e, named, label) in expected.events],
            [((d.end - d.begin, _named(trace, kind, d), d.label), d.begin) for d in drawn],
        )
        for kind, expected, drawn in kinds.values()
    ]
    lines = Lines(trace, tables) if "correlation" in families and not told.names(LAUNCHING) else None
    sampled = Sampled(trace, tables) if "gpu_metrics" in families and not told.names((held.METRICS,)) else None
    sightings += [some.seen() for some in (lines, sampled) if some]
    shift = shift_of(sightings)
    found = trace.wrong[:3]
    for name, (kind, expected, drawn) in kinds.items():
        n = told.of(kind.tables)
        said = _compare(trace, kind, expected, drawn, shift, n) or (
            kind.placed and not n and not expected.unsure and _compare_places(expected, drawn)
        )
        found += [f"{name}: {said}"] if said else []
        if any(kind.named(t, trace.types.get(t, "")) for t in trace.unbalanced):
            found.append(f"{name}: begins and ends are no pairs")
    found += lines.wrong(shift, told.of(LAUNCHING)) if lines else []
    found += sampled.wrong(shift, told.of((held.METRICS,))) if sampled else []
    return found + _messages(trace, tables, shift)


def _named(trace: Trace, kind: Kind, drawn: Drawn) -> str:
    elsewhere = kind.of_threads and drawn.row[1].startswith("CUDA-D")
    return "" if elsewhere else kind.named(drawn.type, trace.types.get(drawn.type, ""))


def shift_of(sightings: Iterable[tuple[Seen, Seen]]) -> int:
    """ns from the report's clock to the trace's: what most events agree on, since the trace begins when it begins.

    `sightings`: of the tables and of the trace, what happened and when.
    """
    votes: Counter[int] = Counter()
    for expected, shown in sightings:
        alike: dict[object, list[int]] = {}
        for what, time in shown:
            alike.setdefault(what, []).append(time)
        votes.update(at - time for what, time in expected for at in alike.get(what, ()))
    return votes.most_common(1)[0][0] if votes else 0


def _label(text: str) -> str:
    """A label; one that was stored as a real number in digits that all versions of SQLite write."""
    return f"{float(text):.12g}" if REAL.fullmatch(text) else text


def _compare(trace: Trace, kind: Kind, expected: Held, drawn: list[Drawn], shift: int, told: int) -> str:
    sound: Counter[Event] = Counter(
        (begin, end, named, _label(text)) for _, (begin, end, named, text) in expected.events
    )
    shown = Counter((d.begin - shift, d.end - shift, _named(trace, kind, d), _label(d.label)) for d in drawn)
    if told < expected.others:
        return f"{expected.others} rows are not sound, and {told} are told"
    missing, more = sound - shown, shown - sound
    if missing.total() > told or more.total() > told + expected.unsure:
        return f"{missing.total()} are missing, {more.total()} are not so, {told} are told{_first(missing, more)}"
    return ""


def _first(missing: Counter[Event], more: Counter[Event]) -> str:
    return "".join(f"; {sign} {event}"[:120] for sign, some in (("-", missing), ("+", more)) for event in [*some][:1])


def _compare_places(expected: Held, drawn: list[Drawn]) -> str:
    """Events of one thread or stream are on rows of one label, and only they are."""
    of_place: dict[Place, Counter[tuple[int, str]]] = {}
    for place, (begin, end, _, label) in expected.events:
        of_place.setdefault(place, Counter())[end - begin, _label(label)] += 1
    of_row: dict[tuple[int, str], Counter[tuple[int, str]]] = {}
    for d in drawn:
        # Streams of one number on several devices of a process are told apart by neither.
        name = d.row[1].rpartition(".S")[2] if d.row[1].startswith("CUDA-D") else d.row[1]
        of_row.setdefault((d.row[0], name), Counter())[d.end - d.begin, _label(d.label)] += 1
    places, rows = (Counter(frozenset(c.items()) for c in some.values()) for some in (of_place, of_row))
    return "" if places == rows else f"on {rows.total()} rows, and {places.total()} threads or streams differ from them"


class Lines:
    """Lines from calls to what they launched."""

    def __init__(self, trace: Trace, tables: Tables) -> None:
        self.sound, self.others = held.launches(tables)
        chosen = {k: n for k, n in trace.lines.items() if (k.tag, k.size) == (CORRELATION_TAG, 0)}
        self.shown = Counter({(k.sent, k.received): n for k, n in chosen.items()})

    def seen(self) -> tuple[Seen, Seen]:
        """See shift_of."""
        expected, shown = (
            [(end - begin, begin) for begin, end in some.elements()] for some in (self.sound, self.shown)
        )
        return expected, shown

    def wrong(self, shift: int, told: int) -> list[str]:
        """What differs."""
        if told < self.others:
            return [f"launches: {self.others} rows are not sound, and {told} are told"]
        shown = Counter({(sent - shift, received - shift): n for (sent, received), n in self.shown.items()})
        missing, more = (self.sound - shown).total(), (shown - self.sound).total()
        if max(missing, more) > told:
            return [f"launches: {missing} lines are missing, {more} are not so, {told} are told"]
        return []


class Sampled:
    """GPU metrics: each one's values from its first sample to its last."""

    def __init__(self, trace: Trace, tables: Tables) -> None:
        self.values, self.others = held.metrics(tables)
        # Those in JSON have no rows of their own.
        self.only = not tables.count("GENERIC_EVENTS")
        self.shown = [(trace.types[n], points) for (_, n), points in trace.held.items() if n in METRIC_TYPES]

    def seen(self) -> tuple[Seen, Seen]:
        """See shift_of."""
        sound = [((clean(name), value), time) for (_, name), at in self.values.items() for time, value in at.items()]
        return sound, [((name, value), time) for name, points in self.shown for time, value in points]

    def wrong(self, shift: int, told: int) -> list[str]:
        """What differs. Two samplers of one GPU are not judged."""
        if told < self.others:
            return [f"metrics: {self.others} rows are not sound, and {told} are told"]
        gpus = {gpu for gpu, _ in self.values}
        if told or len({gpu & 0xFF for gpu in gpus}) < len(gpus):
            return []
        sound = Counter((clean(name), _steps(sorted(at.items()))) for (_, name), at in self.values.items())
        shown = Counter((name, _steps([(t - shift, v) for t, v in points])) for name, points in self.shown)
        differ = (sound - shown) + (shown - sound if self.only else Counter())
        return [f"metrics: {differ.total()} differ, {min(differ)[0]!r}"] if differ else []


def _steps(points: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Where a value changes, and the last sample: the trace has no others but may have."""
    changed = [p for n, p in enumerate(points) if not n or points[n - 1][1] != p[1]]
    return (*changed, points[-1])


def _messages(trace: Trace, tables: Tables, shift: int) -> list[str]:
    """Lines of MPI messages begin, end and weigh as rows say."""
    lines = [k for k in trace.lines if k.tag >= MPI_TAG]
    begins, ends, sizes = held.messages(tables) if lines else (set(), set(), set())
    bad = [k for k in lines if not (k.sent - shift in begins and k.received - shift in ends and k.size in sizes)]
    return [f"messages: {len(bad)} are of no row"] if bad else []
