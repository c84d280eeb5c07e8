"""Hosts that wait for their devices: with and without a record of it, and one rank far more often than others."""

from __future__ import annotations

import polars as pl
import pytest
from programs import analysis_of, findings_of, of_processes, program

from nsys2prv.analysis.findings.case import case_of
from nsys2prv.analysis.findings.waits_of_hosts import waits_by_rank, waits_more
from nsys2prv.analysis.frames import CALLS
from nsys2prv.analysis.host import device_waits

SYNCHRONIZED = "0| k @0 5-400, wait 10-402, k @450 455-990"
SHORT = ", ".join(f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110))
# Rank 1 waits after each of ten kernels, and the other ranks, which wait once, wait for it.
OFTEN = ", ".join(f"k @{90 * n} {90 * n + 1}-{90 * n + 41}, wait {90 * n + 2}-{90 * n + 42}" for n in range(10))
ONCE = "k @0 5-400, n @10 400-905, wait 20-905"
LATE = f"0| {ONCE}\n1| {OFTEN}, n @899 900-905\n2| {ONCE}"


def unrecorded(picture: str) -> str:
    """The same program by a version of nsys that records no synchronization for calls that wait for the device."""
    return picture.replace("wait ", "cuda:cudaDeviceSynchronize ")


def test_a_synchronization_counts_once_with_and_without_its_record() -> None:
    rows = [
        (0, 0, 0, 10, "cuda", "cudaDeviceSynchronize"),
        (0, 0, 1, 9, "synchronization", "Context synchronize"),
        (0, 0, 20, 30, "cuda", "cudaDeviceSynchronize"),
        (0, 0, 40, 50, "cuda", "cudaLaunchKernel"),
        (0, 0, 60, 70, "synchronization", "Stream wait event"),
        # Another thread's record says nothing of this call.
        (0, 1, 80, 90, "cuda", "cuCtxSynchronize"),
        (0, 0, 82, 83, "synchronization", "Stream synchronize"),
    ]
    found = device_waits(pl.DataFrame(rows, schema=CALLS, orient="row"))
    assert sorted(found.select("row", "start", "end").rows()) == [(0, 1, 9), (0, 20, 30), (0, 82, 83), (1, 80, 90)]


def test_a_device_that_runs_dry_after_a_synchronization_without_a_record_is_named() -> None:
    with_record, without = (findings_of(program(text)) for text in (SYNCHRONIZED, unrecorded(SYNCHRONIZED)))
    named = without["host-synchronization"]
    assert named.title.startswith("cudaDeviceSynchronize empties the device")
    assert named.cost_ns == with_record["host-synchronization"].cost_ns > 0


def test_idle_time_within_a_synchronization_without_a_record_is_of_the_host_that_waits() -> None:
    """The host waits until 4.5 ms, and launches at once then; the device has nothing to do from 4 ms on."""
    picture = "0| k @0 5-400, wait 10-450, k @450 455-990"
    with_record, without = (analysis_of(program(text)).explanation.idle for text in (picture, unrecorded(picture)))
    assert without.equals(with_record)
    assert without["host_synchronization_ns"].sum() > 0


def test_a_rank_whose_host_waits_more_often_than_others_is_advised_so() -> None:
    analysis = analysis_of(program(LATE))
    case = case_of(analysis)
    assert waits_by_rank(case) == {0: 1, 1: 10, 2: 1}
    assert [waits_more(waits_by_rank(case), rank) for rank in range(3)] == [None, (10, 1), None]
    (late,) = [one for one in analysis.findings if one.id == "late-rank"]
    assert late.advice.startswith("The host of rank 1 waits 10 times an iteration for its device, those of others 1")


def test_ranks_that_wait_alike_are_not_told_apart() -> None:
    case = case_of(
        analysis_of(program(LATE.replace("k @0 5-400, n @10", OFTEN + ", n @899").replace("wait 20-905", "busy 1-2")))
    )
    assert waits_by_rank(case) == {0: 10, 1: 10, 2: 10}
    assert {waits_more(waits_by_rank(case), rank) for rank in range(3)} == {None}


@pytest.mark.parametrize("devices", [1, 2])
def test_a_process_that_launches_for_several_gpus_is_advised_to_be_several(devices: int) -> None:
    found = findings_of(of_processes(program(f"0| {SHORT}\n1| {SHORT}"), devices))
    says = "One process launches for 2 GPUs: start one for each GPU"
    assert found["launch-bound"].advice.startswith(says) == (devices == 2)
