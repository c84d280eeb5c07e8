"""The result of a translation, for the summary and the Python API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nsys2prv.commands.row_counts import RowCounts
from nsys2prv.errors import ReportError
from nsys2prv.model.words import few
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.run.defects import Defect, find_defects
from nsys2prv.run.forecast import load_bytes, load_seconds, trace_size
from nsys2prv.run.matching.messages import mismatch_warnings
from nsys2prv.run.plan import Plan

if TYPE_CHECKING:
    from nsys2prv.analysis.analysis_record import Analysis


class Used(NamedTuple):
    """Bytes that a translation used: temporary files, and peak memory over all of its processes."""

    temporary: int
    memory: int


class Written(NamedTuple):
    """The written trace: its body (None after a dry run), its lines, the forecast bytes by family, and its form.

    `removed`: names removed for sharing, and how often, if they were.
    """

    prv: Path | None
    lines: int
    forecast: Mapping[str, int]
    compress: bool
    removed: Mapping[str, int] | None

    @property
    def size(self) -> int:
        """Return the bytes of the body; of a dry run those of the forecast."""
        return self.prv.stat().st_size if self.prv else trace_size(self.forecast, self.compress)


class Translation(NamedTuple):
    """The result of a translation. Times in ns of the trace, sizes in bytes, `seconds` by stage.

    `begin_ns`: where the trace begins in the whole run, 0 unless a part of its time was chosen; `window_ns`: begin and
    end of the window of interest, `window_total_ns`: time that counts between them; `rows`: intervals, samples and
    lines by family; `messages`: lines between ranks by family; `dropped`: rows that were left out or drawn otherwise,
    by family and the sentence of their loss; `off`: rows of families that were not asked for; `losses`: diagnostics of
    the reports, by their names; `removed`: names removed for sharing, and how often, if they were. `prv` is None after
    a dry run; then `size` is the forecast. `forecast`: bytes of an uncompressed trace, by family. `analysis`: that of
    the run, if it was asked for. `defects`: what the reports lack or hold wrongly, the worst first.
    """

    prv: Path | None
    reports: int
    tasks: int
    nodes: int
    duration_ns: int
    begin_ns: int
    window_ns: tuple[int, int]
    window_total_ns: int
    lines: int
    size: int
    forecast: Mapping[str, int]
    rows: Mapping[str, int]
    dropped: Mapping[str, Mapping[str, int]]
    off: Mapping[str, int]
    seconds: Mapping[str, float]
    warnings: tuple[str, ...]
    losses: Mapping[str, tuple[str, ...]]
    messages: Mapping[str, int]
    failed: tuple[str, ...]
    used: Used
    removed: Mapping[str, int] | None
    analysis: Analysis | None
    defects: tuple[Defect, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        values = self._asdict()
        used, analysis = values.pop("used"), values.pop("analysis")
        return {
            **values,
            "prv": None if self.prv is None else str(self.prv),
            "temporary_bytes": used.temporary,
            "memory_bytes": used.memory,
            "defects": [defect._asdict() for defect in self.defects],
            "analysis": None if analysis is None else analysis.as_json(),
        }

    @property
    def expected_size(self) -> int:
        """Return the bytes that were forecast for the file that was written."""
        return trace_size(self.forecast, self.prv is not None and self.prv.suffix == ".gz")

    @property
    def load_seconds(self) -> float:
        """Estimate the seconds that Paraver takes to load the trace."""
        return load_seconds(self.text_size)

    @property
    def load_bytes(self) -> int:
        """Estimate the bytes of memory that Paraver takes for the trace."""
        return load_bytes(self.text_size)

    @property
    def text_size(self) -> int:
        """Estimate the bytes of the trace that Paraver reads: those of the text, also of a compressed trace."""
        plain = self.prv is not None and self.prv.suffix != ".gz"
        return self.size if plain else trace_size(self.forecast, compress=False)


def translation_of(
    encoding: EncodingInput,
    counted: RowCounts,
    written: Written,
    used: Used,
    seconds: Mapping[str, float],
    failed: Sequence[ReportError],
    begin: int,
    analysis: Analysis | None,
) -> Translation:
    """Make the result from the input of encoding, the counts of rows, and the trace. `begin`: `begin_ns` of it."""
    plan, matched = encoding.plan, encoding.matches.counts
    return Translation(
        prv=written.prv,
        reports=len(plan.summaries),
        tasks=len(plan.objects.tasks),
        nodes=len(plan.objects.nodes),
        duration_ns=plan.duration,
        begin_ns=begin,
        window_ns=(plan.window.start, plan.window.end),
        window_total_ns=plan.window.spans.total(),
        lines=written.lines,
        size=written.size,
        forecast=written.forecast,
        rows=counted.rows,
        dropped=counted.dropped,
        off=counted.off,
        seconds=seconds,
        warnings=(
            *plan.warnings,
            *_remarks(plan),
            *mismatch_warnings(matched, plan.communicators.names),
            *(remark for one in encoding.run_events for remark in one.remarks),
        ),
        messages=matched.messages,
        losses=_diagnostics(plan),
        failed=tuple(map(str, failed)),
        used=used,
        removed=written.removed,
        analysis=analysis,
        defects=find_defects(plan.summaries),
    )


def _diagnostics(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the diagnostics of reports by their names: those of several hosts may have one name."""
    by_name: dict[str, tuple[str, ...]] = {}
    for summary in plan.summaries:
        if summary.diagnostics:
            by_name[summary.name] = (*by_name.get(summary.name, ()), *summary.diagnostics)
    return by_name


def _remarks(plan: Plan) -> list[str]:
    """Return the remarks of families, each once with its reports."""
    by_text: dict[str, list[str]] = {}
    for summary in plan.summaries:
        for text in summary.remarks:
            by_text.setdefault(text, []).append(summary.name)
    return [f"{text} [{few(names)}]" for text, names in by_text.items()]
