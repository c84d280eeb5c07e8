"""Advice to launch less often for a device, and from a process for each GPU."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.framework import Framework, Words
from nsys2prv.analysis.facts.thresholds import NEARLY_ALL

LAUNCH_LESS = Words(
    general="Launch less often: CUDA graphs, fused kernels, more work in each (PyTorch: torch.compile mode "
    "reduce-overhead; JAX: a whole step in one jax.jit).",
    pytorch="Launch less often: CUDA graphs (torch.cuda.graph, torch.compile mode reduce-overhead), fused kernels and "
    "optimizers, larger batches.",
    jax="Launch less often: a whole step in one jax.jit, several steps in one lax.scan or lax.fori_loop, larger "
    "batches.",
    cupy="Launch less often: CUDA graphs (begin_capture of CuPy's streams), fused kernels (cupy.fuse, "
    "ElementwiseKernel, a kernel of your own), more work in each.",
    cuda="Launch less often: CUDA graphs (capture a step by cudaStreamBeginCapture, then cudaGraphLaunch), fused "
    "kernels, more work in each.",
)
PROCESSES = Words(
    general="start one for each GPU, as threads of a Python process take turns",
    pytorch="start one for each GPU, as threads of a Python process take turns (DistributedDataParallel in place of "
    "DataParallel)",
    jax="start one for each GPU (jax.distributed.initialize), as threads of one process share locks of the driver",
    cuda="start one for each GPU, as threads of one process share locks of the driver",
)


def other_ways(framework: Framework) -> str:
    """Return the part of LAUNCH_LESS on ways after CUDA graphs, where it names how to make these."""
    rest = LAUNCH_LESS.of(framework).partition("), ")[2]
    return f", {rest.removesuffix('.')}" if rest else ""


def advice_on_processes(case: Case) -> str:
    """Return advice for a process whose threads launch for several GPUs."""
    gpus = max((len(own) for own in shared_compute(case).values()), default=1)
    return f"One process launches for {gpus} GPUs: {PROCESSES.of(case.framework)}. " if gpus > 1 else ""


def gpus_of_a_thread(case: Case) -> int:
    """Return for how many GPUs one thread launches, at most, if it launches nearly all work of its process."""
    launches = case.run.work.select("task", "caller_row", "device").filter(pl.col("caller_row").is_not_null())
    by_thread = launches.group_by("task", "caller_row").agg(count=pl.len(), gpus=pl.col("device").n_unique())
    most = by_thread.filter(pl.col("count") >= NEARLY_ALL.value * pl.col("count").sum().over("task"))
    return int(most["gpus"].max() or 0)  # type: ignore[arg-type]
