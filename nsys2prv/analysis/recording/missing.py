"""Data that a run lacks, with the option of `nsys profile` that records it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.frames import GRAPH, MPI, NCCL, Run
from nsys2prv.families.device.kernels import FAMILY as KERNELS
from nsys2prv.families.host.cuda_api import FAMILY as CUDA_API
from nsys2prv.families.host.osrt import FAMILY as OSRT
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.metrics.memory_usage import FAMILY as MEMORY_USAGE
from nsys2prv.families.mpi.mpi import FAMILY as MPI_FAMILY
from nsys2prv.families.nccl.nccl import FAMILY as NCCL_FAMILY
from nsys2prv.families.nvtx.nvtx import FAMILY as NVTX

# Option of `nsys profile` that records the kernels of CUDA graphs one by one.
GRAPH_TRACE = "--cuda-graph-trace=node"


class HowToRecord(NamedTuple):
    """The option of `nsys profile` that records some data, and `more`: the words behind it on what else it takes."""

    option: str
    more: str = ""

    def __str__(self) -> str:
        return self.option + self.more


def has_lost_work(run: Run) -> bool:
    """Return True if a program called CUDA or NCCL and a device has a context, but no device activity was recorded.

    A process that is killed, or leaves by _exit, does not hand over what CUPTI has in its buffers; or nsys fails to
    read what it recorded.
    """
    return _lacks_work(run) and bool(run.devices) and bool({CUDA_API.name, NCCL_FAMILY.name} & run.recorded_families)


def _lacks_work(run: Run) -> bool:
    # Where the calls of the program failed there was none to record.
    failed = any(defect.of_program and defect.shows for defect in run.defects)
    return run.work.is_empty() and KERNELS.name not in run.recorded_families and not failed


def missing_data(run: Run) -> dict[str, HowToRecord]:
    """Return data that no report recorded -> how to record it."""
    work, recorded = run.work, run.recorded_families
    missing = {}
    if _lacks_work(run):
        lost = ", and let the program end by itself or call cudaProfilerStop" if has_lost_work(run) else ""
        missing["device activity (efficiency, overlap, kernels)"] = HowToRecord("--trace=cuda", lost)
    elif work.height and work["launched"].null_count() == work.height and CUDA_API.name not in recorded:
        missing["CUDA API calls (phases, iterations on the device)"] = HowToRecord(
            "--trace=cuda", " (API calls not left out)"
        )
    if run.ranges.is_empty() and NVTX.name not in recorded:
        missing["NVTX ranges (phases, iterations)"] = HowToRecord("--trace=nvtx", ", and ranges in the program")
    if not run.samples and not run.metrics and GPU_METRICS.name not in recorded:
        missing["GPU metrics (tensor activity by class)"] = HowToRecord("--gpu-metrics-devices=all")
    if (work["kind"] == GRAPH).any():
        missing["kernels inside CUDA graphs (kernels, classes)"] = HowToRecord(GRAPH_TRACE)
    nccl = work.filter(work["kind"] == NCCL)
    named = nccl.filter(pl.col("name").cast(pl.String).str.starts_with("nccl"))
    if named.height and named["bytes"].null_count() == named.height:
        export = ", and nsys export --include-json true --include-blobs true"
        missing["NCCL calls with payloads (communicators and bytes)"] = HowToRecord("--trace=nvtx", export)
    kinds = set(run.calls["kind"].unique())
    communicates = MPI in kinds or nccl.height or {MPI_FAMILY.name, NCCL_FAMILY.name} & recorded
    # Kernels that were left out may be of NCCL.
    left_out = work.is_empty() and KERNELS.name in recorded
    if not communicates and not left_out and run.rank_count > 1:
        missing["communication between ranks (MPI)"] = HowToRecord("--trace=mpi")
    if "os" not in kinds and OSRT.name not in recorded:
        missing["OS calls (what the host did while a device was idle)"] = HowToRecord("--trace=osrt")
    if work.height and MEMORY_USAGE.name not in recorded:
        missing["device memory in use (how full it is)"] = HowToRecord("--cuda-memory-usage=true")
    return missing
