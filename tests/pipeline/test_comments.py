"""The comments at the end of a trace say of what it was made, how, and what it lacks."""

from __future__ import annotations

import shutil
from pathlib import Path

import construct
import pytest
from runs import Command, records

import nsys2prv


def comments(prv: Path) -> list[str]:
    """The comment lines, without their marks."""
    return [line[2:] for line in prv.read_text().splitlines()[1:] if line.startswith("#")]


def test_inputs_options_and_clocks_are_named(cli: Command, gpt_ddp: list[Path], output: Path) -> None:
    cli("translate", *gpt_ddp, "-o", output, "--quiet", "--nvtx", "step 5", "--skip", "osrt", "--align", "utc")
    version, options, time, *inputs = comments(output.with_suffix(".prv"))[:7]
    assert version == f"nsys2prv {nsys2prv.__version__}"
    assert options == "options --skip osrt --nvtx 'step 5' --align utc"
    assert time.endswith(" ns of the run")
    hosts = ["gpu-node0", "gpu-node0", "gpu-node1", "gpu-node1"]
    assert inputs == [
        f"input {path.stem}: host {host}, rank {rank}, nsys 2025.3.2.0, clock by utc +0 ns +0 ppm"
        for rank, (path, host) in enumerate(zip(gpt_ddp, hosts, strict=True))
    ]


def test_what_was_left_out_is_counted(gpt_ddp: list[Path], output: Path) -> None:
    result = nsys2prv.translate(gpt_ddp, output)
    told = comments(output.with_suffix(".prv"))
    dropped = {f"left out {f} {n}: {why}" for f, reasons in result.dropped.items() for why, n in reasons.items()}
    assert dropped
    assert {line for line in told if line.startswith("left out")} == dropped
    off = {f"not translated {family} {n}: --also {family}" for family, n in result.off.items()}
    assert off
    assert {line for line in told if line.startswith("not translated")} == off
    said = {f"the reports say: {text}" for texts in result.losses.values() for text in texts}
    assert {line for line in told if line.startswith("the reports say")} == said


def test_a_report_that_could_not_be_read_is_named(saxpy: Path, tmp_path: Path, output: Path) -> None:
    (bad,) = construct.truncated(saxpy, tmp_path / "bad")
    good = shutil.copy(saxpy, tmp_path / "good.sqlite")
    nsys2prv.translate([good, bad], output, execution=nsys2prv.Execution(keep_going=True))
    (line,) = [line for line in comments(output.with_suffix(".prv")) if "saxpy.sqlite" in line]
    assert line.startswith("input saxpy.sqlite left out: the file is truncated")


def test_inputs_of_any_folder_give_the_same_bytes(mpi_halo: list[Path], tmp_path: Path) -> None:
    moved = [Path(shutil.copy(path, tmp_path)) for path in mpi_halo]
    for name, reports in (("here", mpi_halo), ("there", moved[::-1])):
        nsys2prv.translate(reports, tmp_path / name)
    assert (tmp_path / "here.prv").read_bytes() == (tmp_path / "there.prv").read_bytes()


@pytest.mark.parametrize("options", [(), ("--compress",)])
def test_the_reader_passes_over_them(options: tuple[str, ...], cli: Command, saxpy: Path, output: Path) -> None:
    cli("translate", saxpy, "-o", output, "--quiet", *options)
    (written,) = output.parent.glob("trace.prv*")
    trace = nsys2prv.read_prv(written)
    if not options:
        lines = records(written).splitlines()[1:]
        assert trace.events["line"].n_unique() == sum(line.startswith(b"2:") for line in lines)
