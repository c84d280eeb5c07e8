"""Checks of this machine: needed and useful programs and resources, with a next step for missing ones."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from nsys2prv.model.units import bytes_text
from nsys2prv.model.version import VERSION
from nsys2prv.paraver.cfg import CFGS, FOLDER
from nsys2prv.paraver.cfg.install import CfgFolder, installed, of_paraver, of_user
from nsys2prv.pipeline.workers.memory import group_left, machine_free
from nsys2prv.report.nsys import find_nsys

CheckState = Literal["ok", "missing", "low", "broken"]

# A requirement of our metadata: name, lowest version, the extra that it belongs to.
REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,]+\])?\s*>=\s*([\d.]+)(?:.*extra == ['\"](\w+)['\"])?")
# The extras of use to all, and what for.
OPTIONAL = {
    "cluster": "--dask",
    "nvprof": "the names of kernels in files of nvprof",
    "postgres": "--db with PostgreSQL",
}
# Of a package that a part of its extra's use needs.
NEEDED_BY = {"dask-jobqueue": "--dask slurm"}
ANSWER_SECONDS = 30
# Below these a small run already fails.
ENOUGH_MEMORY = ENOUGH_DISK = 2**30


class Check(NamedTuple):
    """The result of one check. `missing` and `low` limit what can be done; with `broken` nothing works."""

    name: str
    state: CheckState
    found: str
    next_step: str = ""


def doctor(nsys: Path | None = None) -> list[Check]:
    """Run every check, in order of importance. `nsys`: the program to check, as for `translate`."""
    return [
        *_python(),
        _nsys(nsys),
        _paraver(),
        _cfgs(),
        Check("cores", "ok", str(len(os.sched_getaffinity(0)))),
        _memory(),
        _disk("disk, current folder", Path.cwd(), "write traces elsewhere (-o), or make room"),
        _disk("disk, temporary folder", Path(tempfile.gettempdir()), "set TMPDIR to a larger one, or make room"),
    ]


def _python() -> Iterator[Check]:
    yield Check("nsys2prv", "ok", f"{VERSION} in {Path(__file__).parents[1]}")
    yield Check("Python", "ok", f"{platform.python_version()}, {sys.executable}")
    for match in map(REQUIREMENT.match, requires("nsys2prv") or []):
        if match and match[3] in (None, *OPTIONAL):
            yield _package(match[1], match[2], match[3])


def _package(name: str, lowest: str, extra: str | None) -> Check:
    """Check that a package is installed, new enough, and loads on this processor and system."""
    failed: CheckState = "missing" if extra else "broken"
    wanted = f".[{extra}]" if extra else f"{name}>={lowest}"
    step = f"pip install '{wanted}'"
    if extra:
        step += f" in the clone, needed for {NEEDED_BY.get(name, OPTIONAL[extra])}"
    try:
        there = version(name)
        importlib.import_module(name.replace("-", "_"))
    except PackageNotFoundError:
        return Check(name, failed, "not installed", step)
    except Exception as error:
        # A compiled package may raise any error on a system that it was not built for.
        cause = " ".join(str(error).split())
        return Check(name, failed, f"{there} does not load ({cause})", f"pip install --force-reinstall '{wanted}'")
    if _numbers(there) < _numbers(lowest):
        return Check(name, failed, f"{there} is older than {lowest}", step)
    return Check(name, "ok", there)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


def _nsys(given: Path | None) -> Check:
    """Check that nsys runs, which only `.nsys-rep` files need."""
    found = find_nsys(given)
    if found is None:
        step = "install Nsight Systems and set NSYS_HOME or PATH, if you have .nsys-rep files; exports do without"
        return Check("nsys", "missing", "not found", step)
    try:
        about, formats = (_output(found, *words) for words in (("--version",), ("export", "--help")))
    except (OSError, subprocess.SubprocessError) as error:
        cause = error.strerror if isinstance(error, OSError) else f"no answer in {ANSWER_SECONDS} s"
        step = "give the nsys of an installation by --nsys, NSYS_HOME or PATH"
        return Check("nsys", "missing", f"{found} does not run ({cause})", step)
    number = re.search(r"\d{4}\.[\w.-]+", about)
    parquet = "exports Parquet" if "parquetdir" in formats else "exports SQLite, not Parquet"
    return Check("nsys", "ok", f"{number[0] if number else 'of unknown version'}, {found}, {parquet}")


def _output(program: Path, *words: str) -> str:
    """Return what a program prints in answer to some words. Raises OSError, SubprocessError."""
    done = subprocess.run(
        [program, *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=ANSWER_SECONDS,
    )
    return done.stdout + done.stderr


def _paraver() -> Check:
    home = os.environ.get("PARAVER_HOME")
    found = shutil.which("wxparaver", path=f"{home}/bin" if home else None)
    if found:
        return Check("Paraver", "ok", found)
    where = f"no bin/wxparaver in PARAVER_HOME={home}" if home else "not found"
    step = "install it from https://tools.bsc.es/paraver and set PARAVER_HOME or PATH, to look at traces"
    return Check("Paraver", "missing", where, step)


def _cfgs() -> Check:
    places: list[CfgFolder] = [of_user(), *filter(None, [of_paraver()])]
    states = {place.folder: installed(FOLDER, place) for place in places}
    if current := [folder for folder, state in states.items() if state == "current"]:
        return Check("cfgs in Paraver", "ok", f"{len(CFGS)} in {current[0]}")
    old = [folder for folder, state in states.items() if state == "stale"]
    found = f"those of another version in {old[0]}" if old else "not installed"
    return Check("cfgs in Paraver", "missing", found, "nsys2prv cfgs --install offers them in its Hints menu")


def _memory() -> Check:
    free, left = machine_free(), group_left()
    if left is not None and left < free:
        return _amount("memory", left, ENOUGH_MEMORY, "left to this job or container", "ask for more, or use --jobs 1")
    return _amount("memory", free, ENOUGH_MEMORY, "available", "end other programs, or use --jobs 1")


def _disk(name: str, folder: Path, step: str) -> Check:
    return _amount(name, shutil.disk_usage(folder).free, ENOUGH_DISK, f"free in {folder}", step)


def _amount(name: str, size: int, enough: int, what: str, step: str) -> Check:
    text = f"{bytes_text(size)} {what}"
    return Check(name, "ok", text) if size >= enough else Check(name, "low", text, step)
