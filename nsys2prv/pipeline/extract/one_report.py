"""What accumulates while a report is extracted: spills of its families, and what is asked for beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from nsys2prv.families.anchors import Collectives, anchors
from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.family import Family, Source
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.nvtx.nvtx import closed
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.relations import DEVICE_WORK_READS
from nsys2prv.model.event_types import DEFAULT_DOMAIN
from nsys2prv.model.frames import ANCHOR, Ends, Frame
from nsys2prv.model.losses import Tally
from nsys2prv.pipeline.extract.background import Later
from nsys2prv.pipeline.extract.metric_files import spill_metrics
from nsys2prv.pipeline.extract.point_writer import Spilled
from nsys2prv.pipeline.extract.samples import finished
from nsys2prv.pipeline.extract.task import ExtractTask
from nsys2prv.pipeline.store.combinations import Points
from nsys2prv.pipeline.store.spill import write_spill
from nsys2prv.report import schema
from nsys2prv.report.identity import Identity
from nsys2prv.report.report import Report
from nsys2prv.report.schema import Table
from nsys2prv.run.matching.match_keys import end_keys
from nsys2prv.run.report_summary import PLACE_USE, FamilyCount, Spill, Summary


@dataclass
class Gathered:
    """What accumulates over the families of a report."""

    task: ExtractTask
    # What is made of frames is made after what made them, perhaps on a thread of its own.
    later: Later
    spilled: Spilled
    sampled: list[tuple[int, Spill]] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    # States of families, for the next slice.
    states: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    # Numbers and counts of anchors are their own.
    beside: Source | None = None
    collectives: Collectives = field(default_factory=Collectives)
    anchors: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ANCHOR))
    ends: list[Spill] = field(default_factory=list)
    # What the report says of itself.
    identity: Identity = field(init=False)
    losses: tuple[str, ...] = ()
    off: dict[str, int] = field(default_factory=dict)

    def take(self, family: Family, source: Source) -> None:
        """Frames of one family, in one slice of the report."""
        own = source.of(self.tallies.setdefault(family.name, Tally()))
        if not _concerns(family, source.report):
            return
        for frame in self._frames(family, own):
            if isinstance(frame, Ends):
                self._keep_ends(family, frame, source)
            else:
                self.later(partial(self.spilled.take, family, frame))
        self.later(partial(self.spilled.end, family, source.slice))

    def _frames(self, family: Family, source: Source) -> Iterator[Frame]:
        """Yield the family's frames of a slice, and keep its state for the next one."""
        state = self.states[family.name] if family.name in self.states else family.state()
        self.states[family.name] = yield from family.frames(source, state)

    def look(self, source: Source) -> None:
        """What is asked for beside the families, in one slice of the report."""
        self._take_ranges(source)
        if self.task.anchors:
            self._take_anchors(source)

    def _take_ranges(self, source: Source) -> None:
        """First begin and last end of the NVTX ranges `TEXT` or `TEXT@DOMAIN` that are asked for."""
        lasting = pl.col("end").is_not_null() | ~pl.col("eventType").is_in(schema.MARKS)
        for name in self.task.ranges:
            text, at, domain = name.rpartition("@") if "@" in name else (name, "", "")
            named = pl.col("text") == text
            if at:
                named &= pl.col("domain") == ("" if domain == DEFAULT_DOMAIN else domain)
            found = closed(source, source.ranges().filter(lasting & named))
            if found.height:
                low, high = found.select(pl.col("start").min(), pl.col("end").max().alias("high")).row(0)
                before = self.spans.get(name, (low, high))
                self.spans[name] = (min(low, before[0]), max(high, before[1]))

    def _take_anchors(self, source: Source) -> None:
        """What tells the report's clock from others."""
        if self.beside is None:
            self.beside = Source(source.report, source.columns, source.rules)
        self.beside.follow(source)
        self.anchors, self.collectives = anchors(self.beside, self.collectives)

    def _keep_ends(self, family: Family, frame: Ends, source: Source) -> None:
        """Spill ends whole: what the other ranks have within the chosen time is known only when they are matched."""
        data = frame.data
        if self.task.folder is None or data.is_empty():
            return
        keys = end_keys(data, source.members.table["communicator"].to_list())
        keyed = data.with_columns(pl.Series("key", keys)).sort("key", maintain_order=True)
        path = self.task.folder / f"{self.task.name}.{family.name}.ends{len(self.ends)}.arrow"
        self.ends.append(write_spill(path, "ends", family.name, Points(keyed), (), sorted_by="key"))

    def take_metrics(self, source: Source) -> None:
        """Samples of the metrics asked for, each GPU and metric a spill of its own."""
        own = source.of(self.tallies.setdefault(GPU_METRICS.name, Tally()))
        for place, rows, first, last, spill in spill_metrics(own, self.task):
            if spill is not None:
                self.sampled.append((place, spill))
            use = (place, GPU_METRICS.name, False, rows, first, last)
            self.spilled.uses.append(pl.DataFrame([use], schema=PLACE_USE, orient="row"))

    def ask(self, report: Report) -> None:
        """Who recorded it, what it admits to lack, and what it holds that was not asked for."""
        self.identity = report.identity
        self.losses = tuple(report.admitted_losses())
        self.off = _off(report, (*self.task.families, *self.task.beside))

    def summary(self, source: Source) -> Summary:
        """All that the plan needs to know of the report."""
        report = source.report
        return Summary(
            path=report.path,
            name=report.name,
            identity=self.identity,
            places=source.places.table,
            uses=_all_uses(self.spilled.uses),
            edges=finished(self.spilled.edges),
            slots=tuple(source.slots.keys),
            used=self.spilled.used,
            labels=source.labels.texts(),
            preferred=source.preferred,
            spills=tuple(self.spilled.spills),
            counts=self._counts(source),
            off=self.off,
            spans=self.spans,
            losses=self.losses,
            remarks=tuple(dict.fromkeys([*source.remarks, *self.spilled.remarks])),
            members=source.members.table,
            ends=tuple(self.ends),
            anchors=self.anchors,
            sampled=(*self.sampled, *self.spilled.metrics.close()),
            work=tuple(self.spilled.work),
        )

    def _counts(self, source: Source) -> dict[str, FamilyCount]:
        """What became of each family's rows: of its tables, before frames were made of them and after."""
        tellers = self._tellers(source.report) if any(t.dropped for t in source.left_out.values()) else {}
        counts: dict[str, FamilyCount] = {}
        for family in (f.name for f in FAMILIES if f.name in self.tallies):
            spilled = self.spilled.tallies.get(family, Tally())
            tables = [tally for table, tally in source.left_out.items() if tellers.get(table) == family]
            left = Tally()
            for tally in (*tables, self.tallies[family], spilled):
                for lost, rows in tally.dropped.items():
                    left.add(lost, rows)
            counts[family] = FamilyCount(spilled.rows, left.dropped)
        return counts

    def _tellers(self, report: Report) -> dict[Table, str]:
        """The family under which it is told what is left out of a table, here or elsewhere.

        The one that draws it, of several the one that draws the fewest others; else the first that reads it.
        """
        chosen = {*self.task.families, *self.task.beside}
        families = [f for f in FAMILIES if f.name in chosen and _concerns(f, report)]
        tellers: dict[Table, str] = {}
        for family in sorted(families, key=lambda f: len(f.draws)):
            tellers = dict.fromkeys(family.draws, family.name) | tellers
        for family in families:
            tellers = dict.fromkeys(read_columns([family]), family.name) | tellers
        return tellers


def _concerns(family: Family, report: Report) -> bool:
    """Whether the report has a table of the family's; those that only say what launched what are everybody's."""
    own = {*family.draws, *(t for t in family.reads if t not in DEVICE_WORK_READS)}
    return not own or any(map(report.holds, own))


def _all_uses(uses: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """PLACE_USE, each place of each family once."""
    every = pl.concat([pl.DataFrame(schema=PLACE_USE), *uses])
    key = ["place", "family", "makes_rows"]
    rows, first, last = pl.col("rows").sum(), pl.col("first").min(), pl.col("last").max()
    return every.group_by(key, maintain_order=True).agg(rows, first, last).select(list(PLACE_USE))


def _off(report: Report, families: Sequence[str]) -> dict[str, int]:
    """Rows of each family that was not asked for; one that draws no rows of its own leaves nothing out."""
    rows = {f.name: f.rows_in(report) for f in FAMILIES if f.draws and f.name not in families}
    return {family: n for family, n in rows.items() if n}
