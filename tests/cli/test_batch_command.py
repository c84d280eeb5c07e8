"""What `nsys2prv batch` prints, and its exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import construct
import pytest
from fake_nsys import fake_nsys, reports
from runs import COMMAND, SAMPLES, Command, left_in


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs told by name, one of them broken, and a report of another name."""
    folder = tmp_path / "root"
    folder.mkdir()
    halo = sorted((SAMPLES / "mpi-halo").glob("*.sqlite"))
    for name, report in {"7_n0_0": halo[0], "7_n1_1": halo[1], "other": halo[2]}.items():
        shutil.copy(report, folder / f"{name}.sqlite")
    (bad,) = construct.truncated(halo[3], tmp_path / "bad")
    shutil.copy(bad, folder / "8_n0_0.sqlite")
    return folder


def test_a_table_and_the_exit_code_tell_what_was_done(cli: Command, root: Path, tmp_path: Path) -> None:
    said = cli("batch", root, "-o", tmp_path / "out", "--group", "%job_%node_%rank", "--only", "kernels,mpi")
    assert said.code == 1
    lines = [line.split() for line in said.out.splitlines()]
    assert ["7", "done", "new", "2"] in [words[:4] for words in lines]
    assert ["8", "failed", "new", "1"] in lines
    assert "failed: 8: " in said.out
    assert "truncated" in said.out
    assert "left out: 1 report whose name does not match" in said.out
    assert "2 runs: 1 done, 1 failed." in said.out
    (root / "8_n0_0.sqlite").unlink()
    again = cli("batch", root, "-o", tmp_path / "out", "--group", "%job_%node_%rank", "--only", "kernels,mpi")
    assert (again.code, "1 run: 1 kept." in again.out) == (0, True)
    assert "1 traces of runs whose reports are no longer there stay, as 8" not in again.out, "8 has no trace"


def test_json_has_every_run_with_its_record(cli: Command, root: Path, tmp_path: Path) -> None:
    said = cli("batch", root, "-o", tmp_path / "out", "--group", "%job_%node_%rank", "--format", "json")
    told = json.loads(said.out)
    assert [(r["run"], r["did"], r["because"], r["outcome"]) for r in told["runs"]] == [
        ("7", "done", "new", "done"),
        ("8", "failed", "new", "failed"),
    ]
    assert sorted(told["runs"][0]["outputs"]) == ["7.align.json", "7.pcf", "7.prv", "7.row"]
    assert [Path(p).name for p in told["unmatched"]] == ["other.sqlite"]


def test_quiet_names_failures_only(cli: Command, root: Path, tmp_path: Path) -> None:
    said = cli("batch", root, "-o", tmp_path / "out", "--group", "%job_%node_%rank", "--quiet")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("nsys2prv: 8: ")


def test_a_dry_run_writes_nothing(cli: Command, root: Path, tmp_path: Path) -> None:
    (root / "8_n0_0.sqlite").unlink()
    said = cli("batch", root, "-o", tmp_path / "out", "--dry-run")
    assert said.code == 0
    assert "1 run: 1 to do." in said.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [(), ("--keep-going",)])
def test_a_dry_run_says_with_the_words_of_the_batch_what_fails(
    options: tuple[str, ...], cli: Command, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(SAMPLES, root)
    (bad,) = construct.truncated(SAMPLES / "single" / "saxpy.sqlite", tmp_path / "bad")
    for name in ("alone", "mpi-halo"):
        (root / name).mkdir(exist_ok=True)
        shutil.copy(bad, root / name / "bad.sqlite")
    before = cli("batch", root, "--dry-run", "--only", "kernels", *options)
    after = cli("batch", root, "-o", tmp_path / "out", "--only", "kernels", *options)
    assert (before.code, after.code) == (1, 1)
    said, done = before.out.split("\n\n", 1)[1], after.out.split("\n\n", 1)[1]
    told, happened = (text.splitlines()[:-1] for text in (said, done))
    assert [line.replace("would fail: ", "failed: ") for line in told] == [
        line for line in happened if "left out: " not in line
    ]
    assert ("mpi-halo: " in said) is (not options)
    assert sum(line.startswith("would fail: ") for line in told) == 3 - len(options)


def test_only_a_dry_run_does_without_a_folder_for_traces(cli: Command, root: Path) -> None:
    said = cli("batch", root)
    assert (said.code, said.err.count("\n"), "-o OUTDIR" in said.err) == (2, 1, True)
    assert json.loads(cli("batch", root, "--dry-run", "--json").out)["manifest"] is None


def test_ranks_of_a_communicator_are_one_run_in_a_dry_run_too(cli: Command, tmp_path: Path) -> None:
    """Recorded one after the other, which alone would make them two runs."""
    root = tmp_path / "root" / "run"
    root.mkdir(parents=True)
    first, second, *_ = sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))
    shutil.copy(first, root)
    construct.with_clock(second, root, utc_shift_ns=3600 * 10**9)
    assert "1 run: 1 to do." in cli("batch", root.parent, "--dry-run").out


def test_wrong_usage_is_one_line(cli: Command, root: Path, tmp_path: Path) -> None:
    said = cli("batch", next(root.rglob("*.sqlite")), "-o", tmp_path / "out")
    assert (said.code, "this is a file; give the folder" in said.err) == (2, True)
    for options in (["--group", "%rank"], ["--only", "nothing"], ["--max-size", "huge"]):
        said = cli("batch", root, "-o", tmp_path / "out", *options)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert cli("batch", tmp_path / "nowhere", "-o", tmp_path / "out").code == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted_it_keeps_what_is_finished_and_leaves_nothing_else(jobs: int, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / "root" / str(number)).mkdir(parents=True)
        shutil.copy(SAMPLES / "single" / "saxpy.sqlite", tmp_path / "root" / str(number))
    # The last run is under way however late the interrupt comes: its export waits for another one.
    reports(tmp_path / "root" / "2", "rank0")
    nsys, out = fake_nsys(tmp_path / "nsys", together=2), tmp_path / "out"
    options = ["--nsys", str(nsys), "--jobs", str(jobs), "--quiet"]
    command = [*COMMAND, "batch", str(tmp_path / "root"), "-o", str(out), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        deadline = time.monotonic() + 60
        while not list(out.glob("*.prv")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("nsys2prv: interrupted; finished traces stay")
    assert not [name for name in left_in(out) if name.startswith(".")]
    assert list(out.glob("*.prv"))
    assert left_in(tmp_path / "root" / "2") == ["rank0.nsys-rep"]
