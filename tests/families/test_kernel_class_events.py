"""The class of each kernel as an attribute of its interval."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from nsys2prv import Selection, Trace
from nsys2prv.cli.translate import command
from nsys2prv.intervals.classes import ClassRulesError
from nsys2prv.model.event_types import KERNEL, KERNEL_CLASS, KERNEL_FAMILY, NCCL_KERNEL

PLACE = ["task", "thread", "start", "end"]


def classes_of(trace: Trace) -> pl.DataFrame:
    """Kernels with label, class and family."""
    kernels = pl.concat([trace.intervals(KERNEL.number), trace.intervals(NCCL_KERNEL.number)])
    named = kernels.select(*PLACE, kernel="label")
    for kind, name in ((KERNEL_CLASS, "class"), (KERNEL_FAMILY, "family")):
        named = named.join(
            trace.intervals(kind.number).select(*PLACE, pl.col("label").alias(name)), on=PLACE, how="left"
        )
    return named


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("nvjet_sm90_tst_128x192_64x5_2x1_v_bz_coopB_NTN", "GEMM nt 128x192x64"),
        ("compute_dot_do_o_specialized", "flash attention backward"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "NCCL AllReduce"),
    ],
)
def test_kernel_has_its_class(translated, kernel, expected):
    _, trace = translated("gpt-ddp", "kernels", "nccl")
    assert set(classes_of(trace).filter(kernel=kernel)["class"]) == {expected}


def test_kernels_of_one_short_name_are_told_apart_by_the_demangled_one(translated):
    _, trace = translated("gpt-ddp", "kernels", "nccl")
    found = classes_of(trace).filter(kernel="vectorized_elementwise_kernel")
    assert set(found["class"]) == {"copy/cast", "elementwise"}


def test_every_kernel_has_a_class_and_its_family(translated):
    _, trace = translated("gpt-ddp", "kernels", "nccl")
    found = classes_of(trace)
    assert found.height == 4 * (1292 + 68)
    assert found.select("class", "family").null_count().sum_horizontal().item() == 0
    assert found.select((pl.col("class") + " ").str.starts_with(pl.col("family") + " ")).to_series().all()
    assert found.filter(family="NCCL").height == 4 * 68
    assert found.filter(family="other").is_empty()


def test_rules_of_the_user_come_first(translated, tmp_path):
    rules = tmp_path / "mine.toml"
    rules.write_text("[[rule]]\nclass = \"my matrix product\"\nshort = '^nvjet_'\n")
    _, trace = translated("gpt-ddp", selection=Selection(("kernels",), classes=rules))
    found = classes_of(trace)
    mine = found.filter(pl.col("kernel").str.starts_with("nvjet_"))
    assert mine.height
    assert set(mine["class"]) == {"my matrix product"} == set(mine["family"])
    assert "flash attention forward" in set(found["class"])


def test_unusable_rules_stop_the_translation_with_one_line(report, tmp_path):
    rules = tmp_path / "mine.toml"
    rules.write_text("[[rule]]\nclass = 7\n")
    arguments = [str(report("single/saxpy.sqlite")), "-o", str(tmp_path / "out"), "--classes", str(rules)]
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, ClassRulesError)
    assert str(result.exception).startswith(f"{rules}")
    assert "\n" not in str(result.exception)
    assert not list(Path(tmp_path).glob("out*"))
