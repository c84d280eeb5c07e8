"""The runs that tests translate, and the command line as a user sees it."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import drawn
import oracle
import polars as pl
import pytest

import nsys2prv

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_reports"
SHARED = ROOT.parent / "shared"
REPORTS = SHARED / "reports"

# Name of each run -> its reports, from the samples where these have it.
FOLDERS = ("gpt-ddp", "mpi-halo", "mesh-tp-pp", "mpi-cpu")
SINGLE = ("saxpy", "graph-node", "openmp", "graph-graph", "unified-memory", "threads-cpu-sampling")
FREQUENCIES = ("gpt-1gpu-10000Hz", "gpt-1gpu-50000Hz", "gpt-1gpu-200000Hz")
# Shared runs that are packed, each with results of NVIDIA's recipes in a folder `oracle`.
ARCHIVES = ("fsdp", "straggler", "pipe")
# Runs of tests/data/losses.tar.xz, of two ranks each.
CAPTURED = (
    "data-loader",
    "experts",
    "late-graphs",
    "checkpoint",
    "batches-72-56",
    "batches-96-32",
    "interpreter-lock",
    "late-in-turns",
    "shared-gpu",
)
SAMPLED = ("gpt-ddp", "mpi-halo", "saxpy", "graph-node", "openmp")


def reports_of(run: str) -> list[Path]:
    """The reports of a run; the test is skipped where they are not there."""
    if run in ARCHIVES or run in CAPTURED:
        return sorted(unpacked(run).glob("*.sqlite"))
    base = SAMPLES if run in SAMPLED else REPORTS
    found = sorted(base.glob(f"{run}/*.sqlite" if run in FOLDERS else f"*/{run}.sqlite"))
    if not found:
        pytest.skip(f"no reports of {run}")
    return found


@cache
def unpacked(run: str) -> Path:
    """The folder of a packed run, unpacked once a process; the test is skipped where the archive is not there."""
    archive = ROOT / "tests" / "data" / "losses.tar.xz" if run in CAPTURED else REPORTS / f"{run}.tar.xz"
    if not archive.exists():
        pytest.skip(f"no archive of {run}")
    folder = _archives()
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / run


@cache
def _archives() -> Path:
    """A folder that is removed when the tests end."""
    made = tempfile.TemporaryDirectory(prefix="runs-")
    atexit.register(made.cleanup)
    return Path(made.name)


def parameters(*names: str) -> list[Any]:
    """Parameters: these runs, those of the shared reports marked so."""
    return [name if name in SAMPLED else pytest.param(name, marks=pytest.mark.shared) for name in names]


ALL_RUNS = parameters(*FOLDERS, *SINGLE, *FREQUENCIES)


@dataclass(frozen=True)
class Translated:
    """A run's trace: what was said of it, and its records."""

    reports: list[Path]
    result: nsys2prv.Translation

    @property
    def prv(self) -> Path:
        assert self.result.prv is not None
        return self.result.prv

    @cached_property
    def trace(self) -> nsys2prv.Trace:
        return nsys2prv.read_prv(self.prv)

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """What is drawn (oracle.DRAWN, without NVTX names told apart from others'), trace time."""
        return drawn.intervals(self.trace)

    @cached_property
    def truth(self) -> pl.DataFrame:
        """What SQL says should be drawn, UTC."""
        return pl.concat(oracle.intervals(report) for report in self.reports)


class Runs:
    """Translations by run, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, Translated] = {}

    def default(self, run: str) -> Translated:
        """As the command line translates it without options."""
        return self._once(run, "default")

    def whole(self, run: str) -> Translated:
        """Every thread has a row, and clocks are as the reports say: everything in SQL is in the trace."""
        return self._once(run, "whole", options=nsys2prv.RunOptions(align="utc", every_thread=True))

    def alone(self, report: Path) -> Translated:
        """As `whole`, one report by itself."""
        options = nsys2prv.RunOptions(align="utc", every_thread=True)
        return self._once(report.stem, "alone", [report], options=options)

    def _once(self, name: str, kind: str, reports: list[Path] | None = None, **how: Any) -> Translated:
        key = f"{name}.{kind}"
        if key not in self._made:
            reports = reports or reports_of(name)
            self._made[key] = Translated(
                reports, nsys2prv.translate(reports, self.folder / key, execution=nsys2prv.Execution(jobs=1), **how)
            )
        return self._made[key]


@dataclass(frozen=True)
class Said:
    """What a command left: exit code, standard files, standard error."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]

# A process of its own, which finds the package where these tests do.
COMMAND = [sys.executable, "-c", "from nsys2prv.cli.script import script; script()"]
# The same, but no trace takes its place before a file `go` is beside it: until then it is in mid-run, however late one
# looks.
HELD = [sys.executable, "-c", """
import time
from nsys2prv.cli.script import script
from nsys2prv.pipeline.write import files

publish = files.publish

def held(target, *given, **more):
    while not target.stem.with_name("go").exists():
        time.sleep(0.01)
    publish(target, *given, **more)

files.publish = held
script()
"""]  # fmt: skip


def in_process(*arguments: object, **how: Any) -> Said:
    """Run the command line in a process of its own."""
    # One whose files may not grow would leave half of the bytecode of what it is the first to import.
    how["env"] = {**(how.get("env") or os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **how)
    return Said(done.returncode, done.stdout, done.stderr)


def records(prv: Path) -> bytes:
    """A trace without the comments at its end: those name the inputs and the options, which may differ."""
    head, newline, comments = prv.read_bytes().partition(b"\n# nsys2prv ")
    assert all(line.startswith(b"#") for line in comments.splitlines()[1:])
    return head + newline[:1]


def left_in(folder: Path) -> list[str]:
    """Names of all that a folder holds, hidden or not."""
    return sorted(entry.name for entry in folder.iterdir())
