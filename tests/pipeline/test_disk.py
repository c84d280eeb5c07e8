"""A disk that is too small is told of before the work, where it can be known."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from runs import Command, left_in

import nsys2prv
from nsys2prv.commands import extraction
from nsys2prv.errors import OutputError
from nsys2prv.intervals.reduction_options import Reduction

ONE = nsys2prv.Execution(jobs=1)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=False).returncode
    ):
        pytest.skip("a small file system needs the right to mount one")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_nothing_is_read_when_the_temporary_files_cannot_fit(
    mpi_halo: list[Path], output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: object) -> None:
        raise AssertionError("a report was read")

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(60_000, 0, 60_000))
    monkeypatch.setattr(extraction, "extract", never)
    with pytest.raises(OutputError, match=r"takes temporary files of at least .*B, and 60\.0 kB are free") as told:
        nsys2prv.translate(mpi_halo, output, execution=ONE)
    assert str(told.value).startswith(f"{output.parent}: ")
    assert left_in(output.parent) == []


def test_a_small_choice_is_not_refused_for_what_it_leaves_out(
    mpi_halo: list[Path], output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100_000, 0, 100_000))
    for chosen in (
        nsys2prv.Selection(families=("nvtx",)),
        nsys2prv.Selection(time=(0, 100_000)),
        nsys2prv.Selection(reduction=Reduction(min_duration=1_000_000)),
    ):
        made = nsys2prv.translate(mpi_halo, output, selection=chosen, execution=ONE, force=True)
        assert made.size < 100_000


def test_an_analysis_whose_files_cannot_fit_is_refused(
    mpi_halo: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(20_000, 0, 20_000))
    with pytest.raises(OutputError, match=r"takes temporary files .*, choose a folder .* by --spill-dir, or") as told:
        nsys2prv.analyze(mpi_halo, execution=nsys2prv.Execution(jobs=2, spill_dir=tmp_path))
    assert str(told.value).startswith(f"{tmp_path}: ")
    assert left_in(tmp_path) == []


def test_nothing_is_written_when_the_trace_cannot_fit(
    mpi_halo: list[Path], output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = nsys2prv.translate(mpi_halo, output, dry_run=True).size
    free = iter([10**9, size - 1])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 0, next(free)))
    with pytest.raises(OutputError, match=r"the trace would take about .* free space there, choose another output, or"):
        nsys2prv.translate(mpi_halo, output, execution=ONE)
    assert left_in(output.parent) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_small_disk_keeps_the_former_trace(
    jobs: int, small_disk: Path, cli: Command, saxpy: Path, gpt_ddp: list[Path]
) -> None:
    output = small_disk / "trace"
    assert cli("translate", saxpy, "-o", output, "--quiet", "--only", "kernels").code == 0
    before = left_in(small_disk)
    said = cli("translate", *gpt_ddp, "-o", output, "--quiet", "--force", "--jobs", jobs)
    assert (said.code, "free space there" in said.err, said.err.count("\n")) == (1, True, 1)
    # Nothing says beforehand how much of the time it is.
    said = cli("translate", *gpt_ddp, "-o", output, "--quiet", "--force", "--jobs", jobs, "--time", "1ns:")
    assert (said.code, "free space there" in said.err, said.err.count("\n")) == (1, True, 1)
    assert left_in(small_disk) == before
