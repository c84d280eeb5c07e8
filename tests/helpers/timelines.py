"""Random timelines as small reports, and what must be drawn of them, said in plain Python.

`EXAMPLES=30 pytest ...` tries 30 times as many, others each time.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from exports import HOST, export, query
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from plain import PlainTrace

Rows = tuple[str, list[tuple[object, ...]]]

MORE = int(os.environ.get("EXAMPLES", "1"))
# Beyond it no time is one.
TIME_LIMIT = 2**61
PIDS, TIDS, STREAMS = (100, 101, 0xFFFFFE), (1, 100, 0xFFFFFF), (0, 7, 2**31 - 1)


def examples(count: int) -> settings:
    """Settings for this many examples."""
    slow = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
    return settings(max_examples=count * MORE, derandomize=MORE == 1, suppress_health_check=slow)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one example."""
    with TemporaryDirectory(prefix="timeline") as name:
        yield Path(name)


class Event(NamedTuple):
    """One row of a table by what must be drawn of it: `kind` of TABLES; `domain` and `inline` of NVTX."""

    kind: str
    start: int | None
    end: int | None
    pid: int
    tid: int
    name: str
    domain: int = 0
    inline: bool = False


class Work(NamedTuple):
    """A kernel, copy or memset, with the call that launched it; `bytes` of copies and memsets."""

    kind: str
    called: int
    start: int
    end: int
    pid: int
    tid: int
    device: int
    stream: int
    name: str
    bytes: int


# Kind -> table, family, event type and its label.
TABLES = {
    "api": ("CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_api", 63000000),
    "os": ("OSRT_API", "osrt", 70000003),
    "cublas": ("CUBLAS_EVENTS", "cublas", 70000220),
    "range": ("NVTX_EVENTS", "nvtx", 9600),
    "start/end": ("NVTX_EVENTS", "nvtx", 9004),
    "mark": ("NVTX_EVENTS", "nvtx", 70000005),
}
NVTX_TYPES = {"range": 59, "start/end": 60, "mark": 34}
NAMES_DOMAIN = 75
WORK = {"kernel": 63000006, "copy": 63000001, "set": 63000001}
FAMILIES = ("cuda_api", "osrt", "cublas", "nvtx", "kernels", "memory", "correlation", "gpu_metrics")
CORRELATION, BYTES = 55001, 63000002


