"""Programs on one GPU that lose time in one known way, each made of one rank of a run with NCCL."""

from __future__ import annotations

from pathlib import Path

from .damage import KERNELS, NCCL
from .report import Report, Sources, close, open_copies

# Kernels of cuBLAS on CUDA cores, and of PyTorch.
PRODUCT, ELEMENTWISE = "ampere_sgemm_128x128_nn", "vectorized_elementwise_kernel"


def scalar_products(sources: Sources, folder: Path) -> list[Path]:
    """Let all NCCL kernels be products of matrices in FP32 on CUDA cores, as by a program that is not parallel.

    Truth: the products take the time that the collectives took; on tensor cores they would take a quarter of it or
    less. Nothing else changes.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        _rename(report, PRODUCT)
    return close(reports)


def tiny_kernels(sources: Sources, folder: Path, ns: int = 3_000) -> list[Path]:
    """Let each kernel last `ns` at most and be no part of communication, as in eager decoding of one token.

    Truth: the host launches as before, and the device has nothing to do between short kernels.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        _rename(report, ELEMENTWISE)
        report.run(f'UPDATE {KERNELS} SET "end" = min("end", start + {ns})')
    return close(reports)


def _rename(report: Report, name: str) -> None:
    """Give NCCL's kernels another name, and take the calls of NCCL from the report."""
    new = report.value("SELECT max(id) + 1 FROM StringIds")
    report.run("INSERT INTO StringIds(id, value) VALUES (:new, :name)", new=new, name=name)
    report.run(f"UPDATE {KERNELS} SET shortName = :new, demangledName = :new, mangledName = :new WHERE {NCCL}", new=new)
    report.run("DELETE FROM NVTX_EVENTS WHERE domainId IN (SELECT domainId FROM NVTX_EVENTS WHERE text = 'NCCL')")
