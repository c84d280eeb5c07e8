"""Warnings and errors that a report holds about itself (DIAGNOSTIC_EVENT)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.words import SENTENCE_WIDTH, few, short
from nsys2prv.report.identity import Process
from nsys2prv.report.nvprof.database import SERIAL

# Begin of the diagnostic of an nsys that could not make sense of recorded events, and the message in the exception that
# it dumps there.
UNPROCESSED = "Error when processing events"
_EXCEPTION_MESSAGE = re.compile(r"tag_message\*\] = (.+)")
# DIAGNOSTIC_EVENT.severity of a warning and an error (ENUM_DIAGNOSTIC_SEVERITY_LEVEL; 1 is information).
WARNING = 2
# Beginnings of the warnings that nsys writes into every report.
ROUTINE = (
    "Not all NVTX events might have been collected.",
    "Not all CUDA events might have been collected.",
    "Not all OS runtime libraries events might have been collected.",
    "Scheduling information is absent. The thread activity is deduced",
)
# Warnings that a process has no events of a kind, and the information that one has some.
_WITHOUT = (
    re.compile(r"No (?P<kind>.+) events collected\. Does the process use"),
    re.compile(r"(?P<kind>.+) profiling might have not been started correctly"),
)
# Amounts, and versions, addresses and dates. Digits in words are no numbers.
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:-]\d+)*(?!\w)")
_AMOUNT = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# Words before a number that names a process or the like, and is no amount.
_NAMES_ONE = re.compile(
    r"(?:\b(?:thread|process|[pt]?id|rank|device|gpu|context|stream|core|node)\b\W*|\([^()\d]+ )$", re.IGNORECASE
)
_COLLECTED = re.compile(r"Number of (.+) events collected")
# Launchers, shells and loaders of data call the operating system alone.
_OF_EVERY_PROCESS = "OS runtime libraries"
ASIDE = "(of a process with OS calls at most, beside others that have such events)"


def diagnostic_texts(diagnostics: pl.DataFrame, processes: Sequence[Process]) -> list[str]:
    """Return warnings and errors, each once and on one line.

    `diagnostics`: severity, text and globalPid. A warning that processes lack events of a kind names them if others
    have such events; for those that only called the operating system it ends with ASIDE.
    """
    diagnostics = diagnostics.drop_nulls("text").with_columns(text=pl.col("text").str.strip_chars())
    collected = _collected(diagnostics)
    warnings = diagnostics.filter(pl.col("severity") >= WARNING).group_by("text", maintain_order=True)
    names = {p.global_pid: f"{p.name.rpartition('/')[2]} {p.pid}".strip() for p in processes}
    texts = (
        of_processes
        for text, pids in warnings.agg(pl.col("globalPid").unique(maintain_order=True)).rows()
        for of_processes in _by_process(_on_one_line(text), pids, collected, names)
    )
    return list(dict.fromkeys(texts))


def _collected(diagnostics: pl.DataFrame) -> dict[str, set[int]]:
    """Return the processes that have events, by their kind."""
    found: dict[str, set[int]] = {}
    information = diagnostics.filter(pl.col("severity") < WARNING).select("text", "globalPid")
    for text, pid in information.drop_nulls().rows():
        if kind := _COLLECTED.match(text):
            found.setdefault(kind[1], set()).add(pid)
    return found


def _by_process(
    text: str, pids: Sequence[int | None], collected: Mapping[str, set[int]], names: Mapping[int, str]
) -> Iterator[str]:
    """Yield a warning of missing events: as it stands if no process has such events.

    Else it comes once with the names of its processes that have more than OS calls, and once with ASIDE for the rest.
    """
    kind = next((found["kind"] for pattern in _WITHOUT if (found := pattern.match(text))), "")
    if not collected.get(kind) or None in pids:
        yield text
        return
    at_work = set().union(*(of_kind for other, of_kind in collected.items() if other != _OF_EVERY_PROCESS))
    if meant := [names.get(pid, str(pid_of(pid))) for pid in pids if pid in at_work and pid is not None]:
        yield f"{text} ({few(meant)})"
    if not at_work.issuperset(pids):
        yield f"{text} {ASIDE}"


def _on_one_line(text: str) -> str:
    """Return a diagnostic on one line. Of a dumped exception only the message is left."""
    message = _EXCEPTION_MESSAGE.search(text)
    return f"{UNPROCESSED}: {message[1].strip()}" if message and is_unprocessed(text) else " ".join(text.split())


def by_text(diagnostics: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, list[str]]]:
    """Yield each text of diagnostics with the reports that have it.

    Texts that differ in numbers alone, as of threads and what each lost, are one, with the range of each number.
    `diagnostics`: names of reports, and their texts.
    """
    texts: dict[str, dict[str, None]] = {}
    reports: dict[str, list[str]] = {}
    for report, of_report in diagnostics:
        for text in dict.fromkeys(of_report):
            form = _NUMBER.sub("#", text)
            texts.setdefault(form, {})[text] = None
            reports.setdefault(form, []).append(report)
    for form, alike in texts.items():
        more = f" ({len(alike)} that differ only in numbers)" if len(alike) > 1 else ""
        yield f"{short(_with_ranges([*alike]), SENTENCE_WIDTH)}{more}", list(dict.fromkeys(reports[form]))


def who_says(reports: int, of: int) -> str:
    """Return the subject of what some of all reports say, and the verb.

    `The report says`, `Both reports say`, `All 4 reports say`, `1 of 4 reports says`, `2 of 4 reports say`.
    """
    if reports < of:
        return f"{reports} of {of} reports say{'s' * (reports == 1)}"
    return "The report says" if of == 1 else "Both reports say" if of == 2 else f"All {of} reports say"


def _with_ranges(texts: Sequence[str]) -> str:
    """Return texts that differ in numbers alone as one: with the range of amounts, and a list of numbers that name one.

    Such as `Thread 7, 9, lost 4 to 96 records`.
    """
    between = _NUMBER.split(texts[0])
    joined = between[0]
    for before, after, values in zip(
        between, between[1:], zip(*map(_NUMBER.findall, texts), strict=True), strict=False
    ):
        amounts = all(map(_AMOUNT.fullmatch, values))
        ordered = sorted(set(values), key=(lambda value: float(value.replace(",", ""))) if amounts else None)
        named = len(ordered) == 1 or not amounts or _NAMES_ONE.search(before)
        joined += (few(ordered) if named else f"{ordered[0]} to {ordered[-1]}") + after
    return joined


def is_unprocessed(text: str) -> bool:
    """Return True for an error of nsys when it processed recorded events, which is a defect of the report."""
    return text.startswith(UNPROCESSED)


def is_routine(text: str) -> bool:
    """Return True for a warning that every report has, or that other processes of the report refute."""
    return text.startswith(ROUTINE) or text.endswith(ASIDE)


def is_serial(text: str) -> bool:
    """Return True for the remark of a report whose kernels a profiler of counters ran one after the other."""
    return text.endswith(SERIAL)
