"""Alignment of all reports to one clock by the best evidence, and its quality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.model.words import few
from nsys2prv.report.identity import Identity
from nsys2prv.run.clocks.clock import Clock
from nsys2prv.run.clocks.fit import STEEPEST_RATE, Fit, fit
from nsys2prv.run.clocks.observations import shared_anchors
from nsys2prv.run.clocks.offsets import Offsets, given_for, unused_offsets
from nsys2prv.run.clocks.quality import on_clocks, residuals, violations
from nsys2prv.run.clocks.sharing import disagreeing
from nsys2prv.run.clocks.stated import stated_clocks, unstated_clocks
from nsys2prv.run.clocks.steps import describe
from nsys2prv.run.hosts import Host, host_numbers
from nsys2prv.run.ranks import stated_ranks
from nsys2prv.run.report_summary import Summary

Align = Literal["auto", "collectives", "utc", "none"]

# A larger residual gives a warning, ns.
POOR_RESIDUAL_NS = 100_000


class ReportClock(NamedTuple):
    """The alignment of a report.

    `rank`: None until the alignment is given the ranks. `offset_ns` is added to its UTC-aligned time, which then runs
    `slope_ppm` faster. `method`: collectives, messages (causality alone), host (one host's clock), utc, none, file.
    `anchors`: number of its operations and messages that another report has, too. Residuals: ns between the ends of its
    collectives and the median rank's. `error_bound_ns`: the most by which the clock can be off without an effect before
    its cause (None: nothing bounds it, 0: the reference's host). `violations_before`, `violations_after`: effects
    before their cause, before and after alignment: collectives that it leaves before all have entered, messages that it
    receives before they were sent.
    """

    name: str
    host: str
    rank: int | None
    method: str
    offset_ns: int
    slope_ppm: float
    anchors: int
    residual_median_ns: int | None
    residual_p95_ns: int | None
    residual_max_ns: int | None
    error_bound_ns: int | None
    violations_before: int
    violations_after: int


class Alignment(NamedTuple):
    """The clocks of all reports, in their order. `reference` is the report whose UTC-aligned time is unchanged.

    `units`: equal numbers for reports that share a clock, as those of a host do unless they contradict each other.
    `components`: equal numbers for reports whose clocks were compared, with each other or through those of others.
    """

    reference: str
    clocks: tuple[Clock, ...]
    units: tuple[int, ...]
    components: tuple[int, ...]
    reports: tuple[ReportClock, ...]
    warnings: tuple[str, ...]
    # report, time (ns since the first session start), residual (ns): for a plot.
    residuals: pl.DataFrame = pl.DataFrame()

    @property
    def error(self) -> int | None:
        """Return the time by which compared clocks may differ (ns): 0 if all share one, None if nothing tells it.

        It is the 95th percentile of the residuals of the report with the largest, or what the error bounds of two
        clocks allow together if that is less. Either tells it only where each clock has one. Nothing tells how far
        clocks differ that were not compared.
        """
        if len(set(self.units)) < 2:
            return 0
        clocks = Counter(component for _, component in set(zip(self.units, self.components, strict=True)))
        compared = [
            (unit, report)
            for unit, component, report in zip(self.units, self.components, self.reports, strict=True)
            if clocks[component] > 1
        ]
        every = {unit for unit, _ in compared}
        left = [(unit, r.residual_p95_ns) for unit, r in compared if r.residual_p95_ns is not None]
        bounds = {unit: r.error_bound_ns for unit, r in compared if r.error_bound_ns is not None}
        errors = []
        if every and {unit for unit, _ in left} == every:
            errors.append(max(residual for _, residual in left))
        if every and bounds.keys() == every:
            errors.append(sum(sorted(bounds.values())[-2:]))
        return min(errors, default=None)

    def with_ranks(self, ranks: Sequence[int | None]) -> Alignment:
        """Return the alignment with the rank of each report."""
        reports = (report._replace(rank=rank) for report, rank in zip(self.reports, ranks, strict=True))
        return self._replace(reports=tuple(reports))

    def to_json(self) -> dict[str, Any]:
        """Return the content of OUT.align.json and of `nsys2prv align --json`."""
        return {"reference": self.reference, "reports": [r._asdict() for r in self.reports]}


class _ClockUnits(NamedTuple):
    """The units that have one clock each: `of` a report, its unit; names by unit."""

    of: list[int]
    names: list[str]


def align(summaries: Sequence[Summary], hosts: Sequence[Host], how: Align, offsets: Offsets | None = None) -> Alignment:
    """Align the reports. `how`: the strongest method to try; `offsets` replace it, by pattern (see read_offsets)."""
    identities = [s.identity for s in summaries]
    host_of = {r: h.name for h in hosts for r in h.reports}
    warnings: list[str] = []
    stated = unstated_clocks(identities)
    if how != "none":
        stated, warnings = stated_clocks(identities, hosts)
    anchors = shared_anchors(_of_first_captures(summaries, hosts, stated), stated)
    fits = offsets is None and how in ("auto", "collectives")
    units = _units(anchors if fits else anchors.clear(), hosts, len(summaries), warnings)
    bounds: list[int | None] = [None] * len(summaries)
    components = units.of
    if offsets is not None:
        clocks = _given_clocks(summaries, host_of, stated, offsets, warnings)
    elif fits:
        clocks, bounds, components = _fitted(anchors, stated, units, how, warnings)
    else:
        clocks = stated
    after = on_clocks(anchors, stated, clocks)
    left = residuals(after)
    reports = _reports(summaries, host_of, stated, clocks, bounds, anchors, after, left)
    if fits or offsets is not None:
        warnings += _poor(reports)
    if not fits and len(units.names) > 1 and left.is_empty():
        warnings.append(
            f"nothing tells how far the clocks of {len(units.names)} hosts differ "
            "(--align auto compares them by collectives and messages)"
        )
    reference = next((r.name for r in reports if r.offset_ns == 0 and r.slope_ppm == 0), reports[0].name)
    return Alignment(
        reference, tuple(clocks), tuple(units.of), tuple(components), tuple(reports), tuple(warnings), left
    )


def _of_first_captures(
    summaries: Sequence[Summary], hosts: Sequence[Host], stated: Sequence[Clock]
) -> list[pl.DataFrame]:
    """Return the anchors of each report; of repeated captures of one process only the first's.

    A later report numbers its operations anew, and the ranks may begin with different operations.
    """
    host_of = host_numbers(hosts)
    identities = [s.identity for s in summaries]
    ranks = stated_ranks(identities, hosts)
    recorded = [(host_of[r], _recorded(i, rank)) for r, (i, rank) in enumerate(zip(identities, ranks, strict=True))]
    first: dict[tuple[int, object], int] = {}
    for r in sorted(range(len(summaries)), key=lambda r: stated[r].offset):
        first.setdefault(recorded[r], r)
    return [
        s.anchors if recorded[r][1] is None or first[recorded[r]] == r else s.anchors.clear()
        for r, s in enumerate(summaries)
    ]


def _recorded(identity: Identity, rank: int | None) -> object:
    """Return a value that is equal for all captures of one process and no other; None where it is unknown."""
    pids = tuple(sorted(p.pid for p in identity.processes))
    # Captures of one session may list other processes: workers come and go.
    return identity.session or ((rank, pids) if pids else None)


def _fitted(
    anchors: pl.DataFrame, stated: list[Clock], units: _ClockUnits, how: Align, warnings: list[str]
) -> tuple[list[Clock], list[int | None], list[int]]:
    """Return the clock of each report, how far it may be off (ns), and its component (see Alignment)."""
    if len(units.names) < 2:
        own = [c._replace(method="host" if c.method == "utc" and len(stated) > 1 else c.method) for c in stated]
        return own, [0] * len(own), units.of
    epochs = [min(stated[r].offset for r, own in enumerate(units.of) if own == u) for u in range(len(units.names))]
    unit = pl.Series(units.of, dtype=pl.Int64).gather(anchors["report"])
    placed = anchors.with_columns(unit=unit, epoch=pl.Series(epochs, dtype=pl.Int64).gather(unit))
    # The end of MPI_Init is off by milliseconds if ranks share cores: it is used only on request.
    weak = how == "collectives" and placed.filter(pl.col("kind") == "collective")["unit"].n_unique() < 2
    found = fit(placed, len(units.names), ("collective", "init") if weak else ("collective",))
    warnings += _unconnected(found, units.names)
    warnings += [describe(jump, units.names) for jump in found.jumps]
    warnings += [
        f"{units.names[u]} would run {STEEPEST_RATE * 1e6:,.0f} ppm or more fast or slow, which no clock does: "
        "no slope is applied (are its reports of the same run?)"
        for u in found.steep
    ]
    with_collectives = set(placed.filter(pl.col("kind").is_in(["collective", "init"]))["unit"])
    # Bounds are those against the first host of each component: against that of another nothing bounds a clock.
    bounded = np.isfinite(found.bound) & (found.component == found.component[0])
    bounds = [round(found.bound[u]) if bounded[u] else None for u in units.of]
    clocks = [
        clock.corrected(
            round(found.offset[u] + found.rate[u] * (clock.offset - epochs[u])),
            1 + float(found.rate[u]),
            "collectives" if u in with_collectives else "messages",
        )
        if found.aligned[u]
        else clock
        for clock, u in zip(stated, units.of, strict=True)
    ]
    return clocks, bounds, found.component[units.of].tolist()


def _units(anchors: pl.DataFrame, hosts: Sequence[Host], reports: int, warnings: list[str]) -> _ClockUnits:
    """Make each host a unit, or each report of a host whose reports cannot share a clock by their anchors."""
    units = _ClockUnits([0] * reports, [])
    doubtful = disagreeing(anchors, [h.reports for h in hosts])
    for number, host in enumerate(hosts):
        split = number in doubtful
        if split:
            warnings.append(
                f"the reports said to be of {host.name} do not share a clock: each is aligned by itself "
                "(--hosts FILE says which reports are of which host)"
            )
        for place, report in enumerate(host.reports):
            if place == 0 or split:
                units.names.append(f"{host.name} (report {place + 1})" if split else host.name)
            units.of[report] = len(units.names) - 1
    return units


def _unconnected(found: Fit, names: Sequence[str]) -> list[str]:
    """Warn about hosts that no anchors connect."""
    lone = [n for n, aligned in zip(names, found.aligned, strict=True) if not aligned]
    if len(lone) == len(names):
        return [
            f"no anchors between hosts: {len(names)} hosts are aligned by UTC alone "
            "(NVTX and CUDA, or MPI, in `nsys profile --trace` record anchors)"
        ]
    components = {int(c) for c, aligned in zip(found.component, found.aligned, strict=True) if aligned}
    warnings = []
    if lone:
        warnings.append(f"no anchors between hosts: {few(lone)} stay on UTC")
    if len(components) > 1:
        warnings.append(f"no anchors between hosts: {len(components)} groups of hosts are aligned by UTC to each other")
    return warnings


def _given_clocks(
    summaries: Sequence[Summary],
    host_of: Mapping[int, str],
    stated: Sequence[Clock],
    offsets: Offsets,
    warnings: list[str],
) -> list[Clock]:
    """Return the stated clocks with the given offsets. Warn of offsets that match nothing, and reports without one."""
    warnings += unused_offsets(offsets, [(s.name, host_of[r]) for r, s in enumerate(summaries)])
    clocks = []
    for r, (summary, clock) in enumerate(zip(summaries, stated, strict=True)):
        given = given_for(offsets, summary.name, host_of[r])
        if given is None:
            warnings.append(f"{summary.name}: no offset given, it stays on UTC")
            clocks.append(clock)
        else:
            clocks.append(clock.corrected(given.offset, 1 + given.slope_ppm / 1e6, "file"))
    return clocks


def _reports(
    summaries: Sequence[Summary],
    host_of: Mapping[int, str],
    stated: Sequence[Clock],
    clocks: Sequence[Clock],
    bounds: Sequence[int | None],
    before: pl.DataFrame,
    after: pl.DataFrame,
    left: pl.DataFrame,
) -> list[ReportClock]:
    """Return the alignment of each report, without its rank.

    `before`, `after`: anchors by the stated clocks and by the aligned ones; `left`: residuals of the latter.
    """
    was, now = (violations(f, len(summaries)) for f in (before, after))
    size = pl.col("residual").abs()
    by_report = left.group_by("report").agg(size.median(), p95=size.quantile(0.95), most=size.max())
    spread = {r: (round(median), round(p95), round(most)) for r, median, p95, most in by_report.rows()}
    shared = dict(before.group_by("report").len().rows())
    reports = []
    for r, (summary, before_fit, clock) in enumerate(zip(summaries, stated, clocks, strict=True)):
        median, p95, most = spread.get(r, (None, None, None))
        reports.append(
            ReportClock(
                name=summary.name,
                host=host_of[r],
                rank=None,
                method=clock.method,
                offset_ns=clock.offset - before_fit.offset,
                # All digits, so that it gives the same times by --offsets.
                slope_ppm=(clock.slope - 1) * 1e6,
                anchors=shared.get(r, 0),
                residual_median_ns=median,
                residual_p95_ns=p95,
                residual_max_ns=most,
                error_bound_ns=bounds[r],
                violations_before=was[r],
                violations_after=now[r],
            )
        )
    return reports


def _poor(reports: Sequence[ReportClock]) -> list[str]:
    """Warn if the ends of collectives lie far apart. On one host with one clock that is how the ranks leave them."""
    fitted = [r for r in reports if r.method != "host"]
    poor = [r for r in fitted if r.residual_median_ns is not None and r.residual_median_ns > POOR_RESIDUAL_NS]
    if not poor:
        return []
    worst = max(poor, key=lambda r: r.residual_median_ns or 0)
    bound = f"; causality bounds its error to {worst.error_bound_ns / 1e3:,.0f} us" if worst.error_bound_ns else ""
    most = f"{(worst.residual_median_ns or 0) / 1e3:,.0f} us in {worst.name}{bound}"
    return [
        f"the alignment is uncertain: the residual of {len(poor)} of {len(reports)} reports is over "
        f"{POOR_RESIDUAL_NS // 1000} us, {most} (`nsys2prv align --plot` shows it over time)"
    ]
