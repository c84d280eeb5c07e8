"""A real nsys: traces hold what it says of recordings, broken ones are told of, its options are those of the docs."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest
from runs import ROOT, Command, left_in

import nsys2prv
from nsys2prv.paraver.cfg import CFGS
from nsys2prv.report.nsys import find_nsys

pytestmark = pytest.mark.nsys

# Nested ranges on two threads, a range that is started and ended, calls of the C library.
PROGRAM = r"""
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void work(const char *name, int us) {
    nvtxRangePushA(name);
    usleep(us);
    nvtxRangePop();
}

static void *other(void *unused) {
    for (int n = 0; n < 3; n++) work("other", 2000);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    for (int step = 0; step < 4; step++) {
        nvtxRangePushA("step");
        work("forward", 3000);
        work("backward", 4000);
        nvtxRangePop();
    }
    nvtxRangeId_t writing = nvtxRangeStartA("writing");
    FILE *out = fopen("/dev/null", "w");
    fputs("done", out);
    fclose(out);
    nvtxRangeEnd(writing);
    pthread_join(thread, NULL);
    return 0;
}
"""
# What `nsys stats` sums up -> the event type that has it in the trace.
SUMS = {"osrt_sum": 70000003, "nvtx_pushpop_sum": 9600, "nvtx_startend_sum": 9004}
NAME = {"osrt_sum": "Name", "nvtx_pushpop_sum": "Range", "nvtx_startend_sum": "Range"}
COUNT = {"osrt_sum": "Num Calls", "nvtx_pushpop_sum": "Instances", "nvtx_startend_sum": "Instances"}
QUIET = ("--sample=none", "--cpuctxsw=none")
# Marks of the profiler's own among OS calls, which `nsys stats` leaves out.
OWN_MARK = "OS runtime libraries profiling"
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# With lines that go on behind a backslash as one.
PAGE = re.sub(r" *\\\n +", " ", (ROOT / "docs/recording.md").read_text(encoding="utf-8"))
# What the page says that nsys 2023.4 does not know.
LATER = set(re.findall(r"`(--[\w-]+)`", PAGE.partition("\nnsys 2023.4 lacks ")[2].partition(".\n")[0]))


@pytest.fixture(scope="module")
def nsys() -> Path:
    found = find_nsys(None)
    if found is None:
        pytest.skip("no nsys: set NSYS_HOME")
    return found.resolve()


@pytest.fixture(scope="module")
def program(nsys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    headers = nsys.parent / "nvtx/include"
    if shutil.which("cc") is None or not headers.is_dir():
        pytest.skip("no C compiler, or no NVTX headers beside nsys")
    folder = tmp_path_factory.mktemp("program")
    (folder / "steps.c").write_text(PROGRAM)
    compiler = ["cc", f"-I{headers}", "steps.c", "-o", "steps", "-ldl", "-lpthread"]
    subprocess.run(compiler, cwd=folder, check=True)
    return folder / "steps"


@pytest.fixture(scope="module")
def recorded(nsys: Path, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of the program."""
    folder = tmp_path_factory.mktemp("recorded")
    told = profile(nsys, folder, *QUIET, "--trace=osrt,nvtx", "--output=steps", program)
    assert told.returncode == 0, told.stdout + told.stderr
    return folder / "steps.nsys-rep"


