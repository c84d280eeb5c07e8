"""Find the reports of one run from the files and folders that the user named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nsys2prv.errors import ReportError
from nsys2prv.model.words import are_similar, did_you_mean
from nsys2prv.report import nsys as nsys_tool
from nsys2prv.report.columnar import is_columnar
from nsys2prv.report.nvprof import database as nvprof

ADVICE_INPUT = "give .sqlite, .nsys-rep, .nvprof or .nvvp files, parquetdir/arrowdir exports, or folders that hold them"
FILES = (".sqlite", *nsys_tool.RAW, nsys_tool.UNFINISHED, *nvprof.ENDINGS)


def find_reports(
    inputs: Iterable[Path | str] | Path | str, nsys: Path | None = None, failed: list[ReportError] | None = None
) -> list[Path]:
    """Return exports to read, each once, in the order of their paths.

    `inputs`: files and folders, or one of them; a folder means every report below it. A `.nsys-rep` stands for the
    export beside it, or is exported now, several at a time. The exports of one report in several formats count once
    (SQLite first, then Parquet, then Arrow). A recording without a report is among them, so that it gets an error
    message. Raises ReportError, also for a report that cannot be exported. With `failed` these errors go there, as long
    as other reports are left.
    """
    forms: dict[Path, list[Path]] = {}
    for path in (path for item in listed(inputs) for path in _expand(item)):
        # A file of nvprof is no form of a report of nsys that is called the same.
        forms.setdefault(path if path.suffix in nvprof.ENDINGS else without_ending(path), []).append(path)
    given = _once(min(paths, key=_preference) for paths in forms.values())
    raw = [path for path in given if path.suffix in nsys_tool.RAW]
    exports = nsys_tool.export_all(raw, nsys_tool.find_nsys(nsys), failed)
    lost = set(raw) - set(exports)
    reports = _once(exports.get(path, path) for path in given if path not in lost)
    if failed and not reports:
        raise failed[0]
    return sorted(reports)


def _once(paths: Iterable[Path]) -> list[Path]:
    """Return each file or folder once: a link and its target are one report, under the name of the target."""
    once: dict[Path, Path] = {}
    for path in sorted(paths, key=lambda p: (p.is_symlink(), p)):
        once.setdefault(path.resolve(), path)
    return list(once.values())


def listed(inputs: Iterable[Path | str] | Path | str) -> list[Path]:
    """Return the files and folders that the user named."""
    return [Path(inputs)] if isinstance(inputs, str | Path) else [Path(item) for item in inputs]


def is_folder_of_reports(item: Path) -> bool:
    """Return True for a folder that is not itself a report."""
    return item.is_dir() and not is_columnar(item)


def _expand(item: Path) -> list[Path]:
    """Return the reports that an input of the user stands for. Raises ReportError."""
    try:
        if not item.exists():
            raise ReportError(item, f"there is no such file or folder{_similar(item)}", ADVICE_INPUT)
        if not is_folder_of_reports(item):
            return [item]
        reports = reports_below(item)
    except OSError as error:
        raise ReportError(item, f"cannot be read ({error.strerror})", "check its name and permissions") from None
    if not reports:
        raise ReportError(item, "no reports in this folder", ADVICE_INPUT)
    return reports


def _similar(item: Path) -> str:
    """Ask if a file beside a missing one was meant; empty where its folder cannot be read."""
    try:
        # Endings are alike in all names: they make no two names similar.
        near = [path.name for path in item.parent.iterdir() if are_similar(path.stem, item.stem)]
        return did_you_mean(item.name, near)
    except OSError:
        return ""


def reports_below(folder: Path) -> list[Path]:
    """Return every report in a folder and below, in all its forms; folders whose name begins with a dot excepted.

    Links may lead in circles: each folder counts once, under its own name if it lies below, else under that of a link.
    """
    reports: list[Path] = []
    seen: set[Path] = set()
    folders, links = [folder], list[Path]()
    while folders or links:
        current = folders.pop() if folders else links.pop()
        if (real := current.resolve()) in seen:
            continue
        seen.add(real)
        for entry in sorted(current.iterdir(), reverse=True):
            if entry.name.startswith("."):
                continue
            if not entry.is_dir():
                reports += [entry] if entry.suffix in FILES else []
            elif is_columnar(entry):
                reports.append(entry)
            else:
                (links if entry.is_symlink() else folders).append(entry)
    return sorted(reports)


def _preference(path: Path) -> tuple[int, Path]:
    """Return the place of a form among those of one report. Only a report knows which of its exports is up to date."""
    folders = 3 if path.name.endswith("_arwdir") else 2
    order = {**dict.fromkeys(nsys_tool.RAW, 0), ".sqlite": 1, nsys_tool.UNFINISHED: 4}
    return order.get(path.suffix, folders), path


def without_ending(path: Path) -> Path:
    """Return the path of a report without its format's ending, which all its forms share."""
    ending = next((e for e in (*FILES, "_pqtdir", "_arwdir") if path.name.endswith(e)), "")
    return path.parent.resolve() / path.name.removesuffix(ending)
