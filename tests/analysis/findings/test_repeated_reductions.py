"""Gradients that are reduced in several backward passes for one step of the optimizer: certain or not told."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from programs import ROWS, findings_of, program

from nsys2prv.analysis.frames import NCCL, Run

RANKS = 2
STEP = "k:FusedAdam @60 800-990"
# Two passes: a forward one, and a backward one with two reductions of 1 ms.
ACCUMULATED = "k @0 2-200, n @10 200-300, n @11 300-400, k @20 400-500, n @30 500-600, n @31 600-700, k @40 700-800"


def accumulating(
    line: str = f"{ACCUMULATED}, {STEP}", sizes: Sequence[int] = (1000,), thread: str = "pt_autograd_0"
) -> Run:
    """Return a run whose reductions another thread than the first one launches, of some bytes in turn."""
    run = program("\n".join(f"{rank}| {line}, wait 70-995" for rank in range(RANKS)))
    row = ROWS * RANKS + pl.col("task")
    work = run.work.with_columns(caller_row=pl.when(pl.col("kind") == NCCL).then(row).otherwise("caller_row"))
    number = pl.col("operation") % 100 % len(sizes)
    bytes_ = number.replace_strict(dict(enumerate(sizes)), return_dtype=pl.Int64)
    parts, labels = run.parts.with_columns(bytes=bytes_), (*run.row_labels, *[thread] * RANKS)
    return run._replace(work=work, parts=parts, row_labels=labels)


def test_gradients_that_each_pass_reduces_are_reduced_once() -> None:
    """Of 4 ms of transfers, those of the first pass are saved, and `exposed-transfer` has the others."""
    found = findings_of(accumulating(sizes=(1000, 2000)))
    (repeated, transfer) = (found[name] for name in ("repeated-reductions", "exposed-transfer"))
    assert repeated.title == (
        "Gradients are reduced in each of 2 backward passes an iteration, for one step of the optimizer: 2.00 ms of "
        "transfers that are not hidden"
    )
    assert repeated.cost_ns == pytest.approx(2e6)
    assert repeated.evidence["reductions_a_pass"] == 2
    assert "model.no_sync()" in repeated.advice
    assert "an ideal network would save 2.00 ms an iteration beyond what fewer collectives save" in transfer.title


@pytest.mark.parametrize(
    "run",
    [
        # Other bytes in the second pass, as of another model, or of buckets that are rebuilt.
        accumulating(sizes=(1000, 2000, 1000, 3000)),
        # A reduction more in one of them.
        accumulating(f"{ACCUMULATED}, n @41 800-810, {STEP}"),
        # A thread that is none of backward passes.
        accumulating(thread="python3"),
        # The optimizer runs after each pass: two steps in one iteration.
        accumulating(f"{ACCUMULATED.replace('k @20', 'k:FusedAdam @20')}, {STEP}"),
        # No optimizer is known.
        accumulating(ACCUMULATED),
        # One backward pass: nothing is launched between its reductions.
        accumulating(f"{ACCUMULATED.replace('k @20', 'k @9')}, {STEP}"),
    ],
)
def test_other_reductions_are_not_the_same_gradients(run: Run) -> None:
    assert "repeated-reductions" not in findings_of(run)


LONGER = ACCUMULATED.replace("n @30 500-600", "n @30 500-560")


@pytest.mark.parametrize(("line", "found"), [(ACCUMULATED, True), (LONGER, False)])
def test_without_bytes_transfers_of_like_times_are_of_the_same_gradients(line: str, found: bool) -> None:
    """The first reduction of the second pass takes 1 ms, or 0.6."""
    run = accumulating(f"{line}, {STEP}")
    unknown = run._replace(parts=run.parts.with_columns(bytes=pl.lit(None, pl.Int64)))
    assert ("repeated-reductions" in findings_of(unknown)) == found


@pytest.mark.parametrize("known", [True, False])
def test_forward_passes_that_reduce_are_tensor_parallel(known: bool) -> None:
    """The first reduction of each pass is of the main thread, or of an unknown one."""
    run = accumulating()
    first = (pl.col("kind") == NCCL) & (pl.int_range(pl.len()).over("task", "kind") % 2 == 0)
    other = ROWS * pl.col("task") if known else pl.lit(None, pl.Int64)
    own = run.work.with_columns(caller_row=pl.when(first).then(other).otherwise("caller_row"))
    assert "repeated-reductions" not in findings_of(run._replace(work=own))


def test_threads_that_prepare_data_begin_no_pass() -> None:
    """A third thread launches a kernel between the two reductions of one backward pass."""
    run = accumulating(
        f"k @0 2-200, k @1 200-210, n @10 210-300, k:Decode @20 300-310, n @30 310-400, k @31 400-800, {STEP}"
    )
    decode = pl.col("name").cast(pl.String) == "Decode"
    other = pl.when(decode).then(ROWS * RANKS + RANKS).otherwise("caller_row")
    work = run.work.with_columns(caller_row=other)
    labels = (*run.row_labels, "decoder")
    assert "repeated-reductions" not in findings_of(run._replace(work=work, row_labels=labels))


def test_hosts_that_are_slower_than_the_transfers_are_told() -> None:
    """Each host launches until 9 ms of 10: without transfers it takes as long."""
    line = "k @0 5-200, n @190 205-255, k @300 305-400, n @390 405-455, k:FusedAdam @900 905-990"
    found = findings_of(accumulating(line))["repeated-reductions"]
    assert (found.cost_ns, found.severity) == (0, "medium")
    assert found.advice.endswith("The hosts are the slower part here; they launch less then, too.")
