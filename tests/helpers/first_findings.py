"""Runs whose worst loss is known, by their programs or by how they were made, with the finding that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import construct
from construct.programs import scalar_products, tiny_kernels
from construct.report import open_copy

STEPS = ("step 4", "step 5", "step 6")
Made = Callable[[Path], list[Path]]


class Known(NamedTuple):
    """A run, the findings of which any is the true first one (none: a good run), and how that is known.

    `made` writes its reports into a folder; None: they are the run's own.
    """

    name: str
    run: str
    first: frozenset[str]
    known: str
    made: Callable[[Sequence[Path], Path], list[Path]] | None = None


def _known(name: str, first: str, known: str, run: str = "", made: object = None) -> Known:
    return Known(name, run or name, frozenset(first.split()), known, made)  # type: ignore[arg-type]


def _loading(reports: Sequence[Path], folder: Path) -> list[Path]:
    return construct.sleeping(reports[:1], folder, 0, ("step 3", *STEPS), 150_000_000, "load")


def _slow(reports: Sequence[Path], folder: Path) -> list[Path]:
    return construct.slow_kernels(reports, folder, 2, STEPS, 30_000_000)


def _late(reports: Sequence[Path], folder: Path) -> list[Path]:
    return construct.sleeping(reports, folder, 2, STEPS, 60_000_000, "forward")


def _full(reports: Sequence[Path], folder: Path) -> list[Path]:
    """Let kernels with enough blocks follow each other without a pause: nothing is lost."""
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    with open_copy(reports[0], folder) as report:
        for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"):
            report.run(f'UPDATE {table} SET "end" = start + 1')
        report.run(
            f"WITH later AS (SELECT rowid r, lead(start) OVER (ORDER BY start) AS next FROM {kernels})"
            f' UPDATE {kernels} SET gridX = 1320, "end" ='
            f' coalesce((SELECT next FROM later WHERE r = {kernels}.rowid), "end")'
        )
        return [report.path]


def runs() -> Iterator[Known]:
    """Yield every run."""
    yield _known("gpt-ddp", "exposed-transfer", "two hosts, with NCCL over sockets between them")
    yield _known("mpi-halo", "imbalance", "the program launches 5 + 4 rank kernels an iteration")
    yield _known("saxpy", "pageable-copies", "the program copies from malloc and to it")
    yield _known("graph-node", "launch-bound", "120 kernels of 3 us, in graphs and not")
    yield _known("unified-memory", "migrations", "managed memory that moves on demand")
    yield _known("mesh-tp-pp", "late-rank host-bound launch-bound", "few short kernels, and Python between")
    yield _known("fsdp", "host-bound", "the hosts launch all of the time and never wait, and the devices do")
    yield _known("straggler", "host-bound", "as fsdp; the sleep of 3 ms is hidden by slack, as its truth says")
    yield _known("pipe", "pipeline-bubble", "two stages, four microbatches: a bubble of a fifth by GPipe's formula")
    yield _known("data-loader", "system-waiting", "two workers make a batch in 32 ms each, and a step takes 8 ms")
    yield _known("experts", "imbalance", "rank 1's expert takes three quarters of the tokens of both ranks")
    yield _known("late-graphs", "late-rank", "rank 1 sleeps 1 ms before each launch of a graph")
    yield _known("checkpoint", "late-rank", "rank 0 copies all weights to the host in each fifth step")
    yield _known("batches-96-32", "imbalance", "rank 0 computes batches of 96, rank 1 of 32")
    yield _known("interpreter-lock", "late-rank", "a thread of rank 0 runs Python for half a second, twice")
    yield _known("late-in-turns", "late-rank", "one of the ranks sleeps for 2 to 6 ms before most steps")
    yield _known("shared-gpu", "shared-gpu", "another process multiplies matrices on the GPU of rank 1")
    yield _known("gpt-1gpu-10000Hz", "defective-reports", "the tables of CUDA calls were emptied")
    yield _known("data loader", "data-loading", "`load` of each step sleeps 150 ms", "gpt-ddp", _loading)
    yield _known("eager decode", "launch-bound", "kernels last 3 us", "gpt-ddp", _of_first(tiny_kernels))
    yield _known(
        "FP32 products",
        "matrix-products",
        "NCCL's kernels are called SGEMM",
        "gpt-ddp",
        _of_first(scalar_products),
    )
    yield _known("slow GPU", "slow-gpu", "all kernels of rank 2 last six times as long", "gpt-ddp", _slow)
    yield _known("late host", "late-rank", "`forward` of rank 2 sleeps 60 ms", "gpt-ddp", _late)
    yield _known("openmp", "", "a program without a GPU")
    yield _known("busy GPU", "", "kernels without a pause between them", "saxpy", _full)


def _of_first(made: Callable[..., list[Path]]) -> Callable[[Sequence[Path], Path], list[Path]]:
    return lambda reports, folder: made(reports[0], folder)
