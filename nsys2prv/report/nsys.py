"""`.nsys-rep` files, exported to SQLite by an installed `nsys`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from nsys2prv.errors import ReportError

# Options that newer versions know and whose absence would lose data; an old version fails when given one.
WANTED = ("--include-json=true", "--include-blobs=true", "--lazy=true")


def find_nsys(given: Path | None) -> Path | None:
    """The `nsys` to use: the given one, NSYS_HOME's (also its bin/ and target folder), or the one on PATH."""
    if given is not None:
        return given / "nsys" if given.is_dir() else given
    if home := os.environ.get("NSYS_HOME"):
        folders = [Path(home), Path(home, "bin"), *sorted(Path(home).glob("target-linux-*"))]
        if found := next((f / "nsys" for f in folders if (f / "nsys").is_file()), None):
            return found
    on_path = shutil.which("nsys")
    return Path(on_path) if on_path else None


@lru_cache
def export_options(nsys: Path) -> tuple[str, ...]:
    """Those of the wanted options that this version's `nsys export --help` names."""
    text = subprocess.run([nsys, "export", "--help"], capture_output=True, text=True, check=False).stdout
    known = set(re.findall(r"--[a-z-]+", text))
    return tuple(option for option in WANTED if option.split("=")[0] in known)


def export_of(report: Path) -> Path | None:
    """The export beside a `.nsys-rep` that is not older than it, SQLite first; None when there is none."""
    beside = [report.with_suffix(".sqlite"), *(report.with_name(report.stem + s) for s in ("_pqtdir", "_arwdir"))]
    return next((f for f in beside if f.exists() and f.stat().st_mtime >= report.stat().st_mtime), None)


def export(report: Path, nsys: Path | None) -> Path:
    """Export a report to SQLite beside it and return the export. Raises ReportError."""
    if ready := export_of(report):
        return ready
    if nsys is None or not nsys.is_file():
        advice = (
            "install Nsight Systems and put `nsys` on PATH (or use --nsys, NSYS_HOME), or export it to SQLite first"
        )
        raise ReportError(report, "needs `nsys` to be exported, and none was found", advice)
    output = report.with_suffix(".sqlite")
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial.sqlite")
    command: list[Path | str] = [
        nsys,
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={partial}",
        *export_options(nsys),
    ]
    try:
        run = subprocess.run([*command, report], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if run.returncode or not partial.is_file():
            said = (run.stderr or run.stdout).strip().splitlines()
            cause = said[-1] if said else f"exit code {run.returncode}"
            advice = f"try it by hand: nsys export --type sqlite '{report}'; a newer nsys reads older reports"
            raise ReportError(report, f"nsys export failed ({cause})", advice)
        partial.replace(output)
    except OSError as error:
        raise ReportError(
            report, f"nsys export could not run ({error.strerror})", "check the path given as nsys"
        ) from None
    finally:
        partial.unlink(missing_ok=True)
    return output
