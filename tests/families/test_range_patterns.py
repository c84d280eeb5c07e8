"""Patterns of range texts: one rule for labels of the trace, for tables and for iterations."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from exports import MAIN, Drawn, export

from nsys2prv.families.nvtx.range_patterns import number_of, pattern_of

PUSH_POP = 59


@pytest.mark.parametrize(
    ("text", "pattern", "number"),
    [
        ("step 3", "step #", 3),
        ("iter_3", "iter_#", 3),
        ("layer-3", "layer-#", 3),
        ("layer.3.mlp", "layer.#.mlp", 3),
        ("fp32", "fp32", None),
        ("tf32 gemm 7", "tf32 gemm #", 7),
        ("Adam2d", "Adam2d", None),
        ("PP:0F2", "PP:0F2", None),
        ("1 2 3 4", "# # # #", 4),
        ("Überlauf3", "Überlauf3", None),
        ("step → 3", "step → #", 3),
        ("ProfilerStep#3", "ProfilerStep##", 3),
        ("7 of #", "# of #", None),
        ("aten::mm, seq = 7, op_id = 3", "aten::mm", None),
        ("aten::mm, op_id = 3, sizes = [[4, 4], []]", "aten::mm", None),
        ("block 2, sizes = [[4,\n4]]", "block #", 2),
        ("word " * 2000 + "5", "word " * 2000 + "#", 5),
        ("5" + " word" * 2000, "#" + " word" * 2000, 5),
        ("a" + "5" * 4096, "a" + "5" * 4096, None),
    ],
)
def test_operation_and_number_of_a_text(text: str, pattern: str, number: int | None) -> None:
    found = pl.DataFrame({"text": [text]}).select(pattern_of(pl.col("text")), n=number_of(pl.col("text"))).row(0)
    assert found == (pattern, number)


def test_a_domain_of_many_texts_has_the_same_labels_on_the_host_and_on_the_device(tmp_path: Path) -> None:
    """Ten thousand texts and two on the host, of which ten launch kernels."""
    texts = [f"aten::op{n % 2}, seq = {n}, sizes = [[{n}]]" if n % 3 else f"fp32 block {n}" for n in range(10_002)]
    ranges = [(100 * n, 100 * n + 50, PUSH_POP, MAIN, 0, text) for n, text in enumerate(texts)]
    kernels = [(100 * n + 9, 100 * n + 20, 0, 1, 7, n, MAIN >> 24 << 24, "k", "k") for n in range(10)]
    report = export(
        tmp_path / "r.sqlite",
        NVTX_EVENTS=("start end eventType globalTid domainId text", ranges),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end eventClass globalTid correlationId nameId",
            [(100 * n + 1, 100 * n + 5, 0, MAIN, n, "cudaLaunchKernel") for n in range(10)],
        ),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId contextId streamId correlationId globalPid shortName demangledName",
            kernels,
        ),
    )
    found = Drawn(report, "nvtx", "projection", "kernels", "cuda_api")
    on_host, on_device = (
        set(found.labels(number).values())
        for number, label in found.trace.types.items()
        if label in ("NVTX default", "NVTX default on the device")
    )
    assert on_host == on_device == {"aten::op0", "aten::op1", "fp32 block #"}
