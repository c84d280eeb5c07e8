"""Alignment of the clocks of a run's reports, without translating them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nsys2prv.commands.extraction import as_named
from nsys2prv.families.registry import ANCHOR_FAMILIES
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.task import ExtractTask, Storage, Wanted
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.resources import input_size
from nsys2prv.pipeline.workers.workers import default_jobs, workers
from nsys2prv.report.discover import find_reports, listed
from nsys2prv.run.clocks import Alignment
from nsys2prv.run.clocks import align as align_clocks
from nsys2prv.run.hosts import find_hosts, unused_hosts
from nsys2prv.run.options import RunOptions
from nsys2prv.run.separate_runs import check_one_run


def align(
    inputs: Iterable[Path | str] | Path | str,
    *,
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
) -> Alignment:
    """Align the reports of one run; see `Alignment`. Raises Nsys2prvError."""
    named = listed(inputs)
    options = as_named(options, named)
    paths = find_reports(named, execution.nsys)
    wanted = Wanted(anchors=ANCHOR_FAMILIES)
    tasks = [ExtractTask(path, (), Storage(f"{n:05}"), wanted) for n, path in enumerate(paths)]
    with workers(execution.jobs or default_jobs(input_size(paths), len(paths), execution.limits)) as mapped:
        summaries = list(mapped(extract, tasks))
    names = [s.name for s in summaries]
    hosts = find_hosts([s.identity for s in summaries], names, options.hosts)
    several = check_one_run(summaries, hosts, insists=bool(options.one_run))
    found = align_clocks(summaries, hosts, options.align, options.offsets, options.rank_from)
    return found._replace(warnings=(*several, *unused_hosts(options.hosts, names), *found.warnings))
