"""Forward kernels that threads of backward passes launch again are named, with what they cost."""

from __future__ import annotations

import polars as pl
import pytest
from programs import ROWS, findings_of, program

from nsys2prv.analysis.frames import WORK, Hardware, Run
from nsys2prv.report.identity import Capacity

LAYER = ("norm:normalization", "product_tn:GEMM", "gelu:elementwise")
GRADIENTS = ("product_nt:GEMM", "product_nn:GEMM", "norm_gradient:normalization")


def training(forward: tuple[str, ...], backward: tuple[str, ...], thread: str = "pt_autograd_0", late: int = 0) -> Run:
    """Return a run of kernels of 0.5 ms, the second row of which another thread launches. `late`: its pause (us)."""
    names = [*forward, *backward]
    times = [(50 * n + 10, 50 * n + 60) for n in range(len(names))]
    called = [n if n < len(forward) else n + late * (n - len(forward) + 1) // 10 for n in range(len(names))]
    kernels = [f"k:{name} @{at} {max(at + 1, b)}-{e}" for name, at, (b, e) in zip(names, called, times, strict=True)]
    run = program("\n".join(f"{rank}| {', '.join(kernels)}" for rank in (0, 1)))
    second = pl.int_range(pl.len()).over("task") % len(names) >= len(forward)
    rows = pl.when(second).then(2 * ROWS + pl.col("task")).otherwise("caller_row")
    return run._replace(work=run.work.with_columns(caller_row=rows), row_labels=(*run.row_labels, thread, thread))


SMALL = ("a:elementwise", "b:elementwise", "c:elementwise")
TWO_LAYERS = (*LAYER, "add:elementwise", *LAYER, "loss:loss")
AGAIN = (*LAYER, *GRADIENTS, *LAYER, *GRADIENTS)


def test_layers_that_the_backward_pass_computes_again_are_named() -> None:
    """Six kernels of 20 take 3 ms of 10 an iteration."""
    found = findings_of(training(TWO_LAYERS, AGAIN[:11]))["recomputed-activations"]
    assert found.title == ("The backward pass computes activations again: 32 % of compute, 3.00 ms an iteration")
    assert found.cost_ns == pytest.approx(3e6)
    assert found.severity == "medium", "it trades time for memory"
    assert found.evidence["kernels"] == 6
    assert "This trades time for memory. If memory allows, keep" in found.advice


@pytest.mark.parametrize(
    "run",
    [
        # Gradients alone.
        training(TWO_LAYERS, (*GRADIENTS, *GRADIENTS)),
        # Two kernels in a row, as of a product and its activation in a layer of the loss.
        training(TWO_LAYERS, (*LAYER[:2], *GRADIENTS, *LAYER[1:], *GRADIENTS)),
        # Elementwise kernels are alike in both passes.
        training((*SMALL, *LAYER), SMALL),
        # Kernels in a row, but two that differ.
        training(("norm:normalization", "product_tn:GEMM") * 2, ("norm:normalization", "product_tn:GEMM") * 2),
        # More often than the forward pass has them: work of its own.
        training((*LAYER, "loss:loss"), AGAIN),
        # A thread that is none of backward passes, as of another model.
        training(TWO_LAYERS, AGAIN, thread="python3"),
    ],
    ids=["gradients", "two kernels", "elementwise", "two different", "more often", "another thread"],
)
def test_other_kernels_are_no_activations(run: Run) -> None:
    assert "recomputed-activations" not in findings_of(run)


def test_the_same_kernels_with_other_grids_are_others() -> None:
    run = training(TWO_LAYERS, AGAIN[:11])
    shape = pl.when(pl.col("caller_row") >= 2 * ROWS).then(2).otherwise("shape")
    assert "recomputed-activations" not in findings_of(run._replace(work=run.work.with_columns(shape=shape)))


def test_parameters_that_both_passes_gather_are_no_activations() -> None:
    """As FSDP does before each layer, with kernels over lists of tensors."""
    gathered = ("multi_tensor_apply_kernel:copy/cast", "split_with_sizes_copy_out:copy/cast", *LAYER)
    run = training((*gathered, "loss:loss"), (*gathered, *GRADIENTS))
    names = pl.col("name").cast(pl.String).str.replace_all(" ", "_").cast(WORK["name"])
    found = findings_of(run._replace(work=run.work.with_columns(names)))["recomputed-activations"]
    assert (found.evidence["kernels"], found.evidence["recomputed_ns"]) == (3, 1_500_000)


def test_hosts_that_launch_activations_again_cost_time_of_their_own() -> None:
    """The thread of backward passes launches each kernel 0.91 ms after the last: hosts are the critical path."""
    found = findings_of(training(LAYER, LAYER, late=900))["recomputed-activations"]
    assert "ms an iteration, and launching it takes 2." in found.title
    assert found.cost_ns == pytest.approx(3 * 910_000, rel=0.05)


def test_the_memory_in_use_is_told() -> None:
    hardware = (Hardware(capacity=Capacity(memory=100), memory_peaks=(40,)), Hardware())
    found = findings_of(training(TWO_LAYERS, AGAIN[:11])._replace(hardware=hardware))["recomputed-activations"]
    assert "If memory allows (a process holds at most 40 % of a GPU's), keep" in found.advice
