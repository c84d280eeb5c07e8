"""Defects of recordings: data that the reports of a run lack or hold wrongly, each with its effect on the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nsys2prv.model.losses import Loss
from nsys2prv.report.ids import pid_of
from nsys2prv.run.report_summary import Summary

# Losses that are defects of the recording, the worst first, and their effect.
EFFECTS: Mapping[Loss, str] = {
    Loss.LACKS_COLUMNS: "none of them is drawn or counted",
    Loss.FAILED_CALL: "they put no work on a device, which is no fault of the profiler",
    Loss.NO_TIME: "left out of the trace, the window and every figure: busy time is too low",
    Loss.INCOMPLETE: "left out of the trace and every figure",
    Loss.NO_CUDA_CALL: "counted for their device, but in no phase, no iteration and no launch time",
    Loss.BEFORE_ITS_CALL: "the clocks of host and device disagree: launch times and phases are wrong by as much",
    Loss.NO_END: "counted 1 ns long",
    Loss.NEGATIVE: "counted 1 ns long",
}
ORDER = {loss: n for n, loss in enumerate(EFFECTS)}


class Defect(NamedTuple):
    """One defect: its sentence, its effect on the figures, and the names of the reports that have it."""

    rows: int
    text: str
    effect: str
    reports: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Return the defect and its effect as one sentence."""
        return f"{self.text}: {self.effect}"


def find_defects(summaries: Sequence[Summary]) -> tuple[Defect, ...]:
    """Find the defects of all reports, the worst first."""
    return (*_unread(summaries), *_without_work(summaries), *_lost(summaries))


def _unread(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the tables and views that look like events and that no family reads."""
    for name in dict.fromkeys(name for s in summaries for name in s.unread):
        holding = [s for s in summaries if name in s.unread]
        rows = sum(s.unread[name] for s in holding)
        text = f"{name} is not known, and looks like {rows:,} events"
        yield Defect(rows, text, "in no figure and not in the trace; please report it", _names(holding))


def _without_work(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the processes that launched kernels but have none in the report."""
    for summary in summaries:
        lacking = set() if summary.computing is None else summary.launches.keys() - summary.computing
        for process in sorted(lacking):
            calls = summary.launches[process]
            text = f"process {pid_of(process)} launched kernels or graphs by {calls:,} calls, and none is recorded"
            yield Defect(calls, text, "useful time and efficiency are too low, or 0", (summary.name,))


def _lost(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the defects that families found in rows."""
    found: dict[tuple[int, str, str, str], list[tuple[Summary, int]]] = {}
    for summary in summaries:
        for family, count in summary.counts.items():
            for lost, rows in count.dropped.items():
                if lost.loss in EFFECTS:
                    key = (ORDER[lost.loss], family, lost.plain, EFFECTS[lost.loss])
                    found.setdefault(key, []).append((summary, rows))
    for (_, family, sentence, effect), held in sorted(found.items(), key=lambda item: item[0]):
        rows = sum(n for _, n in held)
        yield Defect(rows, f"{family}: {rows:,} {sentence}", effect, _names([s for s, _ in held]))


def _names(summaries: Sequence[Summary]) -> tuple[str, ...]:
    return tuple(s.name for s in summaries)
