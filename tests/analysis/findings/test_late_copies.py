"""Ranks that are late as they copy: of pageable memory, and between GPUs."""

from __future__ import annotations

import pytest
from programs import findings_of, program

USUAL = "0| k @15 16-260, n @17 260-345, wait 20-346"
CALL = "cuda:cudaMemcpyAsync 0-80"
PINNED = "Allocate host buffers as pinned memory"


@pytest.mark.parametrize(
    ("copied", "told"),
    [
        ("c:Host-to-Device:Pageable_to_Device @0 1-80", True),
        ("c:Host-to-Device:Pinned_to_Device @0 1-80", False),
        # The host does something else for most of the call.
        ("c:Host-to-Device:Pageable_to_Device @0 1-15", False),
    ],
    ids=["pageable", "pinned", "short"],
)
def test_a_host_that_is_late_in_pageable_copies_is_told_to_pin_memory(copied: str, told: bool) -> None:
    late = f"1| {CALL}, {copied}, k @95 96-340, n @96 340-345, wait 100-346"
    found = findings_of(program(f"{USUAL}\n{late}", every=400))["late-rank"]
    assert found.ranks == (1,)
    assert (PINNED in found.advice) == told
    assert ("Rank 1 copies pageable memory, 0.79 ms an iteration" in found.advice) == told


def test_a_rank_that_is_late_in_copies_between_gpus_is_asked_where_its_data_lies() -> None:
    late = "1| c:Peer-to-Peer @0 5-405, k @10 415-500, n @20 500-505, wait 30-506"
    found = findings_of(program(f"0| k @0 5-90, n @10 90-505, wait 20-506\n{late}"))["late-rank"]
    assert found.title.startswith("Rank 1's copies (`Peer-to-Peer`) delay rank 0 by")
    assert "its data lies on the GPU of another rank" in found.advice
