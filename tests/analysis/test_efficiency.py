"""Device efficiency: small cases by hand, real reports by SQL and by figures measured without this project."""

from __future__ import annotations

import numpy as np
import pytest
from analysis_cases import Analysed, Find, sql, work_of
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys2prv.analysis.efficiency import DeviceTime, efficiency, efficiency_of_times
from nsys2prv.analysis.frames import Device
from nsys2prv.intervals.spans import Spans, one_span

GPUS = [Device("host", n, n) for n in range(3)]

# Total of the union of [start, end) over rows of a table, in plain SQL.
UNION = """
WITH rows(s, e) AS ({rows}),
reach AS (SELECT s, e, max(e) OVER (ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM rows)
SELECT sum(max(e - max(s, coalesce(before, s)), 0)) FROM reach
"""
KERNELS = """SELECT start, max("end", start + 1) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
JOIN StringIds ON id = shortName WHERE {nccl}"""
COPIES = """SELECT start, max("end", start + 1) FROM CUPTI_ACTIVITY_KIND_MEMCPY
UNION ALL SELECT start, max("end", start + 1) FROM CUPTI_ACTIVITY_KIND_MEMSET"""
NOT_NCCL, ALL = "value NOT LIKE 'nccl%'", "1"


def test_streams_of_one_device_count_once() -> None:
    work = work_of([(0, 0, 60, "kernel"), (0, 40, 80, "kernel"), (1, 0, 40, "kernel")])
    found = efficiency(work, GPUS[:2], one_span(0, 100), "communication")
    assert [t.useful_ns for t in found.devices] == [80, 40]
    assert found.parallel == pytest.approx(120 / 200)
    assert found[3:] == pytest.approx((60 / 80, 1.0, 0.8))


def test_two_processes_that_share_a_device_count_once() -> None:
    work = work_of([(0, 0, 60, "kernel", None, 0), (0, 0, 60, "kernel", None, 1)])
    assert efficiency(work, GPUS[:1], one_span(0, 60), "communication").parallel == 1.0


def test_a_device_that_did_nothing_counts() -> None:
    work = work_of([(0, 0, 100, "kernel")])
    found = efficiency(work, GPUS[:2], one_span(0, 100), "communication")
    assert (found.parallel, found.load_balance) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("nccl", "useful", "parts"), [("useful", 70, (0.7, 0.875)), ("communication", 30, (0.3, 0.375))]
)
def test_nccl_counts_as_asked_and_copies_never(nccl: str, useful: int, parts: tuple[float, float]) -> None:
    work = work_of([(0, 0, 30, "kernel"), (0, 20, 70, "nccl"), (0, 70, 80, "copy")])
    found = efficiency(work, GPUS[:1], one_span(0, 100), nccl)  # type: ignore[arg-type]
    assert found.devices[0][1:] == (useful, 80)
    assert (found.parallel, found.communication) == pytest.approx(parts)


def test_only_what_lies_in_the_window_counts() -> None:
    work = work_of([(0, 0, 100, "kernel")])
    window = Spans(np.array([10, 50]), np.array([20, 60]))
    assert efficiency(work, GPUS[:1], window, "communication").devices[0].useful_ns == 20


def test_no_work_is_no_efficiency() -> None:
    assert efficiency(work_of([]), [], one_span(0, 0), "useful").parallel == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=8))
def test_the_product_holds_for_any_times(times: list[tuple[int, int]]) -> None:
    found = efficiency_of_times([DeviceTime(GPUS[0], a, a + b) for a, b in times], 10**13)
    assert found.parallel == pytest.approx(found.load_balance * found.communication * found.orchestration)


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo", "mesh-tp-pp"])
@pytest.mark.parametrize(("nccl", "which"), [("useful", ALL), ("communication", NOT_NCCL)])
def test_device_times_are_those_of_sql(analysed: Analysed, report: Find, run: str, nccl: str, which: str) -> None:
    """One report a rank, one GPU a rank."""
    found = analysed(run, nccl=nccl).efficiency
    for path, time in zip(sorted(report(run).glob("*.sqlite")), found.devices, strict=True):
        kernels, every = KERNELS.format(nccl=which), KERNELS.format(nccl=ALL)
        tables = {name for (name,) in sql(path, "SELECT name FROM sqlite_master")}
        copies = COPIES if {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"} <= tables else ""
        busy = f"{every} UNION ALL {copies}" if copies else every
        assert time.useful_ns == sql(path, UNION.format(rows=kernels))[0][0]
        if copies or not {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"} & tables:
            assert time.busy_ns == sql(path, UNION.format(rows=busy))[0][0]


MEASURED = {
    "useful": ([668_689_997, 260_519_366, 287_773_277, 258_510_498], (0.5434, 0.5516, 0.9997, 0.9854)),
    "communication": ([24_153_561, 24_259_545, 24_274_162, 24_232_295], (0.0357, 0.9982, 0.0363, 0.9854)),
}


@pytest.mark.parametrize("nccl", MEASURED)
def test_gpt_ddp_is_as_measured(analysed: Analysed, nccl: str) -> None:
    """Figures of a script that shares nothing with this project."""
    useful, parts = MEASURED[nccl]
    found = analysed("gpt-ddp", nccl=nccl).efficiency
    assert found.window_ns == 678_796_712
    assert [t.useful_ns for t in found.devices] == useful
    assert tuple(round(v, 4) for v in found[2:]) == parts


def test_window_of_a_range_spans_it_over_all_ranks(analysed: Analysed, report: Find) -> None:
    """Ranges of one host and clock: mpi-halo."""
    window = analysed("mpi-halo", window="iteration 5").window
    spans = []
    for path in report("mpi-halo").glob("*.sqlite"):
        epoch = sql(path, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0][0]
        start, end = sql(path, "SELECT start, \"end\" FROM NVTX_EVENTS WHERE text = 'iteration 5'")[0]
        spans.append((start + epoch, end + epoch))
    assert window.end - window.start == max(e for _, e in spans) - min(s for s, _ in spans)
