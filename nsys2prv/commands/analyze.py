"""The way of an analysis: reports in, figures out, without a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.frames_of_run import GATHERED, gather, gathered_rows
from nsys2prv.analysis.result import Analysis, Question, find_out, restricted
from nsys2prv.commands.translate import chosen_span, stay_in_memory, try_all
from nsys2prv.errors import ReportError, UsageError
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.selection import Selection
from nsys2prv.intervals.classes import load_rules
from nsys2prv.model.interning import STREAM
from nsys2prv.model.metric_names import TENSOR
from nsys2prv.pipeline.extract.task import ExtractTask
from nsys2prv.pipeline.store.points import Span
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.pipeline.workers.resources import (
    INTERVAL_BYTES,
    check_analysis,
    check_temporary,
    input_size,
    within_memory,
)
from nsys2prv.pipeline.workers.workers import default_jobs, workers
from nsys2prv.pipeline.write.files import scratch
from nsys2prv.report.discover import find_reports
from nsys2prv.run.options import RunOptions
from nsys2prv.run.plan import Plan, make_plan


def analyze(
    inputs: Iterable[Path | str] | Path | str,
    *,
    question: Question | None = None,
    selection: Selection | None = None,
    options: RunOptions | None = None,
    metrics: Sequence[str] = (TENSOR,),
    nsys: Path | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    keep_going: bool = False,
    memory: int | None = None,
    spill_dir: Path | None = None,
    quiet: bool = True,
) -> Analysis:
    """The figures of a run. `metrics`: parts of the names of GPU metrics. `keep_going`: leave out unreadable reports.

    `jobs`: processes at most, of which a report is the work of one; `dask`: Dask workers instead, by address, `local`
    or `slurm`; `memory`: bytes that all processes here may take (workers half of what is free, then this one all of
    it); `spill_dir`: where intermediate files go (where the system has temporary ones). Raises Nsys2prvError.
    """
    with open_run(inputs, selection, options, metrics, nsys, jobs, dask, keep_going, memory, spill_dir, quiet) as run:
        return on_polars_thread(find_out)(run, question or Question())


@contextmanager
def open_run(
    inputs: Iterable[Path | str] | Path | str,
    selection: Selection | None = None,
    options: RunOptions | None = None,
    metrics: Sequence[str] = (TENSOR,),
    nsys: Path | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    keep_going: bool = False,
    memory: int | None = None,
    spill_dir: Path | None = None,
    quiet: bool = True,
) -> Iterator[Run]:
    """The frames of a run, on one clock, as for `analyze`. Samples are on disk: it is of use inside the context only.

    With `dask` they are in `spill_dir` or the current folder, which workers on other machines have to see.
    """
    chosen, how = selection or Selection(), options or RunOptions()
    failed: list[ReportError] = []
    found = find_reports(inputs, nsys, failed if keep_going else None)
    paths = [path.absolute() if dask else path for path in found]
    wanted = tuple(metrics) if GPU_METRICS.name in chosen.families else ()
    families = tuple(name for name in chosen.families if name in GATHERED)
    ranges = (chosen.nvtx,) if chosen.nvtx else ()
    rules = load_rules(chosen.classes) if chosen.classes else None
    # A report is one worker's.
    count = within_memory(min(jobs or default_jobs(input_size(paths), len(paths)), len(paths)), memory)
    hold = stay_in_memory(paths, count, dask)
    elsewhere = {*families, GPU_METRICS.name, *(f.name for f in FAMILIES if f.within)}
    timed = tuple(name for name in chosen.families if name not in elsewhere)
    ask = partial(ExtractTask, ranges=ranges, rules=rules, whole=True, metrics=wanted, hold=hold, timed=timed)
    anchors = how.fits_clocks and len(paths) > 1
    with _folder(spill_dir, dask) as folder:
        if not hold:
            check_temporary(folder, paths, chosen._replace(families=families), INTERVAL_BYTES)
        tasks = [ask(path, families, folder, f"{n:05}", anchors=anchors) for n, path in enumerate(paths)]
        with workers(jobs if dask else count, dask) as mapped:
            results = list(Progress(quiet).track("reading reports", try_all(mapped, tasks), len(tasks)))
        failed += [r for r in results if isinstance(r, ReportError)]
        summaries = [r for r in results if not isinstance(r, ReportError)]
        if failed and not (keep_going and summaries):
            raise failed[0]
        plan = on_polars_thread(make_plan)(summaries, how)
        whole = chosen.time is None and chosen.nvtx is None
        span = None if whole else Span(*chosen_span(plan, chosen))
        check_analysis(gathered_rows(plan, span), memory)
        run = gather(plan, how.hosts, [str(error) for error in failed], span)
        yield _cut(run, plan, span, wanted)


@contextmanager
def _folder(spill_dir: Path | None, dask: str | None) -> Iterator[Path]:
    """A folder for intermediate files, gone afterwards. Raises OutputError."""
    if spill_dir is None and dask is None:
        with TemporaryDirectory(prefix="nsys2prv-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    with scratch((spill_dir or Path.cwd()).absolute() / "nsys2prv-analysis") as folder:
        yield folder


def _cut(run: Run, plan: Plan, span: Span | None, wanted: Sequence[str]) -> Run:
    """The run within the time or range that was chosen."""
    if wanted and run.metrics and not run.samples and tuple(wanted) != (TENSOR,):
        raise UsageError(f"--metric: no GPU metric is called so; the metrics are: {', '.join(run.metrics)}")
    if span is None:
        return run
    low, high = span
    if run.work.is_empty() and STREAM in plan.objects.rows.kind:
        raise UsageError(
            f"the chosen time {low} to {high} ns holds no device activity; "
            f"choose another --time or --nvtx within the run's {plan.duration} ns"
        )
    return restricted(run, low, high)
