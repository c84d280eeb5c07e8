"""An extraction under way: it runs families, hands on their frames, looks up the named range, and makes the summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.device.correlation import FAMILY as CORRELATION
from nsys2prv.families.device_work import DEVICE_WORK_READS
from nsys2prv.families.family import Family
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.metrics.memory_usage import FAMILY as MEMORY_USAGE
from nsys2prv.families.nvtx.nvtx import closed
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.source import Source
from nsys2prv.families.unsupported_tables import events_unread
from nsys2prv.model.event_types import DEFAULT_DOMAIN
from nsys2prv.model.frames import Anchors, Drawn, Frame, NumberedRanges, OperationEnds, Samples, WaitCalls
from nsys2prv.model.losses import Tally
from nsys2prv.pipeline.extract.anchor_sample import AnchorSample
from nsys2prv.pipeline.extract.background import Queue
from nsys2prv.pipeline.extract.memory_peaks import MemoryPeaks
from nsys2prv.pipeline.extract.metric_files import keep_metrics
from nsys2prv.pipeline.extract.place_samples import finished
from nsys2prv.pipeline.extract.point_writer import PointWriter
from nsys2prv.pipeline.extract.report_part import ReportPart
from nsys2prv.pipeline.store.points import Points
from nsys2prv.pipeline.store.spill import SpillOf, write_spill
from nsys2prv.report import schema
from nsys2prv.report.declaration import Table
from nsys2prv.report.identity import Identity
from nsys2prv.report.report import Report
from nsys2prv.run.matching.match_keys import end_keys
from nsys2prv.run.report_summary import PLACE_USE, FamilyCount, Spill, SpillKind, Summary


@dataclass
class ReportExtraction:
    """An extraction under way: the results of the families so far, and of further look-ups."""

    part: ReportPart
    source: Source
    # Points are made behind the frames, perhaps on a thread of their own.
    queue: Queue
    writer: PointWriter
    # By family: rows that it left out or altered, and its state for the next slice.
    tallies: dict[str, Tally] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    # First begin and last end of each wanted NVTX range.
    range_span: tuple[int, int] | None = None
    # Frames that are not drawn.
    anchors: AnchorSample = field(default_factory=AnchorSample)
    operation_ends: list[Spill] = field(default_factory=list)
    wait_calls: list[Spill] = field(default_factory=list)
    numbered: NumberedRanges = field(default_factory=NumberedRanges)
    memory: MemoryPeaks = field(default_factory=MemoryPeaks)
    # Set by `read_identity`. `off`, `unread`: see Summary.
    identity: Identity = field(init=False)
    diagnostics: tuple[str, ...] = ()
    off: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    # The source for families that only look for anchors and are not extracted: it has its own numbers and counts.
    _for_anchors: Source | None = None

    def extract_family(self, family: Family) -> None:
        """Extract one family from the present slice; of a family that is only wanted for its anchors, these alone."""
        if family.name not in self.part.families:
            self._find_anchors(family)
            return
        source = self.source.for_family(self.tallies.setdefault(family.name, Tally()))
        if not _concerns(family, source.report):
            return
        for frame in self._frames(family, source):
            if isinstance(frame, Drawn):
                if isinstance(frame, Samples) and family is MEMORY_USAGE:
                    self.memory.take(frame)
                self.queue(partial(self.writer.add_frame, family, frame))
            else:
                self._keep(family, frame)
        self.queue(partial(self.writer.store_family, family, source.slice))

    def _keep(self, family: Family, frame: OperationEnds | WaitCalls | Anchors | NumberedRanges) -> None:
        """Keep a frame that is not drawn. Raises OutputError."""
        match frame:
            case OperationEnds(ends):
                self.operation_ends += self._store("ends", family, ends)
            case WaitCalls(calls):
                self.wait_calls += self._store("wait_calls", family, calls)
            case Anchors(anchors):
                self.anchors.add(family.name, anchors)
            case NumberedRanges():
                self.numbered = frame

    def _frames(self, family: Family, source: Source) -> Iterator[Frame]:
        """Yield the family's frames of a slice, and keep its state for the next one."""
        state = self.states[family.name] if family.name in self.states else family.state()
        self.states[family.name] = yield from family.frames(source, state)

    def _find_anchors(self, family: Family) -> None:
        """Keep the anchors of a family that is not extracted."""
        if not _concerns(family, self.source.report):
            return
        if self._for_anchors is None:
            self._for_anchors = self.source.for_anchors()
        if self._for_anchors.slice is not self.source.slice:
            self._for_anchors.follow(self.source.slice)
        for frame in self._frames(family, self._for_anchors.for_family(Tally())):
            if isinstance(frame, Anchors):
                self.anchors.add(family.name, frame.data)

    def look_up_range(self) -> None:
        """Extend the span of the named NVTX range by the ranges in the present slice."""
        name = self.part.wanted.named_range
        if name is None:
            return
        lasting = pl.col("end").is_not_null() | ~pl.col("eventType").is_in(schema.MARKS)
        text, _, domain = name.rpartition("@")
        in_domain = pl.col("domain") == ("" if domain == DEFAULT_DOMAIN else domain)
        # A text may have an @ of its own.
        named = (pl.col("text") == name) | ((pl.col("text") == text) & in_domain & pl.lit("@" in name))
        found = closed(self.source, self.source.ranges().filter(lasting & named))
        if found.height:
            low, high = found.select(pl.col("start").min(), pl.col("end").max().alias("high")).row(0)
            before = self.range_span or (low, high)
            self.range_span = min(low, before[0]), max(high, before[1])

    def _store(self, kind: SpillKind, family: Family, rows: pl.DataFrame) -> Iterator[Spill]:
        """Store ends in order of their match keys, or calls in order of time; also those beyond the chosen time.

        Only matching finds partners within it.
        """
        storage = self.part.storage
        if storage.folder is None or rows.is_empty():
            return
        if kind == "ends":
            keys = end_keys(rows, self.source.members.table["communicator"].to_list())
            rows = rows.with_columns(pl.Series("key", keys))
        ordered = Points(rows.sort("key" if kind == "ends" else "time", maintain_order=True))
        path = storage.folder / f"{storage.name}.{family.name}.{kind}{len(self.operation_ends + self.wait_calls)}.arrow"
        yield write_spill(path, SpillOf(kind, family.name), ordered, self.part.limits.batch_rows)

    def keep_metrics(self) -> None:
        """Keep the samples of the metrics asked for, without those of others."""
        if self.part.wanted.metrics:
            source = self.source.for_family(self.tallies.setdefault(GPU_METRICS.name, Tally()))
            for unwanted in keep_metrics(source, self.part, self.writer.metrics):
                self._use_of_metrics(*unwanted)

    def _use_of_metrics(self, place: int, rows: int, first: int, last: int) -> None:
        use = (place, GPU_METRICS.name, False, rows, first, last)
        self.writer.uses.append(pl.DataFrame([use], schema=PLACE_USE, orient="row"))

    def read_identity(self) -> None:
        """Read the report's identity, its diagnostics, and the rows of families that are not extracted."""
        report = self.source.report
        self.identity = report.identity
        self.diagnostics = tuple(report.diagnostics())
        self.unread = events_unread(report)
        self.off = _off(report, self.part.of_report or self.part.families)

    def summary(self) -> Summary:
        """Return all that the plan needs to know of the report."""
        source, writer = self.source, self.writer
        metrics = tuple(writer.metrics.close())
        # Samples that are drawn are counted as such.
        for one in metrics if not self.part.wanted.points else ():
            self._use_of_metrics(one.place, one.rows, one.first, one.last)
        return Summary(
            path=source.report.path,
            name=source.report.name,
            identity=self.identity,
            places=source.places.table,
            uses=_all_uses(writer.uses),
            edges=finished(writer.edges),
            slots=tuple(source.slots.keys),
            rows_by_type=writer.rows_by_type,
            labels=source.labels.texts(),
            preferred=source.notes.preferred,
            spills=tuple(writer.spills),
            counts=self._counts(source),
            off=self.off,
            range_span=self.range_span,
            diagnostics=self.diagnostics,
            remarks=tuple(dict.fromkeys([*source.notes.remarks, *writer.remarks])),
            launches=dict(source.notes.launches),
            working=frozenset(source.notes.working) if CORRELATION.name in self.tallies else None,
            unread=self.unread,
            members=source.members.table,
            operation_ends=tuple(self.operation_ends),
            wait_calls=tuple(self.wait_calls),
            anchors=self.anchors.rows(),
            metrics=metrics,
            analyzed=tuple(writer.analyzed),
            numbered=self.numbered,
            memory_peaks=self.memory.peaks,
        )

    def _counts(self, source: Source) -> dict[str, FamilyCount]:
        """Count each family's rows: those drawn, and those left out of its tables or its frames."""
        left_out = source.tables.left_out
        reporting = self._reporting_families(source.report) if any(t.dropped for t in left_out.values()) else {}
        counts: dict[str, FamilyCount] = {}
        for family in (f.name for f in FAMILIES if f.name in self.tallies):
            written = self.writer.tallies.get(family, Tally())
            tables = [tally for table, tally in left_out.items() if reporting.get(table) == family]
            left = Tally()
            for tally in (*tables, self.tallies[family], written):
                for lost, rows in tally.dropped.items():
                    left.add(lost, rows)
            counts[family] = FamilyCount(written.rows, left.dropped)
        return counts

    def _reporting_families(self, report: Report) -> dict[Table, str]:
        """Return the family that reports the dropped rows of each table.

        It is the family that draws the table: of several, the one that draws the fewest other tables. A table that no
        family draws belongs to the first family that reads it.
        """
        chosen = self.part.of_report or self.part.families
        families = [f for f in FAMILIES if f.name in chosen and _concerns(f, report)]
        reporting: dict[Table, str] = {}
        for family in sorted(families, key=lambda f: len(f.draws)):
            reporting = dict.fromkeys(family.draws, family.name) | reporting
        for family in families:
            reporting = dict.fromkeys(read_columns([family]), family.name) | reporting
        return reporting


def _concerns(family: Family, report: Report) -> bool:
    """Return True if the report has a table of the family's own. Tables of launches are shared by all families."""
    own = {*family.draws, *(t for t in family.reads if t not in DEVICE_WORK_READS)}
    return not own or any(map(report.holds, own))


def _all_uses(uses: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Sum up uses (PLACE_USE) to one row for each place and family."""
    every = pl.concat([pl.DataFrame(schema=PLACE_USE), *uses])
    key = ["place", "family", "makes_rows"]
    rows, first, last = pl.col("rows").sum(), pl.col("first").min(), pl.col("last").max()
    return every.group_by(key, maintain_order=True).agg(rows, first, last).select(list(PLACE_USE))


def _off(report: Report, families: Sequence[str]) -> dict[str, int]:
    """Count the rows of each family that is not among `families` and draws rows of its own."""
    rows = {f.name: f.rows_in(report) for f in FAMILIES if f.draws and f.name not in families}
    return {family: n for family, n in rows.items() if n}
