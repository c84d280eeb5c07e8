"""Defects of recordings: data that the reports of a run lack or hold wrongly, each with its effect on the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.families.device.synchronization import FAMILY as SYNCHRONIZATION
from nsys2prv.families.host.cuda_api import FAMILY as CUDA_API
from nsys2prv.families.host.osrt import FAMILY as OSRT
from nsys2prv.families.mpi.mpi import FAMILY as MPI
from nsys2prv.families.nvtx.nvtx import FAMILY as NVTX
from nsys2prv.families.nvtx.range_patterns import LIBRARY_DOMAINS
from nsys2prv.model import event_types as types
from nsys2prv.model.device_kinds import DeviceKind
from nsys2prv.model.global_ids import pid_of
from nsys2prv.model.losses import Loss, Severity
from nsys2prv.model.words import NAME_WIDTH, short
from nsys2prv.report.diagnostics import UNPROCESSED, is_serial, is_unprocessed
from nsys2prv.run.report_summary import FamilyCount, Summary

# Losses that are defects of the recording, the worst first, and their effect.
EFFECTS: Mapping[Loss, str] = {
    Loss.LACKS_COLUMNS: "none of them is drawn or counted",
    Loss.LACKS_DETAIL: "drawn and counted without it; all versions of nsys have it, perhaps under a new name",
    Loss.FAILED_CALL: "their work did not run, by an error of the program and not of the profiler",
    Loss.NO_TIME: "left out of the trace, the window and every figure: busy time is too low",
    Loss.INCOMPLETE: "left out of the trace and every figure",
    Loss.NO_CUDA_CALL: "counted for their device, but in no phase, no iteration and no launch time",
    Loss.BEFORE_ITS_CALL: "the clocks of host and device disagree: in no launch time, and phases are wrong by as much",
    Loss.NO_END: "counted 0 ns long",
    Loss.NEGATIVE: "counted 0 ns long",
}
ORDER = {loss: n for n, loss in enumerate(EFFECTS)}


# Kinds of device work, the worst to lack first, and the effect where none is recorded.
WITHOUT_WORK: Mapping[DeviceKind, str] = {
    DeviceKind.COMPUTE: "useful time and efficiency are too low, or 0",
    DeviceKind.COPY: "in no figure of memory, and idle time is too long",
    DeviceKind.MEMSET: "in no figure of memory, and idle time is too long",
}


class Compared(NamedTuple):
    """Data of host threads that all reports of a program have or none: rows of a family, or of one event type of it.

    `without`: event types that do not count.
    """

    what: str
    family: str
    effect: str
    event: str = ""
    without: Sequence[str] = ()

    def is_in(self, summary: Summary) -> bool | None:
        """Return True if a report has such rows, drawn or not; None where only rows left out by choice may be such."""
        count = summary.counts.get(self.family, FamilyCount(summary.off.get(self.family, 0)))
        if self.event and self.family in summary.counts:
            rows = summary.rows_by_type.get(self.event, 0)
        else:
            lost = sum(n for one, n in count.dropped.items() if one.loss.severity is Severity.LOST)
            rows = count.rows + lost - sum(summary.rows_by_type.get(event, 0) for event in self.without)
        if rows > 0 or not any(one.loss.intended for one in count.dropped):
            return rows > 0
        # Of rows outside the chosen time, or too short, only the family is known.
        return None if self.event or self.without else True


# Ranges of libraries come where the program calls these, which not all ranks do. A mark is no range.
_NO_RANGES_OF_PROGRAMS = (types.NVTX_MARK.key, *(types.NVTX_DOMAIN.of(domain) for domain in LIBRARY_DOMAINS))
_WAITS_FOR_OTHERS = "its waiting for others counts as its own time"
COLLECTIVES = Compared("MPI collectives", MPI.name, _WAITS_FOR_OTHERS, types.MPI["collective"].key)
COMPARED = (
    Compared("CUDA calls", CUDA_API.name, "its device work is in no phase, no iteration and no launch time"),
    Compared(
        "NVTX ranges", NVTX.name, "its device work is in no phase and no iteration", without=_NO_RANGES_OF_PROGRAMS
    ),
    Compared("MPI calls", MPI.name, _WAITS_FOR_OTHERS),
    COLLECTIVES,
    Compared("MPI point-to-point calls", MPI.name, _WAITS_FOR_OTHERS, types.MPI["p2p"].key),
    Compared("synchronization", SYNCHRONIZATION.name, "its waiting for its device counts as its own time"),
    Compared("OS calls", OSRT.name, "they explain none of its idle times"),
)


# Lowest share of a family's rows from which a defect shows in figures. A recording of a span of time
# (`nsys profile --duration`) lacks the calls of some kernels at its edges.
LEAST_SHOWN_SHARE = 0.001


class Defect(NamedTuple):
    """One defect: its sentence, its effect on the figures, and the names of the reports that have it.

    `share`: of the family's rows, in the report with the most.
    """

    rows: int
    text: str
    effect: str
    reports: tuple[str, ...]
    share: float = 1.0

    @property
    def shows(self) -> bool:
        """Return True if it is of so many rows that figures may show it."""
        return self.share >= LEAST_SHOWN_SHARE

    @property
    def of_program(self) -> bool:
        """Return True if the program is to blame: recording again does not help."""
        return self.effect == EFFECTS[Loss.FAILED_CALL]

    @property
    def sentence(self) -> str:
        """Return the defect and its effect as one sentence."""
        return f"{self.text}: {self.effect}"


def find_defects(summaries: Sequence[Summary]) -> tuple[Defect, ...]:
    """Find the defects of all reports, the worst first."""
    return (
        *_unprocessed(summaries),
        *_unread(summaries),
        *_without_work(summaries),
        *_unlike_others(summaries),
        *_lost(summaries),
    )


def _unprocessed(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the errors of nsys when it made reports of recorded events."""
    for text in dict.fromkeys(text for s in summaries for text in s.diagnostics if is_unprocessed(text)):
        why = text.removeprefix(UNPROCESSED).removeprefix(": ")
        reports = _names([s for s in summaries if text in s.diagnostics])
        sentence = f"nsys failed to process recorded events{f' ({short(why, NAME_WIDTH)})' if why else ''}"
        yield Defect(
            0,
            sentence,
            "some events are missing, or most; record again, with another version of nsys if it recurs",
            reports,
        )


