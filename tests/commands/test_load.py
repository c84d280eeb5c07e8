"""A run in memory: its frames equal the reports' rows, and its answers those of the commands."""

from __future__ import annotations

import fcntl
import sqlite3
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest
from runs import SAMPLES, left_in

import nsys2prv

GPT, ONE = SAMPLES / "gpt-ddp", nsys2prv.Execution(jobs=1)


def sql(query: str) -> int:
    total = 0
    for report in sorted(GPT.glob("*.sqlite")):
        with sqlite3.connect(report) as opened:
            total += opened.execute(query).fetchone()[0]
    return total


def test_its_frames_hold_the_rows_of_the_reports() -> None:
    with nsys2prv.load(GPT, execution=ONE) as run:
        kernels = "CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName"
        named = f"SELECT {{}} FROM {kernels} WHERE s.value {{}} 'nccl%'"
        assert run.nccl.height == sql(named.format("count(*)", "LIKE"))
        assert run.kernels.height == sql(named.format("count(*)", "NOT LIKE"))
        lasting = (pl.col("end") - pl.col("start")).sum()
        assert run.kernels.select(lasting).item() == sql(named.format("sum(k.end - k.start)", "NOT LIKE"))
        assert run.copies["bytes"].sum() == sum(
            sql(f"SELECT coalesce(sum(bytes), 0) FROM CUPTI_ACTIVITY_KIND_{kind}") for kind in ("MEMCPY", "MEMSET")
        )
        own = "eventType = 59 AND end IS NOT NULL AND coalesce(n.text, s.value) NOT LIKE 'nccl%'"
        ranges = f"SELECT count(*) FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId WHERE {own}"
        assert run.ranges.height == sql(ranges)
        assert sorted(run.kernels["rank"].unique()) == [0, 1, 2, 3]
        assert set(run.calls["kind"].unique()) >= {"cuda", "synchronization"}
        assert set(run.messages["kind"].unique()) == {"collective"}


@pytest.mark.parametrize("locks", [True, False])
def test_two_runs_with_one_folder_of_intermediate_files(
    locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not locks:
        monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError))
    execution = nsys2prv.Execution(jobs=1, spill_dir=tmp_path)
    with nsys2prv.load(GPT, execution=execution) as first, nsys2prv.load(GPT, execution=execution) as second:
        assert first.samples("sms active").equals(second.samples("sms active"))
        assert len(left_in(tmp_path)) == 2
    assert left_in(tmp_path) == []


def test_samples_are_those_of_the_reports() -> None:
    both = "GPU_METRICS m JOIN TARGET_INFO_GPU_METRICS t USING (typeId, metricId)"
    query = f"FROM {both} WHERE t.metricName LIKE 'SMs Active%'"
    with nsys2prv.load(GPT, execution=ONE) as run:
        found = run.samples("sms active")
        assert found.height == sql(f"SELECT count(*) {query}")
        assert found["value"].sum() == sql(f"SELECT coalesce(sum(m.value), 0) {query}")
        assert found.height > 0
        assert found["metric"].is_in(run.metrics).all()


def test_its_answers_are_those_of_the_commands(tmp_path: Path) -> None:
    with nsys2prv.load(GPT, execution=ONE) as run:
        question = nsys2prv.Question(window="step 5")
        found = run.analyze(window="step 5").as_json()
        told = nsys2prv.analyze(GPT, question=question, execution=ONE).as_json()
        assert found["efficiency"] == told["efficiency"]
        assert found["kernels"] == told["kernels"]
        assert found["metrics"] == told["metrics"] != []
        predicted = nsys2prv.what_if(GPT, ["transfer=0"], execution=ONE)
        assert run.what_if("transfer=0").as_json() == predicted.as_json()
        path = run.critical_path()
        assert (path["end"] - path["start"]).sum() == nsys2prv.analyze(GPT, execution=ONE).window.spans.total()
        run.to_html(tmp_path / "run.html")
        assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")
        assert run.translate(tmp_path / "trace").prv == tmp_path / "trace.prv"
        with pytest.raises(nsys2prv.Nsys2prvError, match="no rank's main thread has such a range"):
            run.analyze(window="nothing")


def test_a_page_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    says = r"missing/run.html: cannot be written .*; choose another file"
    saxpy = SAMPLES / "single" / "saxpy.sqlite"
    with nsys2prv.load(saxpy, execution=ONE) as run, pytest.raises(nsys2prv.Nsys2prvError, match=says):
        run.to_html(tmp_path / "missing" / "run.html")


def test_it_shows_itself_on_one_line() -> None:
    with nsys2prv.load(GPT, execution=ONE) as run:
        assert repr(run).startswith("<nsys2prv run: 4 ranks, 4 GPUs, ")
        assert "<table" in run._repr_html_()
    assert {"load", "analyze", "translate", "__version__"} <= set(dir(nsys2prv))
