"""The framework of a program, as the run shows it, and advice in its words."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import polars as pl
import pytest
from programs import analysis_of, findings_of, program

import nsys2prv
from nsys2prv.analysis import findings
from nsys2prv.analysis.facts.framework import Framework, Words, framework_of
from nsys2prv.analysis.frames import CALLS, Run

PYTORCH, JAX, CUPY, CUDA, UNKNOWN = Framework
# A kernel of each.
KERNELS = {PYTORCH: "vectorized_elementwise_kernel", JAX: "loop_add_fusion_6", CUPY: "cupy_add__float64_float64"}


def of(framework: Framework, picture: str) -> Run:
    """Return a run of a program (see `program`) whose kernels `k:KERNEL` are the framework's; of CUDA by its name."""
    name = KERNELS.get(framework, "stencil")
    run = program(picture.replace("KERNEL", name))
    work = run.work.with_columns(pl.col("name").cast(pl.String).str.replace_all(" ", "_").cast(pl.Categorical()))
    tasks = tuple(task._replace(name=f"{task.name} solver:7") if framework == CUDA else task for task in run.tasks)
    return run._replace(work=work, tasks=tasks)


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
    run = of(JAX, "0| k:cupy_add @0 5-10, k:KERNEL @0 15-20, k:KERNEL @0 25-30")
    assert framework_of(run) == JAX


def test_few_kernels_tell_it_if_they_are_all_of_one_framework() -> None:
    """The rest are of libraries."""
    rest = ", ".join(f"k:syevj @0 {at}-{at + 5}" for at in range(100, 990, 10))
    python = "python3:7"
    for more, framework in (("", PYTORCH), (", k:cupy_add @0 40-45", UNKNOWN)):
        run = of(PYTORCH, f"0| k:KERNEL @0 5-10{more}, {rest}")
        assert framework_of(run._replace(tasks=(run.tasks[0]._replace(name=python),))) == framework
    assert framework_of(run._replace(tasks=(run.tasks[0]._replace(name="solver:7"),))) == CUDA


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


def test_words_that_a_framework_lacks_are_the_general_ones() -> None:
    words = Words("general", jax="of JAX")
    assert [words.of(one) for one in Framework] == ["general", "of JAX", "general", "general", "general"]


# Words that only programs of one framework know.
OWN_WORDS = {
    PYTORCH: r"(?i)torch|DataLoader|pin_memory|non_blocking|_coalescing_manager|channels_last",
    JAX: r"(?i)jax|xla|lax\.|bfloat16",
    CUPY: r"(?i)cupy|numba",
    CUDA: r"cudaStreamBeginCapture|cublasSetMathMode|cudaHostAlloc|cuModuleLoad",
}


def _every_words() -> dict[str, Words]:
    """All Words of the rules by name."""
    modules = [
        importlib.import_module(one.name) for one in pkgutil.iter_modules(findings.__path__, f"{findings.__name__}.")
    ]
    named = ((f"{module.__name__}.{name}", one) for module in modules for name, one in vars(module).items())
    return {name: one for name, one in named if isinstance(one, Words)}


def test_no_advice_of_a_framework_has_words_of_another() -> None:
    """Where nothing tells the framework, such words come as examples, in brackets."""
    every = _every_words()
    assert len(every) > 20
    for name, words in every.items():
        for framework in KERNELS.keys() | {CUDA}:
            others = [own for one, own in OWN_WORDS.items() if one != framework]
            assert not [own for own in others if re.search(own, words.of(framework))], (name, framework)
        general = re.sub(r"\([^()]*(?:\(\)[^()]*)*\)", "", words.general)
        assert not [own for own in OWN_WORDS.values() if re.search(own, general)], name


# Programs that each have a finding: its id, and what its advice says in the words of each framework.
SAYS = [
    (
        "launch-bound",
        "0| " + ", ".join(f"k:KERNEL @{10 * n} {10 * n + 1}-{10 * n + 2}" for n in range(99)),
        ("torch.cuda.graph", "lax.scan", "begin_capture", "cudaStreamBeginCapture"),
    ),
    (
        "host-synchronization",
        "0| k:KERNEL @0 5-400, wait 10-402, k:KERNEL @450 455-990",
        ("losses", "np.asarray(x)", "pinned memory", "cudaMemcpyAsync"),
    ),
    (
        "pageable-copies",
        "0| c:HtoD:Pageable_to_Device @0 5-405, k:KERNEL @400 405-990",
        ("pin_memory=True", "jax.device_put", "cupyx.empty_pinned", "cudaMallocHost"),
    ),
    (
        "allocations",
        "0| k:KERNEL @0 5-100, cuda:cudaMalloc 100-395, k:KERNEL @395 400-990",
        ("torch.cuda.empty_cache()", "donate_argnums", "memory pool", "cudaMallocAsync"),
    ),
    (
        "data-loading",
        "0| load 0-400, k:KERNEL @405 410-990",
        ("DataLoader", "Grain", "pinned memory", "cudaMallocHost"),
    ),
    (
        "gathers",
        "0| k:KERNEL:gather/scatter @0 5-900, k:KERNEL @1 900-990",
        ("torch.sparse", "jax.ops.segment_sum", "cupyx.scipy.sparse", "sparse matrix"),
    ),
    (
        "unfused-elementwise",
        "0| k:KERNEL:elementwise @0 5-500, k:KERNEL:elementwise @0 500-990",
        ("torch.compile", "jax.jit", "cupy.fuse", "kernel of your own"),
    ),
    (
        "matrix-products",
        "0| k:KERNEL @0 2-5, k:sgemm:GEMM_64x64x8 @0 5-990",
        ("torch.autocast", "tensorfloat32", "CUPY_TF32", "cublasSetMathMode"),
    ),
]


@pytest.mark.parametrize(("kind", "picture", "says"), SAYS, ids=[kind for kind, *_ in SAYS])
def test_advice_is_in_the_words_of_the_framework(kind: str, picture: str, says: tuple[str, ...]) -> None:
    every = {one: findings_of(of(one, picture))[kind].advice for one in Framework}
    for framework, words in zip((PYTORCH, JAX, CUPY, CUDA), says, strict=True):
        assert words in every[framework]


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
    if framework in (JAX, CUDA):
        assert not [one.advice for one in found.findings if "torch" in one.advice.lower()]


def test_a_finding_without_words_of_its_own_says_the_same_to_all() -> None:
    picture = "0| k:KERNEL @0 5-400, cuda:cudaLaunchHostFunc 2-3, k:KERNEL @4 700-990"
    every = {findings_of(of(one, picture))["host-functions"].advice for one in Framework}
    assert len(every) == 1
    assert analysis_of(of(CUDA, picture)).findings[0].id == "host-functions"
