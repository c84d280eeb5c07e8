"""The framework of a program, as the run shows it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from programs import program

import nsys2prv
from nsys2prv.analysis.findings.framework import Framework, framework_of
from nsys2prv.analysis.frames import CALLS

PYTORCH, JAX, CUPY, CUDA, UNKNOWN = Framework


@pytest.mark.parametrize(
    ("kernel", "framework"),
    [
        ("vectorized_elementwise_kernel", PYTORCH),
        ("triton_poi_fused__to_copy_convolution_2", PYTORCH),
        ("GammaBetaBackwardCUDAKernelTemplate", PYTORCH),
        ("loop_multiply_fusion_10", JAX),
        ("all_reduce_8_0_fusion_1", JAX),
        ("fusion_12", JAX),
        ("wrapped_add", JAX),
        ("triton_softmax_2_0", JAX),
        ("cupy_absolute__float64_float64", CUPY),
        ("k[abi:v1,cw51cXTLSUwv1sDUaKthqaNgoKmjgOR3W3Cw6igA9duC0hkwnNG]", CUPY),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", UNKNOWN),
        ("fusion", UNKNOWN),
    ],
)
def test_kernels_tell_the_framework(kernel: str, framework: Framework) -> None:
    run = program("0| k @0 5-990")
    work = run.work.with_columns(pl.lit(kernel, pl.Categorical()).alias("name"))
    assert framework_of(run._replace(work=work)) == framework


def test_of_two_frameworks_that_of_most_kernels_counts() -> None:
    run = program("0| k @0 5-10, k @0 15-20, k @0 25-30", steps=1)
    names = pl.Series("name", ["cupy_add", "wrapped_add", "wrapped_add"], pl.Categorical())
    assert framework_of(run._replace(work=run.work.with_columns(names))) == JAX


def test_threads_ranges_and_processes_tell_it_where_kernels_do_not() -> None:
    run = program("0| k @0 5-990")
    assert framework_of(run._replace(row_labels=("python3 7", "pt_autograd_0 8"))) == PYTORCH
    assert framework_of(run._replace(row_labels=("XlaLauncher:#global=0# 8",))) == JAX
    of_xla = run.ranges.with_columns(pl.lit("TSL", pl.Categorical()).alias("domain"))
    assert framework_of(run._replace(ranges=of_xla)) == JAX
    of_aten = run.ranges.with_columns(pl.lit("aten::add_, seq = 4").alias("text"))
    assert framework_of(run._replace(ranges=of_aten)) == PYTORCH
    for name, framework in (("python3.12:7", UNKNOWN), ("rank 0 solver:7", CUDA), ("rank 0", UNKNOWN)):
        assert framework_of(run._replace(tasks=(run.tasks[0]._replace(name=name),))) == framework
    python = run._replace(tasks=(run.tasks[0]._replace(name="python3:7"),))
    calls = pl.DataFrame([(0, 0, 0, 5, "mpi", "MPI_Barrier")], schema=CALLS, orient="row")
    assert framework_of(python._replace(calls=calls)) == CUDA


def test_helper_processes_do_not_tell_it() -> None:
    run = program("0| k @0 5-990\n1| k @0 5-990")
    tasks = (run.tasks[0]._replace(name="python3:7"), run.tasks[1]._replace(name="cc1plus:8", is_rank=False))
    assert framework_of(run._replace(tasks=tasks)) == UNKNOWN


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("sample_reports/gpt-ddp", PYTORCH),
        ("sample_reports/mpi-halo", CUDA),
        ("sample_reports/single/saxpy.sqlite", CUDA),
        ("sample_reports/single/openmp.sqlite", CUDA),
        # One product, launched by a graph, in Python.
        ("sample_reports/single/graph-node.sqlite", UNKNOWN),
        ("tests/data/nccl-launches/jax.sqlite", JAX),
        ("tests/data/nccl-launches/two-gpus.sqlite", CUDA),
        ("tests/data/mpi-requests", CUDA),
        ("tests/data/python-sampling/python-cuda.sqlite", CUPY),
        ("tests/data/ncu/gpt.sqlite", PYTORCH),
    ],
)
def test_the_framework_of_real_runs(name: str, framework: Framework) -> None:
    found = nsys2prv.analyze(Path(__file__).parents[3] / name)
    assert framework_of(found.run) == framework
