"""Analysis of a run: from its reports to figures, without a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.conclude import conclude
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.gather.frames_of_run import GATHERED
from nsys2prv.analysis.metrics.sm_clock import with_clocks
from nsys2prv.analysis.question import Question
from nsys2prv.commands.extraction import Extracted, extract_reports, reading_workers, workers_of_reports
from nsys2prv.commands.extraction_extent import anchors_for, chosen_span, families_to_draw, fits_in_memory
from nsys2prv.commands.inputs import find_run, read_profiles
from nsys2prv.commands.part_in_memory import part_in_memory
from nsys2prv.commands.whole_run import WholeRun
from nsys2prv.errors import UsageError
from nsys2prv.families.device.event_waits import FAMILY as EVENT_WAITS
from nsys2prv.families.metrics.gpu_metrics import FAMILY as GPU_METRICS
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.selection import Selection
from nsys2prv.intervals.classes import load_rules
from nsys2prv.intervals.spans import Span
from nsys2prv.model.event_types import KERNEL_FULL_NAME
from nsys2prv.model.interning import STREAM
from nsys2prv.model.metric_names import CLOCK, TENSOR, holds_any
from nsys2prv.model.words import NAMES_SHOWN, did_you_mean, few, short
from nsys2prv.pipeline.extract.report_part import Drawing, ReportPart, Storage, Wanted
from nsys2prv.pipeline.workers.disk_space import INTERVAL_BYTES, check_temporary
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.pipeline.write.files import scratch
from nsys2prv.run.plan import Plan, make_plan
from nsys2prv.run.run_options import RunOptions

# Families whose intervals an analysis reads.
ANALYZED = (*GATHERED, EVENT_WAITS.name)


def analyze(
    inputs: Iterable[Path | str] | Path | str,
    *,
    question: Question = Question(),
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    in_part: bool = False,
) -> Analysis:
    """Return the figures of a run, without writing a trace.

    `inputs` are files and folders; a folder means every report below it. `question`: the figures to find;
    `selection`: the part of the run that is analyzed; `options`: how the reports become one run; `execution`: how the
    work is done, each report by one process; `in_part`: of a run that does not fit in memory, analyze the middle part
    that does, and say so in its remarks; else it is refused. Intermediate files lie in the system's temporary folder by
    default. Raises Nsys2prvError.
    """
    with open_run(inputs, selection, options, question.metrics, execution, in_part) as run:
        return on_polars_thread(conclude)(run, question)


@contextmanager
def open_run(
    inputs: Iterable[Path | str] | Path | str,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    metrics: Sequence[str] = (TENSOR,),
    execution: Execution = Execution(),
    in_part: bool = False,
) -> Iterator[Run]:
    """Open the frames of a run on one clock, as for `analyze`; they are valid inside the context, as samples are files.

    With Dask the files are in `spill_dir` or the current folder, which workers on other machines have to see.
    `metrics`: texts that names of GPU metrics contain; `in_part`: see `analyze`.
    """
    memory, limits = execution.memory, execution.limits
    profiles = read_profiles(options)
    paths, options, failed = find_run(inputs, options, execution)
    sampled = tuple(metrics) if GPU_METRICS.name in selection.families else ()
    wanted = _wanted(selection, options, sampled, bool(profiles), len(paths))
    with _extracted(paths, selection, wanted, execution) as (extracted, workers):
        failed += extracted.failed
        plan = on_polars_thread(make_plan)(extracted.summaries, options, limits)
        chosen = chosen_span(plan, selection) if selection.chooses_time else None
        span, left_out, refusal = part_in_memory(plan, chosen, memory, limits, in_part)
        whole_run = WholeRun(
            plan=plan,
            failed=failed,
            memory=memory,
            workers=workers,
            profiles=profiles,
            span=span,
        )
        run = whole_run.frames()
        if refusal and run.work.is_empty() and STREAM in plan.objects.rows.kind:
            raise refusal
        run = run._replace(samples=with_clocks(run.samples, sampled))
        _check(run, plan, span, sampled)
        yield run._replace(remarks=(*run.remarks, *left_out), foremost=(*left_out, *run.foremost))


def _wanted(selection: Selection, options: RunOptions, metrics: Sequence[str], profiled: bool, reports: int) -> Wanted:
    """Return what an analysis of some reports extracts beside its families. `profiled`: kernels are matched by name."""
    return Wanted(
        points=False,
        analyzed=tuple(name for name in selection.families if name in ANALYZED),
        wait_calls=True,
        metrics=(*metrics, CLOCK) if metrics else (),
        anchors=anchors_for(options, reports),
        named_range=selection.nvtx,
        attributes=(KERNEL_FULL_NAME.key,) if profiled else (),
    )


@contextmanager
def _extracted(
    paths: Sequence[Path], selection: Selection, wanted: Wanted, execution: Execution
) -> Iterator[tuple[Extracted, Workers]]:
    """Extract reports into files, which are valid inside the context; the workers that did so have ended.

    Raises Nsys2prvError.
    """
    dask, limits = execution.dask, execution.limits
    drawing = Drawing(rules=load_rules(selection.classes) if selection.classes else None)
    count = workers_of_reports(paths, execution)
    in_memory = fits_in_memory(paths, count, dask, limits)
    with _folder(execution.spill_dir, dask) as folder:
        if not in_memory:
            check_temporary(folder, paths, replace(selection, families=wanted.analyzed), INTERVAL_BYTES)
        stored = Storage("", folder, in_memory=in_memory)
        with reading_workers(count, folder, execution) as workers:

            def extract(families: Sequence[str], reports: Sequence[Path]) -> Extracted:
                read = _families_to_extract(families)
                parts = [
                    [ReportPart(path, read, stored.named(f"{n:05}"), wanted, drawing, limits=limits)]
                    for n, path in enumerate(reports)
                ]
                return extract_reports(parts, workers, execution.keep_going)

            extracted = extract(selection.families, paths)
            # Of reports with nothing of the default families, more of them.
            more = families_to_draw(selection.families, extracted.summaries)
            if more != selection.families:
                again = extract(more, extracted.paths)
                extracted = again._replace(failed=[*extracted.failed, *again.failed])
        yield extracted, workers


def _families_to_extract(families: Sequence[str]) -> tuple[str, ...]:
    """Return the families that an analysis reads, then those that only tell which rows the trace has, and when.

    Families whose events lie within those of others add nothing to that.
    """
    analyzed = [name for name in families if name in ANALYZED]
    elsewhere = {*analyzed, GPU_METRICS.name, *(f.name for f in FAMILIES if f.within)}
    return (*analyzed, *(name for name in families if name not in elsewhere))


@contextmanager
def _folder(spill_dir: Path | None, dask: str | None) -> Iterator[Path]:
    """Make a folder for intermediate files, which is removed afterwards. Raises OutputError."""
    if spill_dir is None and dask is None:
        with TemporaryDirectory(prefix="nsys2prv-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    with scratch((spill_dir or Path.cwd()).absolute() / "nsys2prv-analysis") as folder:
        yield folder


def _check(run: Run, plan: Plan, span: Span | None, metrics: Sequence[str]) -> None:
    """Refuse metrics that the reports lack, and a chosen time or range in which nothing is left. Raises UsageError."""
    lacking = [text for text in metrics if not any(holds_any(name, [text]) for name in run.metrics)]
    if lacking and run.metrics and tuple(metrics) != (TENSOR,):
        near = did_you_mean(lacking[0], run.metrics)
        raise UsageError(
            f"--metric {short(lacking[0])!r}: no GPU metric has this in its name{near}; "
            f"the metrics are: {few(run.metrics, NAMES_SHOWN)}"
        )
    if span and run.work.is_empty() and STREAM in plan.objects.rows.kind:
        low, high = span
        raise UsageError(
            f"the chosen time, {low / 1e9:.6f} to {high / 1e9:.6f} s, holds no device activity; "
            f"choose another --time or --nvtx within the run's {plan.duration / 1e9:.6f} s"
        )
