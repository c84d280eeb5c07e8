"""`.nsys-rep` files, exported by an installed `nsys`: to Parquet, which is read fastest, or to SQLite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

from nsys2prv.errors import ReportError
from nsys2prv.model.whole_file import partial_path
from nsys2prv.report.installed import find_installed
from nsys2prv.report.schema import CAPTURE

# Options that newer versions know and whose absence would lose data; an old version fails when given one.
WANTED = ("--include-json=true", "--include-blobs=true", "--lazy=true")
# Endings of reports, which need an export. The second one was used until 2021.
RAW = (".nsys-rep", ".qdrep")
# Ending of a recording without a report: nsys was killed, or the disk was full.
UNFINISHED = ".qdstrm"
# In an export: session, environment and command of the recording. Parquet of nsys 2023.4 lacks it, SQLite has it. So do
# folders that nsys' recipes leave: they have the few tables that each recipe reads.
CAPTURE_FILES = (f"{CAPTURE.name}.parquet", f"{CAPTURE.name}.arrow")
# Message of `nsys export` for a report of a newer version.
TOO_OLD = re.compile(r"created in Nsight Systems version \(([^)]+)\),\s+newer than your current version \(([^)]+)\)")
# Type of an export -> ending of its name.
ENDINGS = {"parquetdir": "_pqtdir", "sqlite": ".sqlite"}


def find_nsys(given: Path | None) -> Path | None:
    """Return the `nsys` to use: the given file, the one in the given folder, or the installed one; None without any."""
    if given is not None:
        # A name without a folder would be looked for on PATH when it is run.
        return (given / "nsys" if given.is_dir() else given).absolute()
    return find_installed("nsys")


@lru_cache
def _help(nsys: Path) -> str:
    return _export(nsys, "--help").stdout


def _export(nsys: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `nsys export`. It repeats paths as they are, which need not be UTF-8."""
    command: list[str | Path] = [nsys, "export", *words]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )


def export_options(nsys: Path) -> tuple[str, ...]:
    """Return the wanted options that this version's `nsys export --help` names."""
    known = set(re.findall(r"--[a-z-]+", _help(nsys)))
    return tuple(option for option in WANTED if option.split("=")[0] in known)


def export_types(nsys: Path) -> tuple[str, ...]:
    """Return types to export to, best first: those of ENDINGS that this version's help names."""
    return tuple(kind for kind in ENDINGS if kind in _help(nsys)) or ("sqlite",)


def export_of(report: Path) -> Path | None:
    """Return a complete export beside a `.nsys-rep`, SQLite first, that is not older; None without one."""
    return next((f for f in _beside(report) if _is_whole(f) and f.stat().st_mtime >= report.stat().st_mtime), None)


def _is_whole(export: Path) -> bool:
    """Return True if an export has the identity of the report: else it may hold only some tables."""
    return not export.is_dir() or any((export / name).exists() for name in CAPTURE_FILES)


def _beside(report: Path) -> list[Path]:
    """Return the exports that lie beside a report, of whatever age."""
    forms = [report.with_suffix(".sqlite"), *(report.with_name(report.stem + s) for s in ("_pqtdir", "_arwdir"))]
    return [form for form in forms if form.exists()]


def export_all(reports: Sequence[Path], nsys: Path | None, failed: list[ReportError] | None) -> dict[Path, Path]:
    """Return the export of each report: one that lies beside it, or made now, a core each.

    Raises ReportError if an export fails. With `failed` the error goes there instead.
    """
    attempt = partial(export if failed is None else _try_export, nsys=nsys)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            tried = dict(zip(reports, pool.map(attempt, reports), strict=True))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if failed is not None:
        failed += [error for error in tried.values() if isinstance(error, ReportError)]
    return {report: made for report, made in tried.items() if isinstance(made, Path)}


def _try_export(report: Path, nsys: Path | None) -> Path | ReportError:
    """Export a report, or return the reason why not."""
    try:
        return export(report, nsys)
    except ReportError as error:
        return error


def export(report: Path, nsys: Path | None) -> Path:
    """Export a report beside it and return the export. Raises ReportError."""
    if ready := export_of(report):
        return ready
    if nsys is None or not nsys.is_file():
        where = f" at {nsys}" if nsys else ""
        install = "install Nsight Systems and put `nsys` on PATH (or use --nsys, NSYS_HOME), or "
        if found := _beside(report):
            name = found[0].name
            state = f"is newer than {name} beside it" if _is_whole(found[0]) else f"{name} beside it may lack tables"
            cause = f"{state}, and no `nsys` was found{where} to export it again"
            raise ReportError(report, cause, f"{install}give {found[0]} itself if it is all of this report")
        raise ReportError(
            report, f"needs `nsys` to be exported, and none was found{where}", f"{install}export it to SQLite first"
        )
    try:
        return _exported(report, nsys)
    except OSError as error:
        raise ReportError(
            report, f"nsys export could not run ({error.strerror})", f"check {nsys}, which was found as nsys"
        ) from None


def _exported(report: Path, nsys: Path) -> Path:
    """Export a report in the first form that says who recorded it. Raises ReportError, OSError."""
    for kind in export_types(nsys):
        output = report.with_name(report.stem + ENDINGS[kind])
        beside = partial_path(output, ENDINGS[kind])
        try:
            _run(nsys, kind, report, beside)
            if not _is_whole(beside):
                continue
            _remove(output)
            beside.replace(output)
        finally:
            _remove(beside)
        return output
    raise ReportError(report, "nsys exports it without saying who recorded it", "export it to SQLite by hand")


def _run(nsys: Path, kind: str, report: Path, output: Path) -> None:
    """Run `nsys export` for a report. Raises ReportError with what nsys said."""
    options = (f"--type={kind}", "--force-overwrite=true", f"--output={output}", *export_options(nsys))
    run = _export(nsys, *options, report)
    if run.returncode or not output.exists():
        text = run.stderr or run.stdout
        if versions := TOO_OLD.search(text):
            needed, own = versions.groups()
            advice = f"install nsys {needed} or later and name it by --nsys, or export the report where it was recorded"
            raise ReportError(report, f"nsys {needed} recorded it, and {nsys} is {own}, which is older", advice)
        said = text.strip().splitlines()
        cause = said[-1] if said else f"exit code {run.returncode}"
        by_hand = f"try it by hand: nsys export --type {kind} '{report}'"
        advice = f"{by_hand}; if it was cut short, copy or record it again; a newer nsys reads older reports"
        raise ReportError(report, f"nsys export failed ({cause})", advice)


def _remove(export: Path) -> None:
    """Remove an export (a file or a folder) that a new one replaces."""
    if export.is_dir():
        shutil.rmtree(export)
    else:
        export.unlink(missing_ok=True)
