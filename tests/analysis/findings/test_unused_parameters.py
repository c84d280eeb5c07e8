"""Steps of DistributedDataParallel that look for unused parameters: certain or not told."""

from __future__ import annotations

import polars as pl
import pytest
from programs import ROWS, findings_of, program

from nsys2prv.analysis.frames import COPY, NCCL

SUM_OF_INTEGERS = "ncclDevKernel_AllReduce_Sum_u32_RING_LL"


@pytest.mark.parametrize(
    ("name", "thread", "steps", "copy", "told"),
    [
        (SUM_OF_INTEGERS, "pt_autograd_0 8", 6, "Host-to-Device", True),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pt_autograd_0 8", 6, "Host-to-Device", False),  # gradients
        (SUM_OF_INTEGERS, "pt_autograd_0 8", 6, "Device-to-Device", False),  # another sum
        (SUM_OF_INTEGERS, "python3 7", 6, "Host-to-Device", False),  # the program counts something
        (
            SUM_OF_INTEGERS,
            "pt_autograd_0 8",
            1,
            "Host-to-Device",
            False,
        ),  # with a static graph the first step alone looks for them
    ],
)
def test_a_search_for_unused_parameters_is_told(name: str, thread: str, steps: int, copy: str, told: bool) -> None:
    """Kernels of 1 unit are launched every 5 units, the reduction last."""
    line = ", ".join(
        [*(f"k @{at} {at + 1}-{at + 2}" for at in range(0, 985, 5)), f"c:{copy} @980 983-984", "n @985 986-990"]
    )
    run = program(f"0| {line}\n1| {line}")
    of_threads = pl.col("kind").is_in([NCCL, COPY]) & (pl.col("start") < steps * 10_000_000)
    work = run.work.with_columns(
        name=pl.when(of_threads, pl.col("kind") == NCCL)
        .then(pl.lit(name))
        .otherwise(pl.col("name").cast(pl.String))
        .cast(run.work["name"].dtype),
        caller_row=pl.when(of_threads).then(2 * ROWS).otherwise("caller_row"),
    )
    found = findings_of(run._replace(work=work, row_labels=(*run.row_labels, thread)))
    assert ("leave out find_unused_parameters=True" in found["launch-bound"].advice) == told
