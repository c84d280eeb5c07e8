"""The summary that closes a translation, as text."""

from __future__ import annotations

from collections.abc import Mapping

from nsys2prv.commands.translation import Translation
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.selection import default_families
from nsys2prv.model.units import bytes_text
from nsys2prv.model.words import few
from nsys2prv.report.diagnostics import by_text, is_routine, is_unprocessed


def summary_text(result: Translation, details: bool = False) -> str:
    """Summarize a translation: the trace, defects, counts by family, rows dropped and why, diagnostics, use, times.

    `details`: with the warnings that nsys writes into every report.
    """
    lines = [_head(result), *_defects(result), ""]
    for family in FAMILIES:
        if rows := result.rows.get(family.name, 0):
            size = f", about {bytes_text(result.forecast.get(family.name, 0))}" if result.prv is None else ""
            lines.append(f"  {rows:>12,}  {family.name:<16} {family.title}{size}")
        lines += [
            f"  {n:>12,}  {family.name:<16} left out: {why}" for why, n in result.dropped.get(family.name, {}).items()
        ]
    lines += [f"  {n:>12,}  {family:<16} messages between ranks" for family, n in sorted(result.messages.items())]
    lines += [*_without_rows(result), *_off(result)]
    lines += [f"warning: {w}" for w in result.warnings]
    lines += _diagnostics(result, details)
    lines += [f"left out: {reason}" for reason in result.failed]
    if result.removed is not None:
        lines.append(_removed(result.removed))
    low, high = result.window_ns
    counts = f", of which {result.window_total_ns / 1e9:.6f} s count" if result.window_total_ns != high - low else ""
    lines += ["", f"Window of interest: {low} to {high} ns{counts}", *_begin(result), _forecast(result)]
    lines.append(_used(result))
    stages = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in result.seconds.items())
    return "\n".join([*lines, f"Took {sum(result.seconds.values()):.2f} s ({stages})."])


def _off(result: Translation) -> list[str]:
    """List the families that the reports hold but that were not chosen, each with the option that adds it."""
    families = [f for f in FAMILIES if f.name in result.off]
    off = [f"  {result.off[f.name]:>12,}  {f.name:<16} {f.title} (--also {f.name})" for f in families]
    return ["", "Not translated, by rows in the reports and the option that brings them:", *off] if off else []


def _without_rows(result: Translation) -> list[str]:
    """Name the families that are off by default, were chosen, and have no rows in the reports."""
    default = default_families()
    empty = [f.name for f in FAMILIES if result.rows.get(f.name) == 0 and not result.dropped.get(f.name)]
    names = [name for name in empty if name not in default]
    return ["", f"Chosen, but without rows in the reports: {', '.join(names)}"] if names else []


def _begin(result: Translation) -> list[str]:
    """Say how to find the times of findings, which count from the begin of the run, in a trace of a part of it."""
    if not result.begin_ns:
        return []
    ms = f"{result.begin_ns / 1e6:.3f} ms"
    return [f"Time 0 of this trace is {ms} of the run: subtract that from times that `analyze` prints."]


def _removed(removed: Mapping[str, int]) -> str:
    counted = ", ".join(f"{n} {what}" for what, n in sorted(removed.items()))
    return (
        f"Removed for sharing: {counted or 'nothing, since nothing was found'}. Look through the labels yourself, too."
    )


def _head(result: Translation) -> str:
    reports, tasks, nodes = (
        f"{count} {what}{'s' * (count != 1)}"
        for count, what in ((result.reports, "report"), (result.tasks, "task"), (result.nodes, "node"))
    )
    of = f"{reports}, {tasks} on {nodes}, {result.duration_ns / 1e9:.6f} s"
    if result.prv is None:
        # The sizes of families are those of text.
        plain = f", {bytes_text(result.text_size)} before compression" if result.size != result.text_size else ""
        return f"Would write {of}: about {bytes_text(result.size)}{plain}."
    return f"Wrote {result.prv} (.pcf, .row): {of}, {result.lines:,} lines, {bytes_text(result.size)}."


def _defects(result: Translation) -> list[str]:
    """List the defects of the reports, the worst first, with their effects on figures."""
    lines = [f"  {defect.sentence} [{few(list(defect.reports))}]" for defect in result.defects]
    return ["", "Wrong or missing in the reports, the worst first:", *lines] if lines else []


def _diagnostics(result: Translation, details: bool) -> list[str]:
    """List the diagnostics of the reports that are no defect, each text once with the reports that have it.

    `details`: also the ones that nsys writes into every report.
    """
    shown = (
        (name, [t for t in texts if not is_unprocessed(t) and (details or not is_routine(t))])
        for name, texts in result.losses.items()
    )
    lines = [f"  {text} [{few(names)}]" for text, names in by_text(shown)]
    return ["", "The reports say of themselves:", *lines] if lines else []


def _used(result: Translation) -> str:
    """Return the disk and memory used, and the expected size; a dry run knows the use for reading only."""
    files, memory = bytes_text(result.used.temporary), bytes_text(result.used.memory)
    if result.prv is None:
        return f"Reading took {files} of temporary files and at most {memory} of memory; so will the translation."
    expected = bytes_text(result.expected_size)
    return f"Used {files} of temporary files and at most {memory} of memory; about {expected} of trace were expected."


def _forecast(result: Translation) -> str:
    return f"Paraver needs about {result.load_seconds:.0f} s and {bytes_text(result.load_bytes)} of memory to load it."
