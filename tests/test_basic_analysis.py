"""BSC's BasicAnalysis, a real client of such traces, sees ours right.

Its rules, as its source and documentation state them: a trace is of this kind when its PCF names the NCCL or memory
events by our labels and has no line STATES; the i-th THREAD label of the ROW is the i-th thread of the header; a label
`CUDA-D<n>.S<m>` is a stream of device `<node>:D<n>`, `Metrics GPU<n>` is no thread of the program, all else is a host
thread. Useful is the union of 63000006 per device; communication the union of 63000001 with values 3 to 6 and of
63000007, without useful time.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest
from truth_rows import Event, Report, length, union

import nsys2prv

REPORTS = sorted(Path(__file__).parents[1].glob("sample_reports/gpt-ddp/*.sqlite"))
# First to last device activity.
WINDOW_NS = 678_796_712
STREAM = re.compile(r"^(?:CUDA|HIP)-(D\d+)\.S(\d+)(?:-(\S+))?\s*$")


class Client:
    """A trace as BasicAnalysis reads it."""

    def __init__(self, stem: Path) -> None:
        header = stem.with_suffix(".prv").read_text().split("\n", 1)[0]
        tasks = [tuple(map(int, t)) for t in re.findall(r"(\d+):(\d+)", header.rsplit("(", 1)[1])]
        rows = _sections(stem.with_suffix(".row"))
        threads = [(task, thread, node) for task, (n, node) in enumerate(tasks, 1) for thread in range(1, n + 1)]
        self.pcf = stem.with_suffix(".pcf").read_text().splitlines()
        self.nodes = rows["NODE"]
        self.streams: dict[tuple[int, int], str] = {}
        self.hosts: list[str] = []
        for (task, thread, node), label in zip(threads, rows["THREAD"], strict=True):
            if found := STREAM.match(label):
                self.streams[task, thread] = f"{self.nodes[node - 1]}:{found[1]}"
            elif not label.startswith("Metrics GPU"):
                self.hosts.append(label)
        self._trace = nsys2prv.read_prv(stem.with_suffix(".prv"))

    def of_devices(self, number: int, values: range | None = None) -> dict[str, list[Event]]:
        """Intervals of an event type on each device."""
        found: dict[str, list[Event]] = defaultdict(list)
        columns = ("task", "thread", "start", "end", "value")
        for task, thread, start, end, value in self._trace.intervals(number).select(columns).rows():
            if (task, thread) in self.streams and (values is None or value in values):
                found[self.streams[task, thread]].append(Event(start, end, "", ""))
        return found


def _sections(row: Path) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for line in filter(None, row.read_text().splitlines()):
        if line.startswith("LEVEL "):
            labels = sections[line.split()[1]] = []
        else:
            labels.append(line)
    return sections


@pytest.fixture(scope="module", params=[False, True], ids=["our types", "public types"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    stem = tmp_path_factory.mktemp("gpt-ddp") / "trace"
    writing = nsys2prv.TraceOutput(public_types=request.param)
    nsys2prv.translate(REPORTS, stem, writing=writing, execution=nsys2prv.Execution(quiet=True))
    return Client(stem)


def test_it_knows_the_trace(client: Client) -> None:
    labels = {" ".join(line.split()[1:]) for line in client.pcf}
    assert {"63000001 CUDA memcpy kernel", "63000007 NCCL kernel"} <= labels
    assert "STATES" not in client.pcf


def test_four_devices_on_two_nodes(client: Client) -> None:
    assert client.nodes == ["gpu-node0", "gpu-node1"]
    assert sorted(set(client.streams.values())) == ["gpu-node0:D0", "gpu-node0:D1", "gpu-node1:D2", "gpu-node1:D3"]


def test_host_threads_as_sql_says(client: Client) -> None:
    """Threads with CUDA calls or NVTX ranges."""
    union_of = (
        "SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME UNION SELECT globalTid FROM NVTX_EVENTS WHERE eventType = 59"
    )
    expected = sum(
        sqlite3.connect(report).execute(f"SELECT count(*) FROM ({union_of})").fetchone()[0] for report in REPORTS
    )
    assert len(client.hosts) == expected


def test_copies_and_nccl_are_found(client: Client) -> None:
    reports = [Report(path, rank) for rank, path in enumerate(REPORTS)]
    copies, nccl = client.of_devices(63000001, range(3, 7)), client.of_devices(63000007)
    assert [len(copies[d]) for d in sorted(copies)] == [len(r.memory) for r in reports]
    assert [len(nccl[d]) for d in sorted(nccl)] == [68, 68, 68, 68]


def test_its_efficiencies_are_the_oracles(client: Client) -> None:
    """Parallel = load balance x communication x orchestration, NCCL as communication."""
    kernels = client.of_devices(63000006)
    copies, nccl = client.of_devices(63000001, range(3, 7)), client.of_devices(63000007)
    devices = sorted(set(client.streams.values()))
    whole = [(0, 10**12)]
    useful = [length(union(kernels[d]), whole) for d in devices]
    busy = [length(union(kernels[d] + copies[d] + nccl[d]), whole) for d in devices]
    assert useful == [24_153_561, 24_259_545, 24_274_162, 24_232_295]
    figures = {
        "parallel": sum(useful) / len(devices) / WINDOW_NS,
        "load balance": sum(useful) / len(devices) / max(useful),
        "communication": max(useful) / max(busy),
        "orchestration": max(busy) / WINDOW_NS,
    }
    expected = {"parallel": 0.0357, "load balance": 0.9982, "communication": 0.0363, "orchestration": 0.9854}
    assert figures == pytest.approx(expected, abs=5e-5)
