"""The framework of a program, by what the run shows of it, and advice in its words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import KERNEL, MPI, Run


class Framework(Enum):
    """A framework by which a program computes on devices."""

    PYTORCH = "PyTorch"
    JAX = "JAX"
    # Python that is compiled for the device, or arrays there, beside code of CUDA: CuPy and Numba.
    CUPY = "CuPy or Numba"
    # C, C++ and Fortran with CUDA, MPI, OpenACC or OpenMP.
    CUDA = "CUDA"
    UNKNOWN = "not known"


# Names of kernels of which the generator or the source is one framework's: ATen and Inductor (PyTorch), XLA, which
# names them by what they fuse (JAX), CuPy's ufuncs, and Numba's mangled names. Kernels of libraries tell nothing.
KERNELS = {
    Framework.PYTORCH: r"at::native|^(?:vectorized|unrolled|index|distribution)_elementwise|^multi_tensor_apply_kernel"
    r"|^CatArrayBatchedCopy|^GammaBetaBackward|layer_norm_grad_input|^vectorized_(?:layer_norm|gather)_kernel"
    r"|^(?:softmax_warp|cunn_|batch_norm_)|^indexSelect|^triton_(?:poi|red|per|tem|for|mm)_",
    Framework.JAX: r"\w_fusion(?:_\d+)*$|^fusion_\d+$|^wrapped_|^gemm_fusion|^triton_(?:softmax|gemm)_",
    Framework.CUPY: r"^cupy_|cudapy|\[abi:v\d",
}
# A program of another framework may name a few kernels alike: this share of all launches tells.
LEAST_SHARE = 0.05
# Begin of the names of threads: of autograd, NCCL's watchdog and others (PyTorch), and of XLA.
THREADS = {Framework.PYTORCH: r"^pt_", Framework.JAX: r"^(?:XlaLauncher|py_xla|pjrt|tf_XLA)"}
# NVTX domain of XLA's annotations (Tensor Standard Library), and begin of the ranges of torch.autograd.profiler.
XLA_DOMAIN, ATEN_RANGES = "TSL", "aten::"
PYTHON = "python"


class Words(NamedTuple):
    """One advice in the words of each framework. One that is empty is as in `general`, for all and for unknown ones."""

    general: str
    pytorch: str = ""
    jax: str = ""
    cupy: str = ""
    cuda: str = ""

    def of(self, framework: Framework) -> str:
        """Return the advice for a framework."""
        own = {
            Framework.PYTORCH: self.pytorch,
            Framework.JAX: self.jax,
            Framework.CUPY: self.cupy,
            Framework.CUDA: self.cuda,
        }
        return own.get(framework) or self.general


def framework_of(run: Run) -> Framework:
    """Return the framework of a run: that of most kernels, else of its threads, its ranges, or its processes.

    Of a process that may have any, few kernels tell it if they are all of one framework: libraries launch the others.
    """
    counts = _launches(run)
    known = _of_kernels(run, counts) or _of_threads(run) or _of_ranges(run) or _of_processes(run)
    seen = [framework for framework in KERNELS if counts[framework]]
    return seen[0] if known is Framework.UNKNOWN and len(seen) == 1 else known


def is_python(process: str) -> bool:
    """Return True for a process of Python by its name."""
    return PYTHON in process.lower()


def _of_kernels(run: Run, counts: Mapping[Framework, int]) -> Framework | None:
    most = max(counts, key=lambda framework: counts[framework])
    return most if counts[most] > LEAST_SHARE * run.work.filter(pl.col("kind") == KERNEL).height else None


def _launches(run: Run) -> dict[Framework, int]:
    """Return how many kernels of a run have names of each framework."""
    name = pl.col("name").cast(pl.String)
    by_name = run.work.select("kind", "name").filter(pl.col("kind") == KERNEL).group_by("name").len()
    # XLA's names of fusions are loose: those of PyTorch's compiler hold them, too.
    of_others = {Framework.JAX: KERNELS[Framework.PYTORCH]}
    counts = {}
    for framework, own in KERNELS.items():
        named = by_name.filter(name.str.contains(own))
        if framework in of_others:
            named = named.filter(~name.str.contains(of_others[framework]))
        counts[framework] = int(named["len"].sum())
    return counts


def _of_threads(run: Run) -> Framework | None:
    labels = pl.Series([*run.row_labels, *(task.name for task in run.tasks)], dtype=pl.String)
    return next((framework for framework, own in THREADS.items() if labels.str.contains(own).any()), None)


def _of_ranges(run: Run) -> Framework | None:
    if (run.ranges["domain"].unique().cast(pl.String) == XLA_DOMAIN).any():
        return Framework.JAX
    return Framework.PYTORCH if run.ranges["text"].str.starts_with(ATEN_RANGES).any() else None


def _of_processes(run: Run) -> Framework:
    """Return CUDA where the processes are no Python, or call MPI; a process of Python may have any framework.

    A label without `:` has no name of a process, and says nothing.
    """
    named = [run.tasks[task].name for task in run.rank_tasks if ":" in run.tasks[task].name]
    of_mpi = (run.calls["kind"].unique().cast(pl.String) == MPI).any()
    native = bool(named) and not any(is_python(name) for name in named)
    return Framework.CUDA if native or of_mpi else Framework.UNKNOWN
