"""Parameters of an analysis: the window, ranges, metrics, and how NCCL counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsys2prv.model.metric_names import TENSOR
from nsys2prv.model.option import Option, declared, documented

if TYPE_CHECKING:
    from nsys2prv.analysis.efficiency import NcclAs

NCCL = Option(
    "--nccl",
    "Count time in NCCL kernels as communication, which lowers efficiency, or as useful work.",
    "BSC's BasicAnalysis counts it as communication, and BSC's TALP as useful",
    choices=("communication", "useful"),
    default="communication",
)
WINDOW = Option(
    "--window",
    "Time that figures cover: steady iterations, all device activity, all of the run, or an NVTX range.",
    "`steady` are the iterations that all ranks recorded whole, without start-up and interruptions; without "
    "iterations it is the time in which all ranks recorded. `trace` is the part that `--time` and `--nvtx` choose, "
    "if they are given. An NVTX range counts from its first begin to its last end over all ranks",
    value="steady|device|trace|RANGE",
    default="steady",
)
PHASE = Option(
    "--phase",
    "Show the efficiency of the work launched in this NVTX range, too; # stands for a number. May be repeated.",
    "`#` also stands for itself",
    value="RANGE",
    repeated=True,
)
ITERATION = Option(
    "--iteration",
    "NVTX range of an iteration, such as 'step #' (default: detected where ranges are numbered).",
    value="RANGE",
)
METRIC = Option(
    "--metric",
    "Estimate GPU metrics with this text in their name by kernel class. May be repeated.",
    value="NAME",
    repeated=True,
    default=(TENSOR,),
)
BY = Option(
    "--by",
    "Split metrics by family of kernels, such as GEMM, or by class, such as GEMM tn 128x128x64.",
    choices=("family", "class"),
    default="family",
)
GAPS = Option("--gaps", "Number of idle times to list for each device.", kind="count", least=0, default=5)


@documented
@dataclass(frozen=True)
class Question:
    """The question that an analysis answers."""

    nccl: NcclAs = declared(NCCL, default="communication")
    window: str = declared(WINDOW, default="steady", about="`steady`, `device`, `trace` or the name of an NVTX range.")
    phases: tuple[str, ...] = declared(PHASE, default=(), about="NVTX ranges whose efficiency is shown, too.")
    iteration: str | None = declared(ITERATION, default=None)
    by: str = declared(BY, default="family")
    gaps: int = declared(GAPS, default=5)
    metrics: tuple[str, ...] = declared(METRIC, default=(TENSOR,), about="Texts that names of GPU metrics contain.")
