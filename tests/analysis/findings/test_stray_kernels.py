"""Ranks that work on the GPU of another rank."""

from __future__ import annotations

import polars as pl
import pytest
from programs import findings_of, program

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.conclude import with_findings
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.question import Question

# Rank 1 makes its input (b) on GPU 0 and copies it to its own. It takes 2 ms, and rank 0 waits.
RUN = """
0| k:a:GEMM @0 5-500, n @10 500-905
1| k:b:elementwise @0 5-15, c:Peer-to-Peer @2 20-300, k:a:GEMM @5 300-800, n @10 800-905
"""


def on_gpu_0(run: Run, kernel: str) -> Run:
    """Move kernels of a name to GPU 0, to a row of their own there."""
    there = pl.col("name").cast(pl.String) == kernel
    moved = run.work.with_columns(
        device=pl.when(there).then(0).otherwise("device"), row=pl.when(there).then(6).otherwise("row")
    )
    return run._replace(work=moved, row_labels=(*run.row_labels, "row 6"))


def test_a_rank_that_launches_on_the_gpu_of_another_is_named_with_its_copies() -> None:
    stray = findings_of(on_gpu_0(program(RUN), "b"))["stray-kernels"]
    assert stray.title == (
        "Rank 1 launches a kernel an iteration on GPU 0 of host, which is rank 0's: 2.80 ms on the critical path, "
        "with copies between GPUs"
    )
    assert (stray.ranks, stray.evidence["owner"], stray.cost_ns) == ((1,), 0, 1_400_000)


@pytest.mark.parametrize(("line", "kernel"), [(RUN, ""), (RUN, "a")], ids=["at home", "two at home on one GPU"])
def test_no_rank_strays(line: str, kernel: str) -> None:
    assert "stray-kernels" not in findings_of(on_gpu_0(program(line), kernel))


@pytest.mark.parametrize("window", ["steady", "device"])
def test_work_of_single_iterations_does_not_stray(window: str) -> None:
    others = RUN.replace("k:b:elementwise @0 5-15, ", "").strip().splitlines()[1].split("|")[1]
    loop = on_gpu_0(program(RUN, steps=60, **{f"step{n}_rank1": others for n in range(1, 60)}), "b")
    analysis = with_findings(analyze_run(loop, Question(metrics=(), window=window)))
    assert "stray-kernels" not in {one.id for one in analysis.findings}
    stray = with_findings(analyze_run(on_gpu_0(program(RUN), "b"), Question(metrics=(), window=window)))
    assert "stray-kernels" in {one.id for one in stray.findings}


# Rank 1 exchanges data by copies between GPUs, too, far from its kernel on GPU 0, and then waits for rank 0.
EXCHANGE = """
0| k:a:GEMM @0 5-500, n @10 500-905
1| k:b:elementwise @0 5-15, c:Peer-to-Peer @2 20-300, k:a:GEMM @5 300-500, c:Peer-to-Peer @6 500-800, n @10 800-905
"""


def test_copies_that_the_program_makes_between_kernels_of_its_own_gpu_do_not_count() -> None:
    whole, stray = (findings_of(on_gpu_0(program(line), "b"))["stray-kernels"] for line in (RUN, EXCHANGE))
    assert whole.evidence["on_critical_path_ns"] == stray.evidence["on_critical_path_ns"] == 2_800_000
