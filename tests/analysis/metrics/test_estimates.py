"""Estimates in the trace: on every kernel what `analyze --by class` says of its class on its GPU."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import nsys2prv
from nsys2prv.analysis.metrics import estimates as module
from nsys2prv.analysis.question import Question
from nsys2prv.families.registry import FAMILIES
from nsys2prv.intervals.reduction_options import Reduction
from nsys2prv.model.event_types import KERNEL_CLASS, TENSOR_ESTIMATE
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.workers import memory

DEFAULT = tuple(f.name for f in FAMILIES if f.default)
CHOSEN = nsys2prv.Selection(DEFAULT)


def estimates(reports: list[Path], output: Path, **how: object) -> tuple[nsys2prv.Translation, pl.DataFrame]:
    """The translation, and of each kernel task (from 1), class and estimate in hundredths of a percent (null: none)."""
    result = nsys2prv.translate(reports, output, **{"selection": CHOSEN, **how})  # type: ignore[arg-type]
    assert result.prv is not None
    trace = nsys2prv.read_prv(result.prv)
    at = ["task", "thread", "start", "end"]
    classes = trace.intervals(KERNEL_CLASS.number).select(*at, kernel_class="label")
    return result, classes.join(trace.intervals(TENSOR_ESTIMATE.number).select(*at, "value"), on=at, how="left")


def analysed(reports: list[Path], **how: object) -> dict[tuple[int, str], int]:
    """Estimates by task and class that are not 0; each rank has a GPU of its own."""
    found = nsys2prv.analyze(reports, question=Question(by="class", window="device"), **how)  # type: ignore[arg-type]
    fits = [f for f in found.metrics if f.device is not None]
    means = {(f.device + 1, n): c.mean for f in fits for c in f.classes for n in c.classes}  # type: ignore[operator]
    return {key: value for key, mean in means.items() if mean and (value := round(100 * mean))}


def test_kernels_carry_the_estimate_of_their_class(gpt_ddp: list[Path], output: Path) -> None:
    result, kernels = estimates(gpt_ddp, output)
    drawn = {(t, c): v for t, c, v in kernels.drop_nulls().select("task", "kernel_class", "value").unique().rows()}
    expected = analysed(gpt_ddp)
    assert drawn == {key: v for key, v in expected.items() if key in drawn or key[1].startswith(("GEMM", "NCCL"))}
    assert len({c for _, c in drawn if c.startswith("GEMM")}) == 3
    without = kernels.filter(pl.col("value").is_null()).select("task", "kernel_class").unique().rows()
    assert not set(without) & set(drawn)
    assert result.rows["tensor_estimate"] == kernels["value"].count()
    # No row of a report is missing: `analyze --by class` says why a class has no number.
    assert "tensor_estimate" not in result.dropped


def test_kernels_and_samples_may_be_in_different_reports(gpt_ddp: list[Path], tmp_path: Path) -> None:
    """One report parted in two: kernels and calls, and samples."""
    parts = [tmp_path / f"{name}.sqlite" for name in ("kernels", "samples")]
    for part, unlike in zip(parts, ("GPU_METRICS", "CUPTI_ACTIVITY_KIND_%"), strict=True):
        shutil.copyfile(gpt_ddp[0], part)
        with closing(sqlite3.connect(part)) as db:
            names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?", [unlike])
            for (name,) in names.fetchall():
                db.execute(f"DROP TABLE {name}")
            db.commit()
    _, whole = estimates(gpt_ddp[:1], tmp_path / "whole")
    _, joined = estimates(parts, tmp_path / "joined")
    given = pl.col("kernel_class", "value")
    assert whole["value"].count() > 0
    assert joined.select(given).equals(whole.select(given))


def test_the_estimate_is_labelled_as_one(gpt_ddp: list[Path], output: Path) -> None:
    result, _ = estimates(gpt_ddp[:1], output)
    assert result.prv is not None
    assert nsys2prv.read_prv(result.prv).types[TENSOR_ESTIMATE.number].endswith("[%] (estimate)")


def test_the_chosen_time_gives_its_own_estimates(gpt_ddp: list[Path], output: Path) -> None:
    chosen = nsys2prv.Selection(CHOSEN.families, nvtx="step 3")
    _, kernels = estimates(gpt_ddp, output, selection=chosen)
    drawn = {(t, c): v for t, c, v in kernels.drop_nulls().select("task", "kernel_class", "value").unique().rows()}
    expected = analysed(gpt_ddp, selection=nsys2prv.Selection(nvtx="step 3"))
    assert drawn
    assert drawn.items() <= expected.items()


def test_kernels_too_short_to_be_drawn_count_in_the_estimates(gpt_ddp: list[Path], output: Path) -> None:
    """The samples measured them, too."""
    long = replace(CHOSEN, reduction=Reduction(min_duration=40_000))
    result, kernels = estimates(gpt_ddp, output, selection=long)
    drawn = {(t, c): v for t, c, v in kernels.drop_nulls().select("task", "kernel_class", "value").unique().rows()}
    assert drawn
    assert drawn.items() <= analysed(gpt_ddp).items()
    assert result.rows["tensor_estimate"] == kernels["value"].count()


def test_without_samples_nothing_is_written_nor_said(mpi_halo: list[Path], output: Path) -> None:
    result, kernels = estimates(mpi_halo, output)
    assert kernels["value"].count() == 0
    assert not result.rows.get("tensor_estimate")
    assert "tensor_estimate" not in result.dropped


def test_without_tensor_activity_the_kernels_are_not_even_read(
    saxpy: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(module, "gather_device_work")
    result, kernels = estimates([saxpy], output)
    assert result.rows["gpu_metrics"]
    assert kernels.height
    assert kernels["value"].count() == 0
    assert not result.rows.get("tensor_estimate")


def test_kernels_of_a_gpu_without_samples_have_no_estimate(gpt_ddp: list[Path], output: Path) -> None:
    """Two ranks have samples, of their own GPUs alone."""
    unsampled = output.with_name("unsampled.sqlite")
    shutil.copyfile(gpt_ddp[1], unsampled)
    with closing(sqlite3.connect(unsampled)) as db:
        db.execute("DROP TABLE GPU_METRICS")
        db.commit()
    result, kernels = estimates([gpt_ddp[0], unsampled], output)
    with_value = kernels.drop_nulls("value")["task"].unique().to_list()
    assert (with_value, kernels["task"].n_unique(), "tensor_estimate" in result.dropped) == ([1], 2, False)


def test_estimates_do_not_depend_on_free_memory(
    gpt_ddp: list[Path], output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = nsys2prv.Execution(jobs=1)
    expected, _ = estimates(gpt_ddp, output.with_name("idle"), execution=one)
    monkeypatch.setattr(memory, "machine_free", lambda: 1_000_000)
    found, _ = estimates(gpt_ddp, output, execution=one)
    assert found.rows["tensor_estimate"] == expected.rows["tensor_estimate"] > 0
    assert output.with_name(output.name + ".prv").read_bytes() == output.with_name("idle.prv").read_bytes()


def test_an_estimate_that_takes_too_much_memory_is_left_out(gpt_ddp: list[Path], output: Path) -> None:
    little = nsys2prv.Execution(limits=Limits(estimate_memory=250_500_000))
    result, kernels = estimates(gpt_ddp, output, execution=little)
    assert kernels["value"].count() == 0
    (said,) = result.dropped["tensor_estimate"]
    assert re.search(r" takes about \d+\.\d [MG]B of memory, above 250\.5 MB \(--memory allows more\)$", said)
