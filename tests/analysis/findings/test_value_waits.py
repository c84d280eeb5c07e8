"""Waits for values of the device in calls of the system, as of JAX: which calls are taken for one."""

from __future__ import annotations

import polars as pl
import pytest
from programs import analysis_of, findings_of, program

from nsys2prv.analysis.facts.value_waits import value_waits
from nsys2prv.analysis.frames import COPY, Run

READING = "k @0 2-300, c:Device-to-Host @15 300-301, os:futex 10-320, k @400 402-990"


def reading(line: str = READING, size: int = 4, **changed: str) -> Run:
    """Return a run of one rank that copies some bytes to the host, and waits for them in a call of the system."""
    run = program(f"0| {line}", **changed)
    bytes_ = pl.when(pl.col("kind") == COPY).then(size).otherwise("bytes")
    return run._replace(work=run.work.with_columns(bytes=bytes_))


def test_a_wait_for_a_value_empties_the_device() -> None:
    """The host waits for 3.1 ms, and launches 1 ms after the copy: none of that is waiting for the system.

    The host's lead then lacks for the 0.12 ms between iterations, too.
    """
    found = findings_of(reading())
    waiting = found["host-synchronization"]
    assert (
        waiting.title
        == "Waiting for values (in `futex`) empties the device: 1.13 ms an iteration until new work is launched"
    )
    assert (waiting.evidence["synchronization"], waiting.evidence["calls"]) == ("futex", 6)
    assert not {"system-waiting", "host-bound"} & set(found)


@pytest.mark.parametrize(
    "run",
    [
        # A copy of data.
        reading(size=1_000_000),
        # The call ends long after the copy: it waits for something else.
        reading(READING.replace("10-320", "10-360")),
        # The copy is older than the call.
        reading(READING.replace("@15", "@8")),
        # Another thread launches meanwhile.
        reading(f"{READING}, k @310 312-330"),
        # A thread of the process waits for the copy in a call of CUDA, and the main one for that thread.
        reading(f"{READING}, wait 16-302"),
        # In two of six iterations.
        reading(READING.replace("Device-to-Host", "Host-to-Device"), step1_rank0=READING, step2_rank0=READING),
    ],
)
def test_other_calls_wait_for_no_value(run: Run) -> None:
    found = findings_of(run)
    assert "Waiting for values" not in found.get("host-synchronization", found["missing-data"]).title


def test_without_iterations_no_call_recurs() -> None:
    made = analysis_of(reading())
    assert value_waits(made).height == len(made.window.iterations) == 6
    assert value_waits(made._replace(window=made.window._replace(iterations=()))).is_empty()