@dataclass(frozen=True)
class Timeline:
    """A report: events, device work, names of NVTX domains, threads and processes, samples of metrics.

    `machine` is what all global ids begin with: the highest bit makes them negative.
    """

    machine: int = HOST

    events: list[Event] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    domains: Mapping[int, str] = field(default_factory=dict)
    threads: Mapping[tuple[int, int], str] = field(default_factory=dict)
    programs: Mapping[int, str] = field(default_factory=dict)
    # (GPU, metric, time) -> value.
    samples: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    metrics: Mapping[int, str] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        """As an SQLite export."""
        programs = [(self._tid(p, 0), p, readable(self.programs.get(p, "app"))) for p in PIDS]
        tables: dict[str, Rows] = {
            "PROCESSES": ("globalPid pid name", programs),
            "ThreadNames": ("nameId globalTid", [(name, self._tid(p, t)) for (p, t), name in self.threads.items()]),
            "META_DATA_CAPTURE": ("name value", [("PROFILING_SESSION_UUID", "one")]),
            "META_DATA_EXPORT": ("name value", []),
            "MPI_RANKS": ("globalTid rank", [(self._tid(p, p), n) for n, p in enumerate(PIDS)]),
        }
        call = "start end globalTid nameId"
        for kind in ("os", "cublas"):
            rows = [(e.start, e.end, self._tid(e.pid, e.tid), e.name) for e in self.events if e.kind == kind]
            tables[TABLES[kind][0]] = (call, rows)
        # Ids of calls grow with time.
        calls = [(e.start, e.end, self._tid(e.pid, e.tid), e.name, None) for e in self.events if e.kind == "api"]
        launches = sorted(range(len(self.work)), key=lambda n: self.work[n].called)
        numbers = {n: k for k, n in enumerate(launches, start=1)}
        for n, w in enumerate(self.work):
            calls.append((w.called, w.called + 1, self._tid(w.pid, w.tid), "launch", numbers[n]))
        tables[TABLES["api"][0]] = (f"{call} correlationId", calls)
        tables["NVTX_EVENTS"] = self._nvtx()
        tables |= self._device(numbers)
        if self.samples:
            samples = [(time, gpu, metric, value) for (gpu, metric, time), value in self.samples.items()]
            tables["GPU_METRICS"] = ("timestamp typeId metricId value", samples)
            gpus = {gpu for gpu, _, _ in self.samples}
            metrics = [(gpu, n, readable(name)) for gpu in gpus for n, name in self.metrics.items()]
            tables["TARGET_INFO_GPU_METRICS"] = ("typeId metricId metricName", metrics)
        return export(path, **tables)

    def then(self, other: Timeline, by: int) -> Timeline:
        """This and what another's rows say, that much later."""
        later = [e._replace(start=e.start + by, end=None if e.end is None else e.end + by) for e in other.events]
        work = [w._replace(called=w.called + by, start=w.start + by, end=w.end + by) for w in other.work]
        return replace(self, events=self.events + later, work=self.work + work)

    def _tid(self, pid: int, thread: int) -> int:
        return self.machine | pid << 24 | thread

    def _nvtx(self) -> Rows:
        rows: list[tuple[object, ...]] = [
            (0, None, NAMES_DOMAIN, self._tid(p, p), number, readable(name), None)
            for number, name in self.domains.items()
            for p in PIDS
        ]
        for e in self.events:
            if e.kind in NVTX_TYPES:
                text = (readable(e.name), None) if e.inline else (None, e.name)
                rows.append((e.start, e.end, NVTX_TYPES[e.kind], self._tid(e.pid, e.tid), e.domain, *text))
        return "start end eventType globalTid domainId text textId", rows

    def _device(self, numbers: Mapping[int, int]) -> dict[str, Rows]:
        common = "start end globalPid deviceId streamId correlationId"
        of: dict[str, list[tuple[object, ...]]] = {kind: [] for kind in WORK}
        for n, w in enumerate(self.work):
            more = (w.name, w.name) if w.kind == "kernel" else (w.bytes, 1)
            of[w.kind].append((w.start, w.end, self._tid(w.pid, 0), w.device, w.stream, numbers[n], *more))
        return {
            "CUPTI_ACTIVITY_KIND_KERNEL": (f"{common} shortName demangledName", of["kernel"]),
            "CUPTI_ACTIVITY_KIND_MEMCPY": (f"{common} bytes copyKind", of["copy"]),
            "CUPTI_ACTIVITY_KIND_MEMSET": (f"{common} bytes memKind", of["set"]),
        }


class Truth:
    """What must be drawn of a timeline: times of the trace, places by process and by thread or `GPU.stream`."""

    def __init__(self, timeline: Timeline, report: Path) -> None:
        self.told: Counter[str] = Counter()
        self._empty = next((n for (n,) in query(report, "SELECT id FROM StringIds WHERE value = ''")), 0)
        self._timeline = timeline
        rows = [*self._events(), *self._works()]
        launched = [w for w in timeline.work if has_run(w)]
        calls = [(str(w.pid), str(w.tid), w.called, self._stream(w), w.start) for w in launched]
        times = [row[3] for row in rows] + [call[2] for call in calls] + [time for _, _, time in timeline.samples]
        self.origin = min(times)
        texts: dict[str, set[str]] = {}
        for _, _, kind, _, _, text in rows:
            texts.setdefault(kind, set()).add(text)
        named = {kind: labelled(of) for kind, of in texts.items()}
        kinds = labelled(texts)
        self.intervals = Counter(
            (pid, place, kinds[kind], start - self.origin, end - self.origin, named[kind][text])
            for pid, place, kind, start, end, text in rows
        )
        self.lines = Counter(
            (pid, thread, called - self.origin, stream, start - self.origin)
            for pid, thread, called, stream, start in calls
        )

    def _events(self) -> Iterator[tuple[str, str, str, int, int, str]]:
        events, domains = self._timeline.events, self._timeline.domains
        times = [time for e in (*events, *self._timeline.work) for time in (e.start, e.end) if is_time(time)]
        times += [w.called + 1 for w in self._timeline.work] + [t for _, _, t in self._timeline.samples]
        last = max(times + ([0] if domains else []), default=0)
        for e in events:
            start, end = e.start, e.end if is_time(e.end) else None
            if not is_time(start):
                self.told["without a time"] += 1
                continue
            if end is None and e.kind in ("range", "start/end"):
                self.told["still open at the end (drawn to the last event)"] += 1
                end = max(start, last)
            if end is None:
                self.told["without an end (drawn 1 ns long)"] += e.kind != "mark"
                end = start
            self.told["ends before it begins (drawn 1 ns long)"] += end < start
            text = readable(e.name)
            if e.kind not in NVTX_TYPES:
                text = text or f"string {self._empty}"
            kind = str(TABLES[e.kind][2])
            if e.kind == "api":
                text = re.sub(r"_v\d+\Z", "", text)
            if e.kind == "range":
                unnamed = f"domain {e.domain}" if e.domain else "default"
                kind = f"NVTX {readable(domains.get(e.domain, '')) or unnamed}"
            yield str(e.pid), str(e.tid), kind, start, max(end, start + 1), text

    def _works(self) -> Iterator[tuple[str, str, str, int, int, str]]:
        for w in self._timeline.work:
            yield str(w.pid), str(w.tid), str(TABLES["api"][2]), w.called, w.called + 1, "launch"
            text = {"copy": "Host-to-Device", "set": "Memset"}.get(w.kind, readable(w.name) or f"string {self._empty}")
            self.told["without a time"] += not has_run(w)
            if has_run(w):
                self.told["without an end (drawn 1 ns long)"] += not is_time(w.end)
                end = w.end if is_time(w.end) else w.start + 1
                # bytes * 10**9 / ns of all sizes that works() chooses, but for 0 and 1.
                self.told["a throughput above 2**63 B/s (drawn without it)"] += w.kind != "kernel" and w.bytes > 1
                yield str(w.pid), self._stream(w), str(WORK[w.kind]), w.start, max(end, w.start + 1), text

    @staticmethod
    def _stream(work: Work) -> str:
        return f"CUDA-D{work.device}.S{work.stream}"


