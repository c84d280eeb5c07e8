"""Phases by the names that programs and frameworks give their ranges."""

from __future__ import annotations

import polars as pl
import pytest
from analysis_cases import iterations_of, run_of, work_of

from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.iterations.phases import OCCURRENCE, phase_of
from nsys2prv.analysis.predict.model import model_of
from nsys2prv.intervals.spans import one_span
from nsys2prv.run.iterations.steady import Window


@pytest.mark.parametrize(
    ("phase", "texts"),
    [
        ("forward", ["forward", "Forward pass", "PP:0F2", "FSDP::pre_forward (layers.1)", "gpu_model_runner: forward",
                     "FullyShardedDataParallel.forward", "execute_context_1(64)_generation_0(0)", "fwd",
                     "[Executor] _forward_step 7: 1 ctx reqs, 2 gen reqs", "Thunk:#hlo_op=jvp(mlp)/dot#"]),
        ("backward", ["backward", "loss.backward()", "PP:1B0", "PP:1I0", "PP:3W11", "FSDP::post_backward (layers.1)",
                      "autograd::engine::evaluate_function: AddmmBackward0", "bwd", "transpose(jvp(mlp))/dot"]),
        ("forward_backward", ["forward-backward", "forward_backward_func", "fwd-bwd", "layer_3f-layer_4b",
                              "forward and backward"]),
        ("optimizer", ["optimizer", "Optimizer.step#AdamW.step", "optim step"]),
        ("load", ["load", "data loading", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "get_batch",
                  "load_batch", "batch-generator"]),
        (None, ["step 3", "PP:0SEND_F2", "PP:0UNSHARD1", "FSDP::all_gather (b.1)", "attention", "moe_dispatch",
                "load checkpoint", "download"]),
    ],
)  # fmt: skip
def test_phase_of_a_range(phase: str | None, texts: list[str]) -> None:
    found = pl.DataFrame({"text": texts}).with_columns(phase=phase_of(pl.col("text")))
    assert found.rows() == [(text, phase) for text in texts]


def test_a_range_forward_backward_has_a_column_of_its_own() -> None:
    work = work_of([(0, 10, 20, "kernel", 6), (0, 30, 45, "kernel", 26)])
    ranges = [(0, 0, 0, 50, "step 1"), (0, 0, 5, 25, "forward-backward"), (0, 0, 25, 40, "optimizer")]
    table = iterations_of(run_of(work, (), ranges, ranks=1))
    row = table.row(0, named=True)
    assert {name: row[f"{name}_ns"] for name in ("forward_backward", "forward", "backward", "optimizer", "load")} == {
        "forward_backward": 10, "forward": None, "backward": None, "optimizer": 15, "load": None,
    }  # fmt: skip


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_longer_one_of_ranges_that_begin_together_names_the_phase(order: list[int]) -> None:
    """Whichever the report has first."""
    work = work_of([(0, 12, 20, "kernel", 10), (0, 32, 40, "kernel", 30)])
    ranges = [(0, 0, 5, 50, "forward"), (0, 0, 5, 20, "recompute for backward")]
    run = run_of(work, (), [ranges[n] for n in order], ranks=1)
    graph, steps = dependencies(run, carried(run)), pl.DataFrame(schema=OCCURRENCE)
    model = model_of(run, graph, run.ranges, steps, Window("trace", one_span(0, 100)), by_ends=False)
    assert model.phases.to_list() == ["forward", "forward"]
