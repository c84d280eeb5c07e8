"""What is wrong is said in one line that names the file and what to do; nothing is left where the output should be."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import construct
import pytest
from runs import COMMAND, HELD, Command, Said, in_process, left_in, records

from nsys2prv.commands import whole_run
from nsys2prv.errors import UsageError

# Case -> what the line says of it, and how the user goes on.
BROKEN = {
    "empty_file": "the file is empty; export",
    "truncated": "the file is truncated; copy it again",
    "not_sqlite": "this is not an SQLite file; give a report",
    "foreign_sqlite": "this is not an Nsight Systems export .*; give a report",
}


def assert_refused(said: Said, code: int, *names: object) -> None:
    """One line on stderr with these names in it, the exit code, and nothing else."""
    assert said.code == code, said.err
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("nsys2prv: ")
    assert "Traceback" not in said.err
    assert ";" in said.err, "a cause and what to do"
    for name in names:
        assert str(name) in said.err


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_report_is_refused_by_name(case: str, cli: Command, saxpy: Path, tmp_path: Path, output: Path) -> None:
    (bad,) = construct.CASES[case](saxpy, tmp_path / "bad")
    said = cli("translate", bad, "-o", output, "--quiet")
    assert_refused(said, 1, bad)
    assert re.search(BROKEN[case], said.err)
    assert left_in(output.parent) == []


@pytest.mark.parametrize("command", ["translate", "inspect"])
def test_a_missing_report_is_refused_by_name(command: str, cli: Command, output: Path) -> None:
    where = ["-o", output, "--quiet"] if command == "translate" else []
    assert_refused(cli(command, "nowhere.sqlite", *where), 1, "nowhere.sqlite", "no such file")
    assert left_in(output.parent) == []


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.999])
def test_a_truncated_report_is_refused_wherever_it_was_cut(
    kept: float, cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    (bad,) = construct.truncated(saxpy, tmp_path / "bad", kept=kept)
    assert_refused(cli("translate", bad, "-o", output, "--quiet"), 1, bad, "truncated")


def test_an_export_that_is_being_written_is_refused_until_it_is_not(
    cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    written = Path(shutil.copy(saxpy, tmp_path / "written.sqlite"))
    with closing(sqlite3.connect(written)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 2 = 0")
        writer.commit()
        said = cli("translate", written, "-o", output, "--quiet")
        assert_refused(said, 1, written, "written.sqlite-wal beside it", "open it once with sqlite3")
    assert cli("translate", written, "-o", output, "--quiet").code == 0


@pytest.mark.parametrize(("begins", "code"), [(bytes.fromhex("d9d505f920a163d7"), 1), (bytes(512), 0), (b"", 0)])
def test_an_export_whose_writer_was_killed_is_refused(
    begins: bytes, code: int, cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    written = Path(shutil.copy(saxpy, tmp_path / "written.sqlite"))
    (tmp_path / "written.sqlite-journal").write_bytes(begins)
    said = cli("translate", written, "-o", output, "--quiet")
    assert said.code == code
    if code:
        assert_refused(said, 1, written, "written.sqlite-journal beside it", "what wrote it was killed")


def test_a_report_with_a_damaged_page_is_refused(cli: Command, saxpy: Path, tmp_path: Path, output: Path) -> None:
    bad = tmp_path / saxpy.name
    data = bytearray(saxpy.read_bytes())
    for page in range(20, len(data) // 4096 - 1):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    bad.write_bytes(data)
    assert_refused(cli("translate", bad, "-o", output, "--quiet"), 1, bad)
    assert left_in(output.parent) == []


@pytest.mark.parametrize("columnar", ["StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"])
def test_a_damaged_columnar_table_is_refused(columnar: str, cli: Command, tmp_path: Path, output: Path) -> None:
    folder = tmp_path / "r_pqtdir"
    folder.mkdir()
    for name in ("StringIds", columnar):
        (folder / f"{name}.parquet").write_bytes(b"PAR1 and then nothing of the kind")
    assert_refused(cli("translate", folder, "-o", output, "--quiet"), 1, folder.name)
    assert left_in(output.parent) == []


def test_a_report_without_events_is_refused_with_what_to_check(
    cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    (bad,) = construct.no_events(saxpy, tmp_path / "bad")
    said = cli("translate", bad, "-o", output, "--quiet")
    assert_refused(said, 1, bad, "no events")
    assert left_in(output.parent) == []


def test_a_report_without_events_among_others_is_a_warning(
    cli: Command, saxpy: Path, mpi_halo: list[Path], tmp_path: Path, output: Path
) -> None:
    (bad,) = construct.no_events(saxpy, tmp_path / "bad")
    said = cli("translate", bad, *mpi_halo, "-o", output)
    assert said.code == 0
    assert f"warning: {bad}: no events" in said.out


def test_a_folder_without_reports_is_refused(cli: Command, tmp_path: Path, output: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_refused(cli("translate", tmp_path / "empty", "-o", output, "--quiet"), 1, tmp_path / "empty", "no reports")


def test_an_unreadable_folder_is_refused(
    cli: Command, tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    listed = Path.iterdir

    def iterdir(self: Path) -> object:
        if self == closed:
            raise PermissionError(13, "Permission denied", str(self))
        return listed(self)

    # Whoever runs the tests may read everything.
    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert_refused(cli("translate", tmp_path, "-o", output, "--quiet"), 1, "Permission denied", "permissions")


@pytest.mark.parametrize("command", ["translate", "analyze", "align", "inspect", "compare"])
def test_an_unreadable_report_is_refused(
    command: str, cli: Command, saxpy: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of who reads it, and not in click's."""
    more = {"translate": ["-o", output, "--quiet"], "compare": [saxpy]}.get(command, [])
    opened, accessed = Path.open, os.access

    def access(path: str | Path, mode: int) -> bool:
        return not str(path).endswith(".sqlite") and accessed(path, mode)

    def refuse(self: Path, *how: object, **more: object) -> object:
        if self.suffix == ".sqlite":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *how, **more)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(Path, "open", refuse)
    assert_refused(cli(command, saxpy, *more), 1, saxpy, "Permission denied")