def drawn(trace: PlainTrace) -> Counter[tuple[str, str, str, int, int, str]]:
    """All intervals of the types that TABLES and WORK name, as Truth has them, by the trace's labels."""
    known = {*(kind for _, _, kind in TABLES.values()), *WORK.values()}
    found: Counter[tuple[str, str, str, int, int, str]] = Counter()
    for i in trace.intervals():
        domain = 9600 <= i.type < 50_000_000 and i.type % 100 == 0
        if domain or i.type in known:
            kind = trace.types[i.type] if domain else str(i.type)
            found[(*place(trace, i.task, i.thread), kind, i.start, i.end, trace.values[i.type][i.value])] += 1
    return found


def lines(trace: PlainTrace) -> Counter[tuple[str, str, int, str, int]]:
    """Lines from calls to what they launched, as Truth has them."""
    found: Counter[tuple[str, str, int, str, int]] = Counter()
    for (task, thread, sent, to_task, to_thread, received, size, tag), count in trace.messages().items():
        assert (size, tag, to_task) == (0, CORRELATION, task)
        found[(*place(trace, task, thread), sent, place(trace, to_task, to_thread)[1], received)] += count
    return found


def place(trace: PlainTrace, task: int, thread: int) -> tuple[str, str]:
    """Process and thread or stream of a row, by its labels."""
    label = trace.row(task, thread)
    return trace.names["TASK"][task - 1].rpartition(":")[2], label if "CUDA-D" in label else label.rpartition(" ")[2]


def has_run(work: Work) -> bool:
    """Return False for work whose times are unknown: CUPTI writes 0 for both."""
    return is_time(work.start) and (work.start, work.end) != (0, 0)


def is_time(time: int | None) -> bool:
    return time is not None and abs(time) <= TIME_LIMIT


def readable(name: str) -> str:
    """Bytes that are no UTF-8 are replaced; so are halves of surrogate pairs, which sqlite3 refuses in a text."""
    return name.encode("utf-8", "surrogatepass").decode(errors="replace")


