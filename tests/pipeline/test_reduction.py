"""Smaller traces of what the user can do without: what stays is as it was, what goes is counted."""

from __future__ import annotations

import re
from pathlib import Path

import drawn
import polars as pl
from exports import PROCESS, export
from polars.testing import assert_frame_equal
from runs import Command, Runs

import nsys2prv
from nsys2prv.intervals.reduction_options import Reduction

LEAST = 20_000


def reduced(reports: list[Path], output: Path, **wanted: int) -> nsys2prv.Translation:
    """As `Runs.whole`: a thread keeps its row when all of its calls are short."""
    options = nsys2prv.RunOptions(align="utc", every_thread=True)
    selection = nsys2prv.Selection(reduction=Reduction(**wanted))  # type: ignore[arg-type]
    return nsys2prv.translate(
        reports, output, selection=selection, options=options, execution=nsys2prv.Execution(jobs=1)
    )


def test_what_is_short_is_left_out_and_counted(gpt_ddp: list[Path], translations: Runs, output: Path) -> None:
    whole = translations.whole("gpt-ddp")
    result = reduced(gpt_ddp, output, min_duration=LEAST)
    want = whole.intervals.filter(pl.col("end") - pl.col("start") >= LEAST)
    got = drawn.intervals(nsys2prv.read_prv(output.with_suffix(".prv")))
    assert 0 < got.height < whole.intervals.height
    assert_frame_equal(got.sort(pl.all()), want.sort(pl.all()))
    families = {"cuda_api": "api", "kernels": "kernel", "memory": "memory"}
    for family, kind in families.items():
        short = whole.intervals.filter(pl.col("kind") == kind, pl.col("end") - pl.col("start") < LEAST).height
        assert result.dropped[family][f"shorter than {LEAST} ns"] == short
    left = result.dropped["correlation"][f"to activity shorter than {LEAST} ns"]
    assert result.rows["correlation"] == whole.result.rows["correlation"] - left


def test_what_the_chosen_time_leaves_of_a_long_one_stays(tmp_path: Path) -> None:
    """It is not short, and what is short within the chosen time goes."""
    kernels = [(0, 100, 0, 7, PROCESS, "long"), (120, 150, 0, 7, PROCESS, "short"), (160, 300, 0, 7, PROCESS, "long")]
    columns = "start end deviceId streamId globalPid shortName"
    report = export(tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(columns, kernels))
    selection = nsys2prv.Selection(("kernels",), time=(80, 180), reduction=Reduction(min_duration=60))
    result = nsys2prv.translate(report, tmp_path / "trace", selection=selection, execution=nsys2prv.Execution(jobs=1))
    found = nsys2prv.read_prv(tmp_path / "trace.prv").intervals(63000006)
    assert found.select("start", "end", "label").rows() == [(0, 20, "long"), (80, 100, "long")]
    assert result.dropped["kernels"]["shorter than 60 ns"] == 1


def test_metrics_keep_their_mean(saxpy: Path, translations: Runs, output: Path) -> None:
    every = 10_000_000
    result = reduced([saxpy], output, metrics_every=every)
    assert result.dropped["gpu_metrics"][f"averaged over periods of {every} ns"] > 0
    sums = []
    for trace in (translations.whole("saxpy").trace, nsys2prv.read_prv(output.with_suffix(".prv"))):
        held = drawn.metrics(trace).sort("metric", "time")
        lasts = held.with_columns(lasts=pl.col("time").shift(-1).over("metric") - pl.col("time"))
        sums.append(
            lasts.group_by("metric").agg(
                mean=(pl.col("value") * pl.col("lasts")).sum() / pl.col("lasts").sum(), time=pl.col("time").max()
            )
        )
    # Each mean is rounded to a whole number.
    before, after = (s.sort("metric") for s in sums)
    assert_frame_equal(after, before, abs_tol=0.5, rel_tol=0)


def test_streams_of_a_device_share_rows_as_far_as_they_do_not_overlap(
    mpi_halo: list[Path], translations: Runs, output: Path
) -> None:
    reduced(mpi_halo, output, merge_streams=True)
    made = nsys2prv.read_prv(output.with_suffix(".prv"))
    streams = [name for name in made.names["THREAD"] if name.startswith("CUDA")]
    before = translations.whole("mpi-halo")
    assert len(streams) < sum(name.startswith("CUDA") for name in before.trace.names["THREAD"])
    assert all(re.fullmatch(r"CUDA-D\d+\.S0", name) for name in streams)
    device = pl.col("place").str.replace(r"\.S\d+$", "")
    of_streams = pl.col("place").str.starts_with("CUDA")
    want = before.intervals.filter(of_streams).with_columns(device).sort(pl.all())
    got = drawn.intervals(made).filter(of_streams).with_columns(device).sort(pl.all())
    assert_frame_equal(got, want)
    busy = pl.concat(made.intervals(n) for n in (63000001, 63000006, 63000007) if n in made.types)
    after = busy.sort("task", "thread", "start").with_columns(
        before=pl.col("end").shift(1).over("task", "thread"), deepest=pl.col("thread").n_unique().over("task")
    )
    assert after.filter(pl.col("start") < pl.col("before")).is_empty()
    for (task,), rows in busy.partition_by("task", as_dict=True).items():
        steps = pl.concat([rows.select(time="start", step=pl.lit(1)), rows.select(time="end", step=pl.lit(-1))]).sort(
            "time", "step"
        )
        assert rows["thread"].n_unique() == steps["step"].cum_sum().max(), task


def test_the_comments_name_the_options(cli: Command, saxpy: Path, output: Path) -> None:
    options = ("--min-duration", "1us", "--metrics-every", "2.5ms", "--merge-streams")
    assert cli("translate", saxpy, "-o", output, "--quiet", *options).code == 0
    line = "# options --min-duration 1000ns --metrics-every 2500000ns --merge-streams"
    assert line in output.with_suffix(".prv").read_text().splitlines()
