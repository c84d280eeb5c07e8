"""Alignment of the clocks of a run's reports, without translating them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from nsys2prv.commands.extraction import Extracted, extract_reports, reading_workers, workers_of_reports
from nsys2prv.commands.inputs import find_run
from nsys2prv.families.registry import ANCHOR_FAMILIES
from nsys2prv.pipeline.extract.report_part import ReportPart, Storage, Wanted
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.run.clocks import Alignment
from nsys2prv.run.clocks import align as align_clocks
from nsys2prv.run.hosts import find_hosts, unused_hosts
from nsys2prv.run.ranks import report_ranks
from nsys2prv.run.run_options import RunOptions
from nsys2prv.run.separate_runs import check_one_run


def align(
    inputs: Iterable[Path | str] | Path | str,
    *,
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
) -> Alignment:
    """Align the reports of one run; see `Alignment`. Reports that are left out are among its warnings.

    Raises Nsys2prvError.
    """
    paths, options, failed = find_run(inputs, options, execution)
    extracted = _with_anchors(paths, execution)
    summaries = extracted.summaries
    identities, names = [s.identity for s in summaries], [s.name for s in summaries]
    hosts = find_hosts(identities, names, options.hosts)
    several = check_one_run(summaries, hosts, insists=bool(options.one_run))
    found = align_clocks(summaries, hosts, options.align, options.offsets)
    # Tasks, which give a plan its ranks, come from events, and only anchors are read here.
    found = found.with_ranks(report_ranks(identities, names, hosts, options.rank_from))
    left_out = [f"left out: {error}" for error in (*failed, *extracted.failed)]
    return found._replace(warnings=(*several, *unused_hosts(options.hosts, names), *found.warnings, *left_out))


def _with_anchors(paths: Sequence[Path], execution: Execution) -> Extracted:
    """Extract the anchors of reports, and nothing else: no folder is needed."""
    wanted = Wanted(anchors=ANCHOR_FAMILIES)
    reports = [
        [ReportPart(path, (), Storage(f"{n:05}", scratch=execution.spill_dir), wanted, limits=execution.limits)]
        for n, path in enumerate(paths)
    ]
    with reading_workers(workers_of_reports(paths, execution), Path(), execution) as workers:
        return extract_reports(reports, workers, execution.keep_going)
