"""Exported frames are those of a loaded run, in a folder that is ours alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from runs import ROOT, SAMPLES, Command, left_in

import nsys2prv
from nsys2prv.commands import load
from nsys2prv.commands.frames_written import FRAMES

GPT, HALO = SAMPLES / "gpt-ddp", SAMPLES / "mpi-halo"
PARQUET = ROOT / "tests" / "data" / "formats"


def test_files_hold_the_frames_of_a_loaded_run(tmp_path: Path) -> None:
    with nsys2prv.load(GPT, metrics=("Tensor Active", "SM Issue")) as run:
        written = run.export(tmp_path / "frames")
        for name in FRAMES:
            frame = pl.read_parquet(tmp_path / "frames" / f"{name}.parquet")
            assert_frame_equal(frame, getattr(run, name), categorical_as_str=True)
            assert frame.height > 0
        samples = pl.read_parquet(tmp_path / "frames" / "samples" / "*.parquet")
        key = ["metric", "rank", "time"]
        assert_frame_equal(samples.sort(key), run.samples("").sort(key))
    assert {one.path for one in written} == set((tmp_path / "frames").rglob("*.parquet"))
    assert {one.name: one.rows for one in written}["kernels"] == pl.read_parquet(written[0].path).height
    assert left_in(tmp_path) == ["frames"]


def test_the_command_line_writes_the_same(cli: Command, tmp_path: Path) -> None:
    told = json.loads(cli("export", HALO, "-o", tmp_path / "told", "--json").out)
    written = nsys2prv.export(HALO, tmp_path / "written")
    assert [(one["name"], one["rows"]) for one in told["frames"]] == [(one.name, one.rows) for one in written.files]
    for one, other in zip(told["frames"], written.files, strict=True):
        assert_frame_equal(pl.read_parquet(one["path"]), pl.read_parquet(other.path), categorical_as_str=True)


def test_a_former_export_is_written_over_by_force_alone(cli: Command, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    nsys2prv.export(GPT, frames, metrics=("Tensor Active",))
    said = cli("export", HALO, "-o", frames)
    assert (said.code, "use --force to write over them" in said.err) == (2, True)
    assert (frames / "samples").is_dir()
    assert cli("export", HALO, "-o", frames, "--force").code == 0
    assert left_in(frames) == sorted(f"{name}.parquet" for name in FRAMES)
    assert left_in(tmp_path) == ["frames"]


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (report,) = PARQUET.glob("*_pqtdir")
    copy = Path(shutil.copytree(report, tmp_path / report.name))
    before = left_in(copy)
    for force in (False, True):
        with pytest.raises(nsys2prv.Nsys2prvError, match="the folder has other files than an export"):
            nsys2prv.export(HALO, copy, force=force)
    assert left_in(copy) == before
    with pytest.raises(nsys2prv.Nsys2prvError, match="no such folder"):
        nsys2prv.export(HALO, tmp_path / "none" / "frames")


@pytest.mark.parametrize("place", ["samples/notes.txt", "samples/old/tensor-active.parquet"])
def test_files_of_others_among_the_samples_are_left_alone(place: str, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    nsys2prv.export(GPT, frames, metrics=("Tensor Active",))
    (frames / place).parent.mkdir(exist_ok=True)
    (frames / place).write_text("mine")
    with pytest.raises(nsys2prv.Nsys2prvError, match=rf"{place}: the folder has other files than an export"):
        nsys2prv.export(HALO, frames, force=True)
    assert (frames / place).read_text() == "mine"


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = tmp_path / "frames"
    nsys2prv.export(HALO, frames)
    before = {path.name: path.read_bytes() for path in frames.iterdir()}

    def full(self: object) -> pl.DataFrame:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(load.LoadedRun, "messages", property(full))
    with pytest.raises(nsys2prv.Nsys2prvError, match=r"No space left on device\); free space there"):
        nsys2prv.export(HALO, frames, force=True)
    assert {path.name: path.read_bytes() for path in frames.iterdir()} == before
    assert left_in(tmp_path) == ["frames"]


def test_choices_that_match_nothing_are_told(cli: Command, tmp_path: Path) -> None:
    """And reports that are left out: files alone would not say so."""
    of_samples = cli("export", HALO, "-o", tmp_path / "a", "--also", "cpu_samples,scheduling").out.splitlines()[-1]
    assert of_samples.startswith("warning: No frame holds scheduling, cpu_samples; frames hold kernels, ")
    unrecorded = cli("export", HALO, "-o", tmp_path / "b", "--metric", "Tensor").out.splitlines()[-1]
    assert unrecorded.startswith("warning: No samples of Tensor are written: the reports hold no GPU metrics")
    skipped = nsys2prv.export(
        GPT, tmp_path / "c", metrics=("Tensor",), selection=nsys2prv.Selection(families=("kernels", "nccl"))
    )
    assert skipped.warnings[-1] == "No samples of Tensor are written: --only or --skip leaves out gpu_metrics."
    wrong = cli("export", GPT, "-o", tmp_path / "d", "--metric", "Tensor Active", "--metric", "no such")
    assert (wrong.code, wrong.err.startswith("nsys2prv: --metric 'no such': no GPU metric has this in its name; ")) == (
        2,
        True,
    )
    broken = Path(shutil.copytree(HALO, tmp_path / "broken"))
    (broken / "mpi-halo.3.sqlite").write_bytes(b"no report")
    told = nsys2prv.export(broken, tmp_path / "e", execution=nsys2prv.Execution(keep_going=True)).warnings
    assert any("mpi-halo.3.sqlite" in text for text in told)
