"""The runs under a folder: groups of reports, and the name of each group's trace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from nsys2prv.errors import UsageError
from nsys2prv.model.words import few
from nsys2prv.report.discover import reports_below, without_ending

# Fields in which the reports of one run differ; all others name the run.
WITHIN_A_RUN = {"rank": r"\d+", "local": r"\d+", "pid": r"\d+", "node": ".+", "host": ".+", "any": ".*"}
_FIELD = re.compile(r"%([A-Za-z]+)")


class RunReports(NamedTuple):
    """Reports that make one trace, in all their forms. `name`: path of the trace in the output folder, no ending."""

    name: str
    reports: tuple[Path, ...]


def find_runs(root: Path, group: str | None = None) -> tuple[list[RunReports], list[Path]]:
    """Find the runs under a folder in order of name, and the reports that the pattern does not match.

    Without a pattern a folder with reports directly in it is a run. Raises UsageError.
    """
    if root.is_file():
        raise UsageError(f"{root}: this is a file; give the folder that holds the runs")
    if not root.is_dir():
        raise UsageError(f"{root}: there is no such folder; give the one that holds the runs")
    try:
        reports = reports_below(root)
    except OSError as error:
        raise UsageError(
            f"{error.filename}: the folder cannot be read ({error.strerror}); check its permissions"
        ) from None
    keys = _by_folder(root, reports) if group is None else _by_name(group, reports)
    found: dict[tuple[str, ...], list[Path]] = {}
    strangers: list[Path] = []
    for report, key in zip(reports, keys, strict=True):
        if key is None:
            strangers.append(report)
        else:
            found.setdefault(key, []).append(report)
    if not found:
        names = few([report.name for report in strangers])
        said = f"no report has a name like {group}, only {names}" if strangers else "no reports in this folder"
        raise UsageError(f"{root}: {said}; `nsys2prv batch --help` explains what a run is")
    return _named(root, found, "/" if group is None else "_"), strangers


def _named(root: Path, found: Mapping[tuple[str, ...], Iterable[Path]], between: str) -> list[RunReports]:
    """Return runs in order of name, given the reports of each by the parts of its name.

    Raises UsageError where two runs would have one name.
    """
    named: dict[str, RunReports] = {}
    for key, own in found.items():
        run = RunReports(between.join(key) or root.resolve().name or "root", tuple(sorted(own)))
        if (other := named.setdefault(run.name, run)) is not run:
            raise UsageError(
                f"{root}: the traces of {other.reports[0]} and of {run.reports[0]}, which are of two runs, would both "
                f"be called {run.name}; rename one, or give another --group"
            )
    return [named[name] for name in sorted(named)]


def _by_folder(root: Path, reports: Iterable[Path]) -> list[tuple[str, ...] | None]:
    """Return the folder of each report relative to the root: empty for the root itself."""
    return [report.parent.relative_to(root).parts for report in reports]


def _by_name(group: str, reports: Iterable[Path]) -> list[tuple[str, ...] | None]:
    """Return the fields of each report's name that name the run; None where the pattern does not match."""
    pattern, fields = _pattern(group)
    matches: list[Mapping[str, str] | None] = []
    for report in reports:
        match = pattern.fullmatch(without_ending(report).name)
        matches.append(match.groupdict() if match else None)
    return [None if m is None else tuple(m[f] for f in fields) for m in matches]


def _pattern(group: str) -> tuple[re.Pattern[str], list[str]]:
    """Return the regular expression of a name, and the fields that name the run. Raises UsageError."""
    words = _FIELD.split(group)
    fields = list(dict.fromkeys(w for w in words[1::2] if w not in WITHIN_A_RUN))
    if not fields:
        within = ", ".join(f"%{w}" for w in WITHIN_A_RUN)
        raise UsageError(f"--group {group}: no field names the run; give one beside {within}, such as %job_%node_%rank")
    text, seen = "", set()
    for number, word in enumerate(words):
        if number % 2 == 0:
            text += re.escape(word)
        elif word in seen:
            text += f"(?P={word})"
        else:
            seen.add(word)
            text += f"(?P<{word}>{WITHIN_A_RUN.get(word, '.+')})"
    return re.compile(text), fields