def clean(text: str) -> str:
    """A text as one line, trimmed."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", text).strip() or "(no text)"


def labelled(texts: Iterable[str]) -> dict[str, str]:
    """Labels of the texts of one type: one line each, and no two alike. What needs no change has none."""
    lines = {t: clean(t) for t in sorted(texts)}
    taken = {t for t, line in lines.items() if t == line}
    for text, line in lines.items():
        if text != line:
            label, number = line, 2
            while label in taken:
                label, number = f"{line} ({number})", number + 1
            lines[text] = label
            taken.add(label)
    return lines


TRICKY = (
    "a b", "a\nb", "a\tb", "a\0b", " a b ", "a b (2)", "", " ", "\u2028", "(no text)", "End", "0", "x", "x_v7000",
    "VALUES", "EVENT_TYPE", "# a comment", "LEVEL THREAD SIZE 3", '"', "a:b:1", "\x01", "1      one", "string 1",
    "\ud800", "\udfff", "\udcff\ud83d", "\U0010ffff", "\ufeff", "\u202e", "\u3000", "9" * 40, "#" * 300,
)  # fmt: skip
EVERY_PLANE = st.text(st.characters(), max_size=5)
NAMES = st.sampled_from(TRICKY) | EVERY_PLANE
BEGINS = (0, -12, 2**31 - 8, 2**53 - 8, -(2**53) - 3, 10**18, TIME_LIMIT - 30, -TIME_LIMIT)
NO_TIMES = (None, TIME_LIMIT + 1, -TIME_LIMIT - 1, 2**62, 2**63 - 1, -(2**63))
SIZES = (0, 1, 2**53 + 1, 2**63 - 1)
MACHINES = (HOST, 0xFE << 48, -(2**63))


@st.composite
def times(draw: Callable[..., int], far: bool = True) -> st.SearchStrategy[int]:
    """Instants near each other, around one or two of BEGINS: many are equal."""
    begins = draw(st.lists(st.sampled_from(BEGINS if far else BEGINS[:2]), min_size=1, max_size=2 if far else 1))
    return st.builds(int.__add__, st.sampled_from(begins), st.integers(0, 24))


@st.composite
def timelines(draw: Callable[..., object], sound: bool = False) -> Timeline:
    """Events of all kinds on a few threads and streams. `sound`: every row has its times, and all lie close."""
    at = draw(times(far=not sound))
    pool = draw(st.lists(NAMES, min_size=1, max_size=6))
    names = st.sampled_from(pool)
    length = st.integers(0, 12) if sound else st.integers(-2, 12) | st.none()
    kinds, no_time = st.sampled_from(list(TABLES)), st.sampled_from(NO_TIMES)
    rest = st.sampled_from(PIDS), st.sampled_from(TIDS), names, st.integers(0, 3), st.booleans()
    lasting = st.tuples(kinds, at, length, *rest).map(_ending)
    events = draw(st.lists(lasting, min_size=1, max_size=16))
    if not sound:
        timeless = st.tuples(kinds, no_time, at, *rest) | st.tuples(kinds, at, no_time, *rest)
        events += draw(st.lists(timeless.map(lambda row: Event(*row)), max_size=2))
    threads = st.tuples(st.sampled_from(PIDS), st.sampled_from(TIDS))
    return Timeline(
        machine=draw(st.sampled_from(MACHINES)),
        events=events,
        work=draw(works(at, names)),
        domains=draw(st.dictionaries(st.integers(0, 3), NAMES, max_size=3)),
        threads=draw(st.dictionaries(threads, NAMES, max_size=4)),
        programs=draw(st.dictionaries(st.sampled_from(PIDS), NAMES, max_size=2)),
    )


def _ending(row: tuple[Any, ...]) -> Event:
    """An event from one that has its length instead of its end."""
    kind, start, length, *rest = row
    return Event(kind, start, None if length is None else start + length, *rest)


@st.composite
def works(draw: Callable[..., object], at: st.SearchStrategy[int], names: st.SearchStrategy[str]) -> list[Work]:
    """What calls launched: a stream begins it in the order of the calls, one at a time, and may go on with several."""
    kinds, threads = st.sampled_from(list(WORK)), (st.sampled_from(PIDS), st.sampled_from(TIDS))
    streams, lags, sizes = (st.integers(0, 1), st.sampled_from(STREAMS)), st.integers(0, 9), st.sampled_from(SIZES)
    one = st.tuples(at, kinds, *threads, *streams, lags, st.integers(0, 9), names, sizes)
    begun: dict[tuple[int, int, int], int] = {}
    found = []
    for called, kind, pid, thread, device, stream, lag, length, name, size in sorted(draw(st.lists(one, max_size=8))):
        on = pid, device, stream
        start = begun[on] = max(called + lag, begun.get(on, called - 1) + 1)
        found.append(Work(kind, called, start, start + length, pid, thread, device, stream, name, size))
    return found