def test_one_bad_report_among_many_is_named_and_stops_the_run(
    cli: Command, saxpy: Path, mpi_halo: list[Path], tmp_path: Path, output: Path
) -> None:
    (bad,) = construct.truncated(saxpy, tmp_path / "bad")
    said = cli("translate", *mpi_halo, bad, "-o", output, "--quiet")
    assert_refused(said, 1, bad, "or leave it out with --keep-going")
    alone = cli("translate", bad, "-o", output, "--quiet")
    assert_refused(alone, 1, bad)
    assert "--keep-going" not in alone.err
    assert left_in(output.parent) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_keep_going_leaves_a_bad_report_out_and_names_it(
    jobs: int, cli: Command, saxpy: Path, mpi_halo: list[Path], tmp_path: Path, output: Path
) -> None:
    (bad,) = construct.truncated(saxpy, tmp_path / "bad")
    said = cli("translate", *mpi_halo, bad, "-o", output, "--keep-going", "--jobs", jobs)
    assert said.code == 0
    assert f"left out: {bad}: the file is truncated" in said.out
    cli("translate", *mpi_halo, "-o", tmp_path / "good", "--quiet")
    assert records(output.with_suffix(".prv")) == records(tmp_path / "good.prv")


def test_a_file_that_sqlite_cannot_read_is_told_in_its_words(cli: Command, tmp_path: Path) -> None:
    """Without the names of the driver's states before them."""
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"SQLite format 3\0 and no more")
    assert_refused(cli("inspect", bad), 1, bad, ": SQLite cannot read it (file is not a database); export")