def _unread(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the tables and views that look like events and that no family reads."""
    for name in dict.fromkeys(name for s in summaries for name in s.unread):
        holding = [s for s in summaries if name in s.unread]
        rows = sum(s.unread[name] for s in holding)
        text = f"{short(name, NAME_WIDTH)} is not known, and looks like {rows:,} events"
        yield Defect(rows, text, "in no figure and not in the trace; please report it", _names(holding))


def _without_work(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the processes that put work on a device, of a kind of which the report has none.

    A call that a graph captures does no work by itself: in processes with graphs, those for copies prove nothing. Nor
    do calls for 0 bytes (see LaunchCount).
    """
    for kind, effect in WITHOUT_WORK.items():
        for summary in summaries:
            lacking = set() if summary.working is None else summary.launches.keys() - summary.working
            with_graphs = {p for p, k in summary.launches if k is DeviceKind.GRAPH and kind is not DeviceKind.COMPUTE}
            for process in sorted({p for p, k in lacking if k is kind} - with_graphs):
                launched = summary.launches[process, kind]
                if kind is not DeviceKind.COMPUTE and not launched.prove_work:
                    continue
                calls = f"{launched.calls:,} calls"
                text = f"process {pid_of(process)} launched {kind.value} by {calls}, and none is recorded"
                yield Defect(launched.calls, text, effect, (summary.name,))


def _unlike_others(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the data of host threads that one report lacks, and all others of the same program have."""
    programs: dict[tuple[str, ...], list[Summary]] = {}
    for summary in summaries:
        programs.setdefault(tuple(sorted({p.name for p in summary.identity.processes})), []).append(summary)
    for alike in programs.values():
        reported: set[str] = set()
        for compared in COMPARED:
            found = [compared.is_in(s) for s in alike]
            having = [s for s, is_in in zip(alike, found, strict=True) if is_in]
            if not having or len(having) != len(alike) - 1 or None in found or compared.family in reported:
                continue
            if compared is COLLECTIVES and _are_all_members(having):
                continue
            reported.add("" if compared.event else compared.family)
            others = f"the {len(having)} others" if len(having) > 1 else "the other"
            text = f"no {compared.what} in this report, but in {others} of its program"
            yield Defect(0, text, compared.effect, (alike[found.index(False)].name,))


def _are_all_members(summaries: Sequence[Summary]) -> bool:
    """Return True if no rank of the reports' collectives of MPI is elsewhere, as those of a rank that only does I/O."""
    named = {name for s in summaries for name in s.labels.get(types.MPI_COMMUNICATOR.key, ())}
    if not named:
        return False
    members = pl.concat([s.members.with_columns(report=n) for n, s in enumerate(summaries)])
    own = members.filter(pl.col("communicator").is_in(sorted(named))).group_by("communicator")
    sizes = own.agg(pl.struct("report", "process").n_unique().alias("known"), pl.col("ranks").max())
    return sizes.filter(pl.col("known") >= pl.col("ranks")).height == len(named)


def _lost(summaries: Sequence[Summary]) -> Iterator[Defect]:
    """Yield the defects that families found in rows.

    A profiler of counters records no calls, so that its kernels lack none.
    """
    found: dict[tuple[int, str, str, str], list[tuple[Summary, int]]] = {}
    for summary in summaries:
        for family, count in summary.counts.items():
            for lost, rows in count.dropped.items():
                if lost.loss in EFFECTS and not (lost.loss is Loss.NO_CUDA_CALL and _has_no_calls(summary)):
                    key = (ORDER[lost.loss], family, lost.plain, EFFECTS[lost.loss])
                    found.setdefault(key, []).append((summary, rows))
    for (_, family, sentence, effect), held in sorted(found.items(), key=lambda item: item[0]):
        rows = sum(n for _, n in held)
        share = max(min(n / _rows(s.counts[family]), 1.0) for s, n in held)
        # Lines have no rows in reports: what lacks a call is what it launched.
        what = "device activities" if family == CORRELATION.name else family
        yield Defect(rows, f"{what}: {rows:,} {sentence}", effect, _names([s for s, _ in held]), share)


def _has_no_calls(summary: Summary) -> bool:
    """Return True for a report of counters of kernels without calls of CUDA."""
    calls = summary.counts.get(CUDA_API.name, FamilyCount(summary.off.get(CUDA_API.name, 0)))
    return not calls.rows and any(is_serial(text) for text in summary.diagnostics)


def _rows(count: FamilyCount) -> int:
    """Return the rows of a family in a report, drawn or not."""
    return max(count.rows + sum(n for lost, n in count.dropped.items() if lost.loss.severity is Severity.LOST), 1)


def _names(summaries: Sequence[Summary]) -> tuple[str, ...]:
    return tuple(s.name for s in summaries)