def profile(nsys: Path, folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """Run `nsys profile`, which leaves what it keeps for itself in the folder, too, and no process."""
    words = [str(nsys), "profile", *map(str, command)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    for _ in range(3):
        told = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        end(folder)
        # On a busy machine it may give up its own agent.
        if "Local Endpoint is not available" not in told.stderr:
            break
    return told


def end(folder: Path) -> None:
    """Kill the processes whose temporary files are in the folder: nsys, its agent, the program."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        # One that has ended meanwhile, or is another user's, is none of them.
        with contextlib.suppress(OSError):
            if f"TMPDIR={folder}".encode() in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)


def stats(nsys: Path, report: Path, name: str) -> dict[str, tuple[int, int]]:
    """What a report of `nsys stats` says: name -> count and ns."""
    # It will not have an export of the same second.
    words = [nsys, "stats", "--quiet", "--force-export=true", f"--report={name}", "--format=csv", "--output=-", report]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    rows = csv.DictReader(line for line in said.splitlines() if "," in line)
    return {row[NAME[name]]: (int(row[COUNT[name]]), int(row["Total Time (ns)"])) for row in rows}


def drawn(prv: Path, number: int) -> dict[str, tuple[int, int]]:
    """What a trace holds of an event type: label -> count and ns."""
    length = pl.col("end") - pl.col("start")
    sums = nsys2prv.read_prv(prv).intervals(number).group_by("label").agg(n=pl.len(), ns=length.sum())
    return {label: (n, ns) for label, n, ns in sums.rows() if not label.startswith(OWN_MARK)}


def translated(given: Path | list[Path], folder: Path) -> Path:
    options = nsys2prv.RunOptions(every_thread=True)
    made = nsys2prv.translate(given, folder / "trace", options=options, execution=nsys2prv.Execution(jobs=1))
    assert made.prv is not None
    return made.prv


def test_a_trace_holds_what_nsys_stats_counts(nsys: Path, recorded: Path, tmp_path: Path) -> None:
    prv = translated(recorded, tmp_path)
    for name, number in SUMS.items():
        expected = stats(nsys, recorded, name)
        assert expected, name
        assert drawn(prv, number) == expected, name


def test_repeated_captures_are_one_task_with_what_both_hold(nsys: Path, program: Path, tmp_path: Path) -> None:
    twice = ("--capture-range=nvtx", "--nvtx-capture=step", "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0")
    options = ("--trace=osrt,nvtx", "--capture-range-end=repeat:2", "--output=steps")
    profile(nsys, tmp_path, *QUIET, *options, *twice, program)
    parts = sorted(tmp_path.glob("*.nsys-rep"))
    assert len(parts) == 2
    prv = translated(tmp_path, tmp_path)
    assert len(nsys2prv.read_prv(prv).names["TASK"]) == 1
    for name in ("osrt_sum", "nvtx_pushpop_sum"):
        one, other = (stats(nsys, part, name) for part in parts)
        both = {n: tuple(map(sum, zip(one.get(n, (0, 0)), other.get(n, (0, 0)), strict=True))) for n in one | other}
        assert both, name
        assert drawn(prv, SUMS[name]) == both, name


def test_a_time_limit_on_the_program_leaves_a_report(nsys: Path, tmp_path: Path) -> None:
    """As docs/recording.md advises."""
    profile(nsys, tmp_path, *QUIET, "--trace=osrt", "--output=limited", "timeout", "1", "sleep", "60")
    assert translated(tmp_path / "limited.nsys-rep", tmp_path).is_file()


def test_what_a_killed_nsys_leaves_is_told_of(nsys: Path, tmp_path: Path, cli: Command) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    words = [nsys, "profile", "--trace=osrt", "--output=killed", "sleep", "60"]
    running = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (left := list(tmp_path.glob("*.qdstrm"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    end(tmp_path)
    running.wait()
    assert left
    assert not list(tmp_path.glob("*.nsys-rep"))
    said = cli("translate", left[0], "-o", tmp_path / "trace")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"nsys2prv: {left[0]}: nsys was stopped")


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_a_report_that_was_cut_short_is_told_of(recorded: Path, kept: float, tmp_path: Path, cli: Command) -> None:
    data = recorded.read_bytes()
    short = tmp_path / "short.nsys-rep"
    short.write_bytes(data[: int(kept * len(data))])
    said = cli("translate", short, "-o", tmp_path / "trace")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"nsys2prv: {short}: nsys export failed (")
    assert "copy or record it again" in said.err
    assert left_in(tmp_path) == ["short.nsys-rep"]


def told_of_profile() -> set[str]:
    """Options, with their values, of `nsys profile` wherever the docs say how to record."""
    lines = re.findall(r"nsys profile (.+)$", "\n".join(FENCE.findall(PAGE)), re.MULTILINE)
    words = [word for line in lines for word in shlex.split(line)]
    words += re.findall(r"--\S+", " ".join(cfg.record for cfg in CFGS))
    table = PAGE.partition("| to see |")[2].partition("\n\n")[0]
    cells = [row.split("|")[2] for row in table.splitlines()[2:]]
    written = " ".join(found for cell in cells for found in re.findall(r"`([^`]+)`", cell))
    return {word for word in (*words, *shlex.split(written)) if word.startswith("--") and word != "--no-python"}


def test_options_that_the_docs_name_are_known_or_said_to_be_later(nsys: Path, tmp_path: Path) -> None:
    options = told_of_profile()
    assert len(options) > 20
    known = help_of(nsys, "profile")
    lacking = {option.partition("=")[0] for option in options} - known
    assert lacking <= LATER
    # GPUs are another matter, and so are ranges that never begin.
    for option in sorted(options):
        name = option.partition("=")[0]
        if name in known and "=" in option and not name.startswith(("--gpu", "--capture")):
            told = profile(nsys, tmp_path, option, "--output=accepted", "--force-overwrite=true", "true")
            assert "Illegal" not in told.stdout + told.stderr, option
            assert "usage: nsys" not in told.stdout + told.stderr, option


def test_options_of_an_export_that_the_docs_name_are_known_or_said_to_be_later(nsys: Path) -> None:
    (block,) = (b for b in FENCE.findall(PAGE) if "nsys export" in b)
    options = set(re.findall(r"--[\w-]+", block))
    types = set(re.findall(r"--type (\w+)", block))
    said = subprocess.run([nsys, "export", "--help"], capture_output=True, text=True, check=True).stdout
    lacking = (options - help_of(nsys, "export")) | {kind for kind in types if kind not in said}
    assert lacking <= LATER


def help_of(nsys: Path, command: str) -> set[str]:
    """Options that a command's help names."""
    said = subprocess.run([nsys, command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z][a-z-]+", said))
