"""Analyses as text for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import polars as pl

from nsys2prv.analysis import shown_tables as shown
from nsys2prv.analysis.analysis_json import device_values, fractions
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.communication.waiting import ALL_OPERATIONS
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen, see_samples
from nsys2prv.analysis.frames import Device
from nsys2prv.analysis.host import HostTime
from nsys2prv.analysis.iterations.iteration_times import iteration_means
from nsys2prv.analysis.metrics.metrics_by_class import ClassMean
from nsys2prv.analysis.sentences import (
    communication_name,
    communication_row,
    efficiency_text,
    found_by,
    left_out,
    parts_by_name,
    window_name,
    windows_by_name,
)
from nsys2prv.analysis.shown_tables import ShownTable
from nsys2prv.cli.explanation_tables import explanation_sections, waiting_sections
from nsys2prv.cli.sections import SECTIONS
from nsys2prv.cli.text_table import ALL_RANKS, TABLE_ROWS, Section, aligned, ms, printable, section
from nsys2prv.cli.work_tables import launch_sections, ncu_sections
from nsys2prv.families.host.cpu_samples import FAMILY as CPU_SAMPLES
from nsys2prv.families.nvtx.python_samples import FAMILY as PYTHON_SAMPLES
from nsys2prv.model.words import few, short

# Highest number of iterations in a table: of more, the longest ones show.
MOST_ITERATIONS = 20
# Number of the longest iterations that are named.
LONGEST = 5
# Highest number of GPUs with a column in a table.
MANY = 8
# Longest text of a finding.
FINDING_WIDTH = 1000


def text_of(analysis: Analysis, held: bool, details: bool = False, chosen: Collection[str] = SECTIONS) -> str:
    """Return the chosen sections of an analysis as aligned tables, then the names of those without rows.

    `held`: GPU metrics as plain averages of the samples inside kernels, instead of estimates; `details`: also the
    remarks that hardly matter; `chosen`: names of the sections.
    """
    made = ((name, [*lines]) for name, lines in _paragraphs(analysis, held, chosen) if name in chosen)
    with_rows = [(name, lines) for name, lines in made if lines]
    found = [line for _, lines in with_rows for line in ["", *lines]]
    found += ["", *(f"detail: {text}" for text in analysis.run.details)] if details else []
    if {*chosen} != {*SECTIONS} and (empty := sorted({*chosen} - {name for name, _ in with_rows})):
        found += ["", f"The run has no rows in {few(empty, len(empty))}."]
        if shown.HOST_SAMPLES.section in empty:
            found.append(_without_samples(analysis))
    return "\n".join(found).strip("\n")


def _without_samples(analysis: Analysis) -> str:
    """Return why no samples of hosts are listed: none lies in an idle time, or the reports hold none."""
    if analysis.run.recorded_families & {CPU_SAMPLES.name, PYTHON_SAMPLES.name}:
        return "Samples of hosts: none is of a launching thread while devices have no launched work."
    return f"Samples of hosts: {see_samples(analysis.run, Seen())}."


def _paragraphs(analysis: Analysis, held: bool, chosen: Collection[str]) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield names of sections, each with lines of it, made as they are read. `held`, `chosen`: see text_of."""
    yield "window", window_lines(analysis)
    yield "defects", _defects(analysis)
    for name, title, head, rows in sections(analysis, held, chosen):
        yield name, _table(title, head, rows)
    yield "iterations", _lengths(analysis)
    yield "iterations", _ranks(analysis)
    if shown.HOST_SAMPLES.section in chosen:
        yield shown.HOST_SAMPLES.section, analysis.host_samples().unread
    yield "warnings", (f"warning: {text}" for text in analysis.run.remarks)
    yield "missing", (f"Not recorded: {what}; nsys profile {how}" for what, how in analysis.missing.items())


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield title and lines of a table that has rows."""
    if rows:
        yield title
        yield aligned(head, rows)


def window_lines(analysis: Analysis, counting: bool = True) -> Iterator[str]:
    """Yield the window of interest, then each reason to leave out iterations. `counting`: as what NCCL counts."""
    window = analysis.window
    time = f"{window.start} to {window.end} ns, {ms(window.spans.total())} ms"
    if len(window.spans.start) > 1:
        time += f" in {len(window.spans.start)} spans"
    nccl = f" NCCL counts as {analysis.question.nccl} (--nccl)." if counting else ""
    yield f"Window: {window_name(analysis)} ({time}).{nccl}"
    yield from map(printable, found_by(analysis))
    yield from left_out(analysis)


def _findings(analysis: Analysis) -> Section:
    rows = shown.finding_rows([one.as_json() for one in analysis.findings])
    columns = ("severity", "id", "cost_ns", "share", "confidence", "title")
    return section(shown.FINDINGS, columns, rows, width=FINDING_WIDTH)


def _defects(analysis: Analysis) -> Iterator[str]:
    """Yield the defects of the reports, the worst first, with their effects."""
    if analysis.run.defects:
        yield f"{shown.DEFECTS.title}:"
    for defect in analysis.run.defects:
        yield f"  {defect.sentence} [{few(list(defect.reports))}]"


def short_text_of(analysis: Analysis) -> str:
    """Return the few lines that close a translation, the window of interest first."""
    e = efficiency_text(analysis.efficiency, analysis)
    efficiency = f"Parallel efficiency of the devices {e} (NCCL as {analysis.question.nccl})"
    lines = [*window_lines(analysis, counting=False)]
    lines.append(efficiency if analysis.efficiency.measured else "The reports hold no device activity.")
    if analysis.leaves_time_between:
        whole = analysis.whole_efficiency
        lines.append(f"With the time between iterations, {ms(whole.window_ns)} ms: {efficiency_text(whole, analysis)}")
    every = analysis.overlap.filter(pl.col("operation") == ALL_OPERATIONS)
    if every.height and (total := int(every["communication_ns"].sum())):
        share = int(every["overlapped_ns"].sum()) / total
        lines.append(f"Communication {ms(total)} ms over all ranks, {100 * share:.1f} % of it overlapped with compute")
    return "\n".join([*lines, "", *_ranks(analysis)]).rstrip("\n")


def sections(analysis: Analysis, held: bool, chosen: Collection[str] = SECTIONS) -> Iterator[Section]:
    """Yield name, title, column names and rows of each table, in order of importance. `held`, `chosen`: see text_of."""
    yield _findings(analysis)
    yield _efficiency(analysis)
    yield section(shown.FACTORS, ("communication", "serialization", "transfer"), communication_row(analysis))
    times = ("rank", "host", "gpu", "useful_ns", "busy_ns")
    yield section(shown.DEVICES, times, device_values(analysis.efficiency))
    yield section(shown.HOST, ("factor", "value"), shown.host_factors(analysis.host))
    yield section(shown.MAIN_THREADS, HostTime._fields, [time._asdict() for time in analysis.host.ranks])
    yield _overlap(analysis)
    yield from waiting_sections(analysis.explanation, analysis.run)
    yield from explanation_sections(analysis.explanation, analysis.run)
    yield from _metrics(analysis, held)
    means = iteration_means(analysis.iterations)
    yield section(shown.ITERATION_MEANS, means.columns, means.to_dicts())
    yield _sums(shown.CLASSES, analysis.classes, "family")
    yield _sums(shown.KERNELS, analysis.kernels, "class", "name")
    yield from ncu_sections(analysis)
    yield _sums(shown.MEMORY, analysis.memory, "name")
    yield from launch_sections(analysis)
    yield _sums(shown.API, analysis.api, "kind", "name")
    yield section(shown.RANGES, analysis.ranges.columns, analysis.ranges.head(TABLE_ROWS).to_dicts())
    yield _sums(shown.NVTX, analysis.nvtx, "name")
    yield _gaps(analysis.gaps)
    # To read them takes long.
    if shown.HOST_SAMPLES.section in chosen:
        yield _host_samples(analysis.host_samples().table)


def _efficiency(analysis: Analysis) -> Section:
    every = analysis.iteration_efficiency
    longest_first = sorted(range(len(every)), key=lambda n: -every[n].efficiency.window_ns)
    longest = [every[n] for n in sorted(longest_first[:MOST_ITERATIONS])]
    parts = [(name, part.efficiency) for name, part in parts_by_name(analysis.phases, longest)]
    named = [*windows_by_name(analysis), *parts]
    rows = [{"name": name, "window_ns": e.window_ns, **fractions(e)} for name, e in named if e.measured]
    if rows and (more := len(every) - len(longest)):
        rows.append({"name": f"(shorter iterations, not shown: {more})"})
    columns = ("name", "window_ns", "parallel", "load_balance", "communication", "orchestration")
    return section(shown.with_communication(shown.EFFICIENCY, communication_name(analysis)), columns, rows)


def _overlap(analysis: Analysis) -> Section:
    rows = analysis.overlap.filter(pl.col("communication_ns") > 0).to_dicts()
    rows = shown.with_percent(rows, "overlapped_percent", "overlapped_ns", "communication_ns")
    return section(shown.OVERLAP, (*analysis.overlap.columns, "overlapped_percent"), rows)


def _metrics(analysis: Analysis, held: bool) -> Iterator[Section]:
    """Yield one table a metric: rows are classes, columns are GPUs (the first of many)."""
    for metric in dict.fromkeys(f.metric for f in analysis.metrics):
        of_metric = [f for f in analysis.metrics if f.metric == metric]
        # That of all GPUs together comes first.
        fits, gpus = of_metric[: MANY + 1], sum(f.device is not None for f in of_metric)
        classes = dict.fromkeys(c.classes for f in fits for c in f.classes)
        cells = [{c.classes: _mean(c, held) for c in f.classes} for f in fits]
        rows = [[" + ".join(names), *(own.get(names, "") for own in cells)] for names in classes]
        head = ["all" if f.device is None else _gpu_head(analysis.run.devices, f.device) for f in fits]
        if not held:
            rows.append(["R2", *(f"{f.r2:.3f}" for f in fits)])
            rows.append(["R2, iterations left out", *(f"{f.r2_left_out:.3f}" for f in fits)])
        rows.append(["samples", *(f"{f.samples} x {f.period_ns / 1000:.0f} us" for f in fits)])
        how = "held samples averaged inside kernels" if held else "estimate while a class runs, +- standard error"
        shown_of = f"; the first {MANY} of {gpus} GPUs" if gpus > MANY else ""
        yield "metrics", f"{metric} by class: {how}{shown_of}", ["class", *head], rows


def _gpu_head(devices: Sequence[Device], number: int) -> str:
    """Return the head of the column of a GPU, by its index: its rank, and its own number where the rank has several."""
    device = devices[number]
    several = sum(other.rank == device.rank for other in devices) > 1
    return f"rank {device.rank}, GPU {device.gpu}" if several else f"rank {device.rank}"


def _mean(found: ClassMean, held: bool) -> str:
    if held:
        return f"{found.held:.1f}"
    return found.note or f"{found.mean:.1f} +-{found.std_error:.1f}"


def _lengths(analysis: Analysis) -> Iterator[str]:
    """Yield how long iterations take, on the rank that takes longest in each, and which take longest."""
    steady = analysis.iterations.filter("steady")
    lengths = steady.group_by("repeat", "iteration").agg(ns=pl.col("total_ns").max())
    if lengths.height < 2:
        return
    longest = [
        f"{number}{f' of repeat {repeat}' if repeat else ''} ({ms(ns)})"
        for repeat, number, ns in lengths.sort(-pl.col("ns"), "repeat", "iteration").head(LONGEST).rows()
    ]
    shortest, median, decile = (float(lengths["ns"].quantile(part, "nearest") or 0) for part in (0.0, 0.5, 0.9))
    spread = f"shortest {ms(shortest)}, median {ms(median)}, 9th decile {ms(decile)}"
    each = "Longest rank of each iteration, on the host" if analysis.run.rank_count > 1 else "Lengths on the host"
    yield f"{each}, in ms: {spread}; longest: iterations {', '.join(longest)}."


def _ranks(analysis: Analysis) -> Iterator[str]:
    """Yield the slow ranks of the iterations, and the late ones."""
    ranks = analysis.ranks
    if ranks is None:
        return
    slow = ", ".join(f"rank {rank} in {count}" for rank, count in ranks.slow.items()) or "none"
    count = analysis.iterations.select("iteration", "repeat").n_unique()
    pattern = short(printable(analysis.iteration_pattern or ""))
    yield f"Iterations `{pattern}`: {count}. Slow (own time 5 % above the median of the ranks): {slow}."
    yield f"Mean own time: rank {ranks.slowest} has the longest, rank {ranks.fastest} the shortest."
    late = analysis.delays.select("rank", "iteration", "phase", "delay_ns").head(TABLE_ROWS)
    for rank, iteration, phase, delay in late.rows():
        yield f"Late: rank {rank} in iteration {iteration}, by {ms(delay)} ms in `{short(phase)}`."


def _sums(table: ShownTable, sums: pl.DataFrame, *by: str) -> Section:
    rows = sums.filter(pl.col("rank").is_null()).head(TABLE_ROWS).to_dicts()
    times = ("avg_ns", "med_ns", "p90_ns", "p99_ns", "min_ns", "max_ns", "stddev_ns")
    return section(table, ("time_percent", "total_ns", "instances", *times, *by), rows, ALL_RANKS)


def _host_samples(table: pl.DataFrame) -> Section:
    """Return the most frequent functions of each family of samples, and how many others there are."""
    rows: list[dict[str, object]] = []
    for (family,), own in table.group_by("family", maintain_order=True):
        rows += own.head(TABLE_ROWS).to_dicts()
        if own.height > TABLE_ROWS:
            rows.append({"family": family, "function": f"(fewer samples, not shown: {own.height - TABLE_ROWS})"})
    columns = ("family", "samples", "share", "function", "file", "after", "before")
    return section(shown.HOST_SAMPLES, columns, rows)


def _gaps(table: pl.DataFrame) -> Section:
    rows = [
        {
            **row,
            "after": short(row["after"] or "", 30),
            "before": short(row["before"] or "", 30),
            "call": f"{short(row['call'])} {ms(row['call_ns'])} ms" if row["call"] else "",
        }
        for row in table.to_dicts()
    ]
    return section(shown.IDLE, ("rank", "gpu", "start_ns", "idle_ns", "after", "before", "call", "range"), rows)