def test_a_link_to_nowhere_is_a_report_that_cannot_be_read(
    cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    shutil.copy(saxpy, tmp_path / "good.sqlite")
    (tmp_path / "gone.sqlite").symlink_to(tmp_path / "nowhere")
    assert_refused(cli("translate", tmp_path, "-o", output, "--quiet"), 1, "gone.sqlite", "no such file")
    said = cli("translate", tmp_path, "-o", output, "--keep-going")
    assert said.code == 0
    assert "gone.sqlite: there is no such file" in said.out


def test_keep_going_with_nothing_left_is_refused(cli: Command, saxpy: Path, tmp_path: Path, output: Path) -> None:
    (bad,) = construct.truncated(saxpy, tmp_path / "bad")
    said = cli("translate", bad, "-o", output, "--keep-going", "--quiet")
    assert_refused(said, 1, bad)
    assert left_in(output.parent) == []


def test_an_existing_trace_is_not_written_over_without_force(cli: Command, saxpy: Path, output: Path) -> None:
    assert cli("translate", saxpy, "-o", output, "--quiet") == Said(0, "", "")
    output.with_suffix(".row").write_text("mine")
    assert_refused(cli("translate", saxpy, "-o", output, "--quiet"), 2, output.with_suffix(".prv"), "--force")
    assert output.with_suffix(".row").read_text() == "mine"
    assert cli("translate", saxpy, "-o", output, "--quiet", "--force").code == 0
    assert output.with_suffix(".row").read_text() != "mine"


def test_a_trace_that_cannot_take_its_place_leaves_the_former_one(
    cli: Command, saxpy: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = [output.with_suffix(ending) for ending in (".prv", ".pcf", ".row")]
    for file in former:
        file.write_text("former")
    write_text = Path.write_text

    def full(path: Path, text: str, **how: str) -> int:
        if path.suffix == ".row":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    assert_refused(cli("translate", saxpy, "-o", output, "--quiet", "--force"), 1, output.parent, "No space left")
    assert [file.read_text() for file in former] == ["former"] * 3
    assert left_in(output.parent) == sorted(file.name for file in former)


def test_a_folder_in_the_place_of_a_file_is_refused(cli: Command, saxpy: Path, output: Path) -> None:
    output.with_suffix(".row").mkdir()
    said = cli("translate", saxpy, "-o", output, "--quiet", "--force")
    assert_refused(said, 1, output.with_suffix(".row"), "this is a folder")


def test_a_trace_replaces_its_former_compressed_or_not(cli: Command, saxpy: Path, output: Path) -> None:
    assert cli("translate", saxpy, "-o", output, "--quiet").code == 0
    assert_refused(cli("translate", saxpy, "-o", output, "--quiet", "--compress"), 2, output.with_suffix(".prv"))
    assert cli("translate", saxpy, "-o", output, "--quiet", "--compress", "--force").code == 0
    assert [f for f in left_in(output.parent) if ".prv" in f] == ["trace.prv.gz"]


def test_a_failed_run_leaves_the_former_trace_as_it_was(
    cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    (bad,) = construct.truncated(saxpy, tmp_path / "bad")
    cli("translate", saxpy, "-o", output, "--quiet")
    before = {name: (output.parent / name).read_bytes() for name in left_in(output.parent)}
    assert_refused(cli("translate", saxpy, bad, "-o", output, "--quiet", "--force"), 1, bad)
    assert {name: (output.parent / name).read_bytes() for name in left_in(output.parent)} == before


def test_a_run_that_cannot_be_analyzed_leaves_no_trace(
    cli: Command, saxpy: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise UsageError("--window 'step': no rank's main thread has such a range")

    monkeypatch.setattr(whole_run, "conclude", fails)
    said = cli("translate", saxpy, "-o", output, "--summary")
    assert (said.code, "no rank's main thread has such a range" in said.err) == (2, True)
    assert left_in(output.parent) == []


def test_an_output_folder_that_is_not_there_is_refused(cli: Command, saxpy: Path, tmp_path: Path) -> None:
    said = cli("translate", saxpy, "-o", tmp_path / "no" / "trace", "--quiet")
    assert_refused(said, 1, tmp_path / "no", "no such folder")


@pytest.mark.parametrize("length", [245, 300])
def test_an_output_with_too_long_a_name_is_refused(length: int, cli: Command, saxpy: Path, output: Path) -> None:
    assert_refused(cli("translate", saxpy, "-o", output.with_name("x" * length), "--quiet"), 1, "File name too long")
    assert left_in(output.parent) == []


@pytest.mark.parametrize("name", [b"caf\xe9.sqlite", b"caf\xe9/report.sqlite"])
def test_a_name_that_is_not_utf_8_is_refused(
    name: bytes, cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    report = tmp_path / os.fsdecode(name)
    report.parent.mkdir(exist_ok=True)
    shutil.copyfile(saxpy, report)
    for given in (report, report.parent):
        said = cli("translate", given, "-o", output, "--quiet")
        assert_refused(said, 1, name.decode(errors="backslashreplace"), "its name is not UTF-8; rename it")
    shutil.copyfile(saxpy, tmp_path / "good.sqlite")
    said = cli("translate", tmp_path, "-o", output, "--keep-going")
    assert (said.code, "its name is not UTF-8" in said.out) == (0, True), said.err


def test_an_output_with_a_name_that_is_not_utf_8_is_told_of(saxpy: Path, tmp_path: Path) -> None:
    output = tmp_path / os.fsdecode(b"caf\xe9")
    said = in_process("translate", saxpy, "-o", output, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"})
    assert (said.code, r"caf\udce9.prv (.pcf, .row): 1 report, " in said.out) == (0, True), said.err


@pytest.mark.parametrize("option", ["analyze --html", "align --plot"])
@pytest.mark.parametrize(
    ("name", "cause"),
    {
        "no/page": "no: no such folder; create it",
        "folder": "folder: this is a folder; name a file in it",
        "report.sqlite": "report.sqlite: this is a report; name another",
        "closed": "closed: cannot be written (no permission); choose another",
        "x" * 300: "File name too long",
    }.items(),
)
def test_a_file_that_cannot_be_written_is_refused_before_reports_are_read(
    option: str, name: str, cause: str, cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "report.sqlite").touch()
    # Whoever runs the tests may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    # Of reports that are not there nothing is said.
    assert_refused(cli(*option.split(), tmp_path / name, tmp_path / "nowhere"), 1, cause)


@pytest.mark.parametrize("words", [("analyze", "--html"), ("align", "--plot"), ("align", "--json", "--plot")])
def test_a_file_that_is_there_is_written_over_by_force_alone(
    words: tuple[str, ...], cli: Command, saxpy: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert_refused(cli(*words, file, "nowhere"), 2, "file: the file exists already; use --force to write over it")
    assert file.read_text() == "mine"
    said = cli(*words, file, saxpy, "--force")
    assert said.code == 0
    assert f"Wrote {file}\n" in (said.err if "--json" in words else said.out)
    assert file.read_text() != "mine"


def test_a_folder_as_output_is_refused(cli: Command, saxpy: Path, tmp_path: Path) -> None:
    assert_refused(cli("translate", saxpy, "-o", tmp_path, "--quiet"), 1, tmp_path, "this is a folder")


def test_an_output_folder_that_cannot_be_written_is_refused(
    cli: Command, saxpy: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs the tests may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert_refused(cli("translate", saxpy, "-o", output, "--quiet"), 1, output.parent, "cannot be written")


def small_files(limit: int) -> Callable[[], None]:
    """As a full disk: writing a file beyond the limit fails."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return apply


@pytest.mark.parametrize("limit", [1_000, 60_000, 150_000])
@pytest.mark.parametrize("options", [[], ["--compress"], ["--jobs", 2]])
def test_a_full_disk_is_said_and_leaves_nothing(
    limit: int, options: list[object], mpi_halo: list[Path], output: Path
) -> None:
    said = in_process("translate", *mpi_halo, "-o", output, "--quiet", *options, preexec_fn=small_files(limit))
    if said.code == 0 and "--compress" in options:
        pytest.skip("a compressed trace is smaller than the limit")
    assert_refused(said, 1, output.parent, "free space")
    assert left_in(output.parent) == []


@pytest.mark.parametrize("before", [None, "as it was"])
def test_a_full_disk_leaves_no_part_of_a_plot(before: str | None, mpi_halo: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "plot.svg"
    if before is not None:
        file.write_text(before)
    said = in_process("align", *mpi_halo, "--plot", file, "--force", preexec_fn=small_files(2_000))
    assert_refused(said, 1, file, "cannot be written (File too large)")
    left = {} if before is None else {"plot.svg": before}
    assert {name: (tmp_path / name).read_text() for name in left_in(tmp_path)} == left


def test_what_nobody_reads_is_not_missed(saxpy: Path) -> None:
    said = in_process("inspect", saxpy, preexec_fn=lambda: os.close(1))
    assert (said.code, said.err) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_who_reads_no_further_changes_nothing(unbuffered: str, saxpy: Path, tmp_path: Path) -> None:
    """As `| head` leaves: whether before the last line or after it is chance. What is to be written is."""
    reader, pipe = os.pipe()
    os.close(reader)
    words = ["analyze", str(saxpy), "--html", str(tmp_path / "page.html")]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    said = subprocess.run([*COMMAND, *words], stdout=pipe, stderr=subprocess.PIPE, text=True, env=env)
    assert (said.returncode, said.stderr, left_in(tmp_path)) == (0, "", ["page.html"])
    words = ["translate", str(saxpy), "-o", str(tmp_path / "trace")]
    assert subprocess.run([*COMMAND, *words], stdout=pipe, stderr=pipe).returncode == 0
    assert "trace.prv" in left_in(tmp_path)
    assert subprocess.run([*COMMAND, "inspect", str(tmp_path / "nowhere")], stdout=pipe, stderr=pipe).returncode == 1
    os.close(pipe)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["inspect", "analyze"])
def test_what_cannot_be_printed_is_said(command: str, unbuffered: str, saxpy: Path) -> None:
    words, env = [*COMMAND, command, str(saxpy)], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1].startswith("nsys2prv: standard output cannot be written (No space left")
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_run_says_so_and_leaves_nothing(
    jobs: int, times: int, gpt_ddp: list[Path], output: Path
) -> None:
    command = [*HELD, "translate", *map(str, gpt_ddp), "-o", str(output), "--jobs", str(jobs), "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        # In mid-run: the first report's points are there.
        while not list(output.parent.glob(".trace.*/*.arrow")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        # As a terminal does: to the whole group. Who waits for the end may press again.
        for _ in range(times):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.001)
        _, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 130
    assert err.strip() == "nsys2prv: interrupted; nothing was written"
    assert left_in(output.parent) == []


def test_a_needed_column_that_is_missing_is_said(cli: Command, saxpy: Path, tmp_path: Path, output: Path) -> None:
    bad = tmp_path / saxpy.name
    shutil.copyfile(saxpy, bad)
    with closing(sqlite3.connect(bad)) as connection:
        connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN streamId TO stream")
    said = cli("translate", bad, "-o", output)
    assert said.code == 0
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in said.out
    assert "streamId" in said.out


USAGE = {
    "--only nothing": "--only: there is no family 'nothing'",
    "--skip nothing": "--skip: there is no family 'nothing'",
    "-t nothing": "no category 'nothing'",
    "--only kernels -t nccl": "give one of them",
    "--only kernels --skip kernels": "no family is left",
    "--time 5": "FROM:TO",
    "--time now:then": "is not a time",
    "--time 2s:1s": "the chosen time, 2.000000 to 1.000000 s, is empty or outside of the run",
    "--nvtx nowhere": "no report has an NVTX range 'nowhere', but halo, iteration 0, reduce; `nsys2prv",
    "--nvtx nowhere --only kernels": "mpi-halo/mpi-halo.0.sqlite --show nvtx` lists them",
    "--window nowhere": "no report has an NVTX range 'nowhere', but halo, iteration 0, reduce; `nsys2prv",
    "--ranks one": "neither a rank",
    "--ranks 0-1000000000000000": "neither a rank below a million",
    "--ranks 0,3-1": "'3-1' ends before it begins",
    "--ranks 77": "--ranks: no task has one of the chosen ranks",
    "--max-size huge": "--max-size: 'huge' is not a size",
    "--max-size 1kB": "above --max-size 1.00 kB",
    "--max-size 0": "above --max-size 0 B",
}


@pytest.mark.parametrize("options", USAGE)
def test_wrong_usage_is_said_in_one_line(options: str, cli: Command, mpi_halo: list[Path], output: Path) -> None:
    said = cli("translate", *mpi_halo, "-o", output, "--quiet", *options.split())
    assert said.code == 2
    assert USAGE[options] in said.err
    assert said.err.count("\n") == 1
    assert left_in(output.parent) == []


@pytest.mark.parametrize("how", [[], ["--compress"]])
def test_what_would_help_is_a_part_of_what_is_refused(how: list[str], cli: Command, saxpy: Path, output: Path) -> None:
    said = cli("translate", saxpy, "-o", output, "--quiet", "--max-size", 0, *how).err
    whole, *parts = (float(size) for size in re.findall(r"([\d.]+) kB", said))
    assert 0 < sum(parts) <= whole


def test_analyze_lists_the_ranges_that_there_are(cli: Command, mpi_halo: list[Path]) -> None:
    said = cli("analyze", *mpi_halo, "--show", "ranges")
    assert re.search(r"^ +halo +\d+", said.out, re.MULTILINE), said.out


@pytest.mark.parametrize("command", ["translate", "batch"])
@pytest.mark.parametrize("option", ["--hosts", "--offsets", "--classes"])
def test_a_file_of_options_that_cannot_be_read_is_refused(
    option: str, command: str, cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    given = tmp_path / "given"
    where = saxpy if command == "translate" else saxpy.parent
    assert_refused(cli(command, where, "-o", output, "--quiet", option, given), 2, given)
    if option != "--classes":
        given.write_bytes(b"caf\xe9 left\n")
        assert_refused(cli(command, where, "-o", output, "--quiet", option, given), 2, given)


# Words -> what is said of them, and whose help is named.
CLICK_USAGE = {
    "translate --nonsense": ("No such option", "translate "),
    "translate x.sqlite": ("Missing option '-o' / '--output'", "translate "),
    "translate": ("Missing argument 'INPUT...'", "translate "),
    "translate x -o y --jobs 0": ("0 is not in the range", "translate "),
    "translate x -o y --states=3": ("Option '--states' does not take a value", "translate "),
    "analyze x --nccl foo": ("'foo' is not one of 'communication', 'useful'", "analyze "),
    "transalte": ("no such command 'transalte', did you mean 'translate'?", ""),
    "nothing": ("no such command 'nothing'", ""),
    "--nonsense": ("No such option", ""),
}


@pytest.mark.parametrize("words", CLICK_USAGE)
def test_what_click_refuses_is_said_in_one_line(words: str, cli: Command) -> None:
    cause, command = CLICK_USAGE[words]
    assert_refused(cli(*words.split()), 2, cause, f"; `nsys2prv {command}--help`")


def test_without_a_command_the_help_is_shown(cli: Command) -> None:
    said = cli()
    assert (said.code, said.err) == (0, "")
    assert said.out == cli("--help").out
