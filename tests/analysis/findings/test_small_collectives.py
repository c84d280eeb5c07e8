"""Many small collectives in a row: when merging them gains, and how much."""

from __future__ import annotations

import polars as pl
import pytest
from programs import UNIT, findings_of, program

from nsys2prv.analysis.frames import Run


def of_sizes(small: int, *, between: str = "", large: bool = True, late: bool = False, count: int = 20) -> Run:
    """Return a run of two ranks: 5 ms of compute, small collectives of 20 us, one of 50 MB in 1 ms, and compute.

    20 us lie between the small ones, with `between` in them. `late`: each of them is launched after the one before.
    """
    items = []
    for n in range(count):
        begin = 502 + 4 * n
        items.append(f"n @{begin - 1 if late else 2} {begin}-{begin + 2}")
        if between:
            items.append(f"{between} @2 {begin + 2}-{begin + 4}")
    end = 800 if large else begin + 2
    items += ["n @3 700-800"] * large
    line = f"k @0 2-500, {', '.join(items)}, k @4 {end}-995, wait 10-995"
    run = program(f"0| {line}\n1| {line}")
    size = pl.when(pl.col("ended") - pl.col("began") == 2 * UNIT).then(small).otherwise(50_000_000)
    return run._replace(parts=run.parts.with_columns(bytes=size))


def test_small_collectives_in_a_row_are_merged() -> None:
    """Merged, 20 times 10 kB take one latency, and 4 us at the rate of the large one: 376 of 400 us are saved."""
    run = of_sizes(10_000)
    found = findings_of(run)["small-collectives"]
    assert found.title == (
        "20 small collectives an iteration (AllReduce of 10.0 kB, 20 us each) follow each other: merged, they take "
        "0.38 ms less"
    )
    assert found.cost_ns == pytest.approx(376_000)
    assert (found.evidence["exposed_transfer_ns"], found.evidence["merged_ns"]) == (400_000, 24_000)
    assert "fewer, larger messages (one buffer, ncclGroupStart)" in found.advice


def test_transfers_cost_what_merging_does_not_save() -> None:
    """Of 1.4 ms, the large collective remains, and one latency; without the large one nothing is worth a line."""
    transfer = findings_of(of_sizes(10_000))["exposed-transfer"]
    assert "an ideal network would save 1.02 ms an iteration more than fewer collectives" in transfer.title
    assert transfer.cost_ns == pytest.approx((1_400_000 - 376_000) / 2)
    found = findings_of(of_sizes(4, large=False))
    assert found["small-collectives"].title.startswith("20 small collectives an iteration (AllReduce of 4 B, 20 us")
    assert "exposed-transfer" not in found


@pytest.mark.parametrize("size", [1_000_000, 600_000])
def test_collectives_that_larger_ones_do_not_outdo_are_not_merged(size: int) -> None:
    """1 MB in 20 us is as fast as 50 MB in 1 ms."""
    assert "small-collectives" not in findings_of(of_sizes(size))


def test_small_collectives_that_compute_separates_may_need_each_other() -> None:
    assert "small-collectives" not in findings_of(of_sizes(10_000, between="k"))


def test_small_collectives_that_the_host_launches_one_after_the_other_are_its_own() -> None:
    assert "small-collectives" not in findings_of(of_sizes(10_000, late=True))


def test_a_few_small_collectives_belong_to_an_iteration() -> None:
    assert "small-collectives" not in findings_of(of_sizes(10_000, count=9))
