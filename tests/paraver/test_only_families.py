"""Timelines of single families in real Paraver: their kernels, and nothing else."""

from __future__ import annotations

from pathlib import Path

import paramedir
import polars as pl
import pytest
from runs import Runs

from nsys2prv.model.event_types import KERNEL_CLASS, NCCL_KERNEL
from nsys2prv.paraver.cfg import CFGS

pytestmark = pytest.mark.paraver
ONLY = {
    "views/only_gemm": (KERNEL_CLASS, "^GEMM"),
    "views/only_attention": (KERNEL_CLASS, "^(flash )?attention"),
    "views/only_communication": (NCCL_KERNEL, ""),
}


def test_a_timeline_of_a_family_has_its_kernels_alone(translations: Runs, tmp_path: Path) -> None:
    paramedir.program()
    made = translations.default("gpt-ddp")
    cfgs = [cfg for cfg in CFGS if cfg.path.removesuffix(".cfg") in ONLY]
    output = paramedir.run(made.prv, cfgs, tmp_path / "out")
    for cfg, (kind, label) in ONLY.items():
        shown = sorted((b, d, v) for _, b, d, v in output.lines(cfg) if v)
        events = made.trace.intervals(kind.number).filter(pl.col("label").str.contains(label))
        drawn = events.select("start", pl.col("end") - pl.col("start"), "value").cast(pl.Float64)
        assert shown == sorted(drawn.rows())
        assert shown
