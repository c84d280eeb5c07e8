"""Comment lines that close a trace: its inputs, its options, its losses, and the diagnostics of the reports.

The same inputs and options give the same lines: reports go by their names, in the order of the lines' own text, and
there is no date and no path. Paraver passes over lines that begin with `#`, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nsys2prv.errors import ReportError
from nsys2prv.families.selection import Selection
from nsys2prv.model.option import spelled
from nsys2prv.model.version import VERSION
from nsys2prv.paraver.labels import clean
from nsys2prv.pipeline.write.redact import Redaction
from nsys2prv.pipeline.write.trace_output import PUBLIC_TYPES_OPTION
from nsys2prv.run.clocks.alignment import ReportClock
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.run_options import RunOptions


def comment_text(
    plan: Plan,
    given: Sequence[str],
    chosen: tuple[int, int] | None,
    dropped: Mapping[str, Mapping[str, int]],
    off: Mapping[str, int],
    failed: Sequence[ReportError],
    redaction: Redaction | None,
) -> str:
    """Return all comment lines.

    `given`: options, see given_options; `chosen`: the time, ns of the whole run; `dropped`: rows by family and reason;
    `off`: rows of families that were not asked for.
    """
    text, report = (redaction.comment, redaction.report) if redaction else (str, str)
    lines = [
        f"nsys2prv {VERSION}",
        f"options {text(' '.join(given)) or 'none'}",
    ]
    if chosen is not None:
        lines.append(f"time {chosen[0]} to {chosen[1]} ns of the run")
    clocks = plan.alignment.reports
    lines += sorted(_inputs(plan.summaries, map(redaction.clock, clocks) if redaction else clocks))
    lines += sorted(f"input {report(error.path.name)} left out: {text(error.cause)}" for error in failed)
    for family, reasons in dropped.items():
        lines += [f"left out {family} {count}: {reason}" for reason, count in reasons.items()]
    lines += [f"not translated {family} {count}: --also {family}" for family, count in sorted(off.items())]
    said = {diagnostic for summary in plan.summaries for diagnostic in summary.diagnostics}
    lines += sorted(f"the reports say: {text(diagnostic)}" for diagnostic in said)
    return as_comments(lines)


def given_options(selection: Selection, options: RunOptions, public_types: bool) -> list[str]:
    """Return the options of a trace. `public_types`: event types have the public tool's numbers."""
    return [*spelled(selection), *spelled(options), *([PUBLIC_TYPES_OPTION.flag] if public_types else [])]


def as_comments(lines: Iterable[str]) -> str:
    """Return texts as comment lines, each on one line, even if it holds line ends."""
    return "".join(f"# {clean(line)}\n" for line in lines)


def _inputs(summaries: Iterable[Summary], clocks: Iterable[ReportClock]) -> Iterator[str]:
    """Yield a text a report: who recorded it, and how its clock was aligned with the run's."""
    for summary, clock in zip(summaries, clocks, strict=True):
        rank = "" if clock.rank is None else f", rank {clock.rank}"
        identity = summary.identity
        recorded = f"host {clock.host}{rank}, {identity.profiler} {identity.nsys_version or 'unknown'}"
        yield f"input {clock.name}: {recorded}, clock by {clock.method} {clock.offset_ns:+} ns {clock.slope_ppm:+g} ppm"
