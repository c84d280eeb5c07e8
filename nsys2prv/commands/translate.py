"""Translation of the reports of one run into one trace."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from nsys2prv.commands.extraction_extent import estimates_tensor, fits_in_memory
from nsys2prv.commands.inputs import find_run, read_profiles
from nsys2prv.commands.row_counts import RowCounts, count_rows
from nsys2prv.commands.translation import Translation, Used, Written, translation_of
from nsys2prv.commands.translation_stages import Stages, TranslationRequest, TranslationResources
from nsys2prv.families.selection import Selection
from nsys2prv.families.whole_run import EXPLANATION_FAMILIES
from nsys2prv.intervals.classes import load_rules
from nsys2prv.pipeline.encode.bundles import merge_reports
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.pipeline.extract.parts import divided
from nsys2prv.pipeline.workers.disk_space import INTERVAL_BYTES, POINTS_BYTES, check_space, check_temporary, folder_size
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.input_size import input_size
from nsys2prv.pipeline.workers.maps import Workers
from nsys2prv.pipeline.workers.memory import peak_memory, within_memory
from nsys2prv.pipeline.workers.progress import Progress
from nsys2prv.pipeline.workers.worker_map import process_count, worker_map
from nsys2prv.pipeline.write.body import write_windows
from nsys2prv.pipeline.write.comments import comment_text, given_options
from nsys2prv.pipeline.write.files import Target, end_member, open_body, publish, scratch
from nsys2prv.pipeline.write.redact import Redaction
from nsys2prv.pipeline.write.side_files import side_files
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.run.forecast import check_size, forecast, trace_size
from nsys2prv.run.run_options import RunOptions


def translate(
    inputs: Iterable[Path | str] | Path | str,
    output: Path | str,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    writing: TraceOutput = TraceOutput(),
    force: bool = False,
    dry_run: bool = False,
) -> Translation:
    """Translate the reports of one run into one trace: `output`.prv (or .prv.gz), .pcf and .row, and .align.json.

    `inputs` are files and folders; a folder means every report below it. `selection`: the part of the run that is
    translated; `options`: how the reports become one run; `execution`: how the work is done; `writing`: how the trace
    is written. `force`: write over an existing trace; `dry_run`: write nothing, and return the forecast sizes.
    With `writing.summary` the run is also analyzed. Raises Nsys2prvError; then nothing is left where the
    output should be.
    """
    # Dask workers have a current folder of their own.
    target = Target.of(Path(output).absolute() if execution.dask else output, writing.compress)
    target.check(force or dry_run)
    with _prepared(inputs, target, selection, options, execution, writing) as stages:
        encoding = stages.encoding_input()
        whole = stages.whole_run(encoding.plan) if writing.summary else None
        if whole:
            whole.check()
        sizes = _forecast_sizes(encoding)
        temporary = folder_size(stages.workers.folder)
        redaction = Redaction.of(encoding.plan, stages.failed) if writing.redact else None
        made = None if dry_run else _make(encoding, target, stages, redaction, sizes)
        analysis = None
        if whole:
            with stages.stage("analyze"):
                analysis = whole.analysis(writing.window)
        if made:
            # Last: a run that cannot be analyzed leaves no trace.
            publish(target, made.body, made.texts, stale=[target.other])
        counted = made.counts if made else count_rows(encoding, [])
        used = Used(temporary, peak_memory())
    removed = dict(redaction.removed) if redaction else None
    written = Written(target.prv if made else None, made.lines if made else 0, sizes, target.compress, removed)
    begin = stages.chosen_ns[0] if stages.chosen_ns else 0
    return translation_of(encoding, counted, written, used, stages.seconds, stages.failed, begin, analysis)


@contextmanager
def _prepared(
    inputs: Iterable[Path | str] | Path | str,
    target: Target,
    selection: Selection,
    options: RunOptions,
    execution: Execution,
    writing: TraceOutput,
) -> Iterator[Stages]:
    """Find the run, read the files that options name, start workers, and make temporary folders.

    Raises Nsys2prvError.
    """
    profiles = read_profiles(options)
    paths, as_named, failed = find_run(inputs, options, execution)
    rules = load_rules(selection.classes) if selection.classes else None
    kept_whole = writing.summary or bool(profiles) or any(f in selection.families for f in EXPLANATION_FAMILIES)
    row_bytes = POINTS_BYTES + (INTERVAL_BYTES if kept_whole else 0)
    with _resources(paths, selection, target, execution, row_bytes) as resources:
        request = TranslationRequest(
            paths=paths,
            options=as_named,
            given=options,
            writing=writing,
            rules=rules,
            profiles=profiles,
            keep_going=execution.keep_going,
            estimated=estimates_tensor(paths, selection.families),
        )
        yield Stages(request, resources, selection, failed)


def _forecast_sizes(encoding: EncodingInput) -> Mapping[str, int]:
    """Return the bytes that each family is expected to take in the trace."""
    matched = (*encoding.matches.messages, *encoding.run_spills)
    return forecast(encoding.plan, matched, encoding.estimates.kernels if encoding.estimates else 0)


class _Made(NamedTuple):
    """A trace beside its output: the file of its body, its lines and counts, and the texts of the files beside it."""

    body: Path
    lines: int
    counts: RowCounts
    texts: Mapping[Path, str]


def _make(
    encoding: EncodingInput, target: Target, stages: Stages, redaction: Redaction | None, sizes: Mapping[str, int]
) -> _Made:
    """Make a trace of forecast sizes in the folder beside its output. Raises Nsys2prvError if it does not fit."""
    size = check_size(sizes, target.compress, stages.request.writing.max_size)
    check_space(target.stem.parent, size, "the trace would take about", "choose another output")
    with stages.stage("encode"):
        body = stages.resources.beside / target.prv.name
        lines, counted = _write(encoding, body, stages, redaction, trace_size(sizes, compress=False))
        return _Made(body, lines, counted, side_files(encoding, target, redaction))


@contextmanager
def _resources(
    paths: Sequence[Path], selection: Selection, target: Target, execution: Execution, row_bytes: int
) -> Iterator[TranslationResources]:
    """Start workers for reports, and make temporary folders. Raises Nsys2prvError.

    `row_bytes`: bytes of temporary files that a row takes at least.
    """
    limits = execution.limits
    useful = process_count(input_size(paths), len(paths), execution.jobs, limits)
    count = within_memory(useful, execution.memory, limits)
    several = count if execution.dask is None else max(count, 2)
    parts = divided(paths, selection.families, several, limits)
    in_memory, started = fits_in_memory(paths, count, execution.dask, limits), time.perf_counter()
    with ExitStack() as stack:
        beside = folder = stack.enter_context(scratch(target.stem, alone=True))
        if execution.spill_dir:
            # Apart from the folder beside the output, which may be the same.
            folder = stack.enter_context(scratch(execution.spill_dir / f"{target.stem.name}.spill"))
        jobs = execution.jobs if execution.dask else count
        mapped = stack.enter_context(worker_map(jobs, execution.dask, sum(map(len, parts.values()))))
        check_temporary(folder, paths, selection, row_bytes)
        yield TranslationResources(
            workers=Workers(
                map=mapped, count=several, folder=folder, limits=limits, progress=Progress(execution.quiet)
            ),
            beside=beside,
            in_memory=in_memory,
            parts=parts,
            memory=execution.memory,
            started=started,
        )


def _write(
    encoding: EncodingInput, body: Path, stages: Stages, redaction: Redaction | None, size: int
) -> tuple[int, RowCounts]:
    """Write header, windows in order, and comments; return lines and counts.

    `size`: bytes of the trace, about, not compressed.
    """
    workers, plan = stages.workers, encoding.plan
    bundles, merged = merge_reports(encoding, workers, size)
    encoding = encoding._replace(bundles=bundles)
    with open_body(body, workers.limits.member_lines if body.suffix == ".gz" else None) as sink:
        sink.write(plan.header.encode())
        end_member(sink)
        windows = write_windows(encoding, sink, workers)
        written = list(workers.progress.track("writing", windows, len(encoding.windows)))
        rows = count_rows(encoding, [*merged, *written])
        end_member(sink)
        given = given_options(stages.selection, stages.request.given, stages.request.writing.public_types)
        comments = comment_text(plan, given, stages.chosen_ns, rows.dropped, rows.off, stages.failed, redaction)
        sink.write(comments.encode())
    return sum(window.lines for window in written), rows
