"""Hosts that compute between a copy to them and one back are told so, and that the device can do it."""

from __future__ import annotations

import polars as pl
import pytest
from programs import Sampled, analysis_of, findings_of, program, with_samples

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.hosts.host_compute import trips_over_hosts
from nsys2prv.analysis.findings.late_rank import late_rank
from nsys2prv.analysis.frames import COPY, Run

OUT, BACK = "c:Device-to-Host @5 100-120", "c:Host-to-Device @700 701-720"
TRIP = f"k @0 5-100, {OUT}, cuda:cudaStreamSynchronize 6-121, {BACK}, k @702 721-990"
NUMPY = ("FLOAT_add", "_multiarray_umath.cpython-312-x86_64-linux-gnu.so", range(150, 700, 50))
PLACED = ("parse", "app", range(150, 700, 50))


def sized(run: Run, size: int) -> Run:
    """The same run with copies of as many bytes."""
    of_copies = pl.when(pl.col("kind") == COPY).then(size).otherwise("bytes")
    return run._replace(work=run.work.with_columns(bytes=of_copies))


@pytest.mark.parametrize(
    ("line", "size", "counted"),
    [
        (TRIP, 1 << 20, True),
        # A loss that is read, and then the next batch.
        (TRIP, 4, False),
        (TRIP.replace(BACK, "k @700 701-720"), 1 << 20, False),
        (TRIP.replace(OUT, "k @5 100-120"), 1 << 20, False),
        (TRIP.replace(BACK, f"k @122 123-130, {BACK}"), 1 << 20, False),
        (f"{TRIP}, load 115-705", 1 << 20, False),
        (f"{TRIP}, os:write 121-705", 1 << 20, False),
    ],
    ids=["trip", "values", "no copy back", "no copy to the host", "a kernel between", "loads", "in the system"],
)
def test_idle_time_between_a_copy_of_data_to_the_host_and_one_back_is_a_round_trip(
    line: str, size: int, counted: bool
) -> None:
    trips = trips_over_hosts(case_of(analysis_of(sized(program(f"0| {line}"), size))))
    # The device is idle for 10 us before the host writes.
    trips = trips.filter(pl.col("ns") > 10_000)
    assert trips["number"].sort().to_list() == (list(range(6)) if counted else [])
    # From 1.2 ms to the launch at 7 ms, which reaches the device at once.
    assert trips["ns"].to_list() == [5_810_000] * len(trips)


def test_copies_to_the_host_in_a_row_count_together() -> None:
    many = ", ".join(f"c:Device-to-Host @5 {100 + n}-{101 + n}" for n in range(20))
    trips = trips_over_hosts(case_of(analysis_of(sized(program(f"0| {TRIP.replace(OUT, many)}"), 10_000))))
    assert len(trips) == 6


@pytest.mark.parametrize(
    ("line", "sampled", "title", "says"),
    [
        (
            TRIP,
            NUMPY,
            "Host-bound: the host computes between a copy from the device and one to it, and",
            "(_multiarray_umath); compute that on the device (",
        ),
        (
            TRIP,
            PLACED,
            "Host-bound: the host works between a copy from the device and one to it, and",
            "`parse` (app); what it computes with the copied data, compute on the device (",
        ),
        (
            TRIP.replace(OUT, "k @5 100-120"),
            NUMPY,
            "Host-bound: the host computes, and the device",
            " in place of NumPy), or ahead of time in another thread or process.",
        ),
        (
            TRIP.replace(OUT, "k @5 100-120"),
            PLACED,
            "Host-bound: the device has no work while the host is busy",
            "move that work off the launching thread or out of the loop.",
        ),
    ],
    ids=["computes between copies", "works between copies", "computes", "other work"],
)
def test_a_busy_host_is_told_what_the_device_can_do(line: str, sampled: Sampled, title: str, says: str) -> None:
    found = findings_of(with_samples(program(f"0| {line.replace('cuda:cudaStreamSynchronize 6-121, ', '')}"), sampled))
    assert found["host-bound"].title.startswith(title)
    assert says in found["host-bound"].advice


@pytest.mark.parametrize("copies", [True, False])
def test_a_device_that_is_empty_after_a_wait_for_such_a_copy_is_not_told_to_run_ahead(copies: bool) -> None:
    waits = TRIP.replace("cuda:cudaStreamSynchronize 6-121", "wait 6-121")
    line = waits if copies else waits.replace(OUT, "k @5 100-120")
    advice = findings_of(program(f"0| {line}"))["host-synchronization"].advice
    assert ("The host waits for a copy from the device, works," in advice) == copies
    assert ("Let the host run ahead" in advice) != copies


USUAL = "k @0 5-100, n @101 102-995, wait 103-996"
LATE = TRIP.replace("721-990", "721-980") + ", n @985 990-995"
SOONER = LATE.replace("@700 701-720", "@300 301-320").replace("@702 721-980, n @985 990", "@302 321-580, n @585 590")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            (USUAL, LATE, USUAL),
            "In 6 of 6 iterations the host of rank 1 copies data from its device, works, and copies data to it: of the "
            "66 samples of launching threads in these times 100 % are in `FLOAT_add` (_multiarray_umath); "
            "compute that on the device (",
        ),
        (
            (SOONER, LATE, SOONER),
            "The hosts of ranks work between copies from their devices and to them, that of rank 1 longest: ",
        ),
    ],
    ids=["one rank", "all ranks"],
)
def test_a_rank_that_is_late_as_its_host_computes_is_told_so(lines: tuple[str, ...], says: str) -> None:
    picture = "\n".join(f"{rank}| {line}" for rank, line in enumerate(lines))
    run = with_samples(program(picture), NUMPY, row=3, task=1)
    (late,) = late_rank(case_of(analysis_of(run)))
    assert late.ranks == (1,)
    assert late.advice.startswith(says)
