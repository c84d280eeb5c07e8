"""Analyses as text for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.efficiency import Efficiency
from nsys2prv.analysis.metrics import ClassMean
from nsys2prv.analysis.sentences import found_by, left_out, window_name
from nsys2prv.analysis.waiting import ALL_OPERATIONS
from nsys2prv.cli.explanation_tables import Section, explanation_sections
from nsys2prv.cli.launch_tables import launch_sections
from nsys2prv.cli.ncu_tables import ncu_sections
from nsys2prv.cli.sections import SECTIONS
from nsys2prv.cli.text_table import TABLE_ROWS, aligned, ms, printable
from nsys2prv.cli.waiting_tables import waiting_sections
from nsys2prv.errors import few, short

# Highest number of iterations in a table: of more, the longest ones show.
MOST_ITERATIONS = 20
# Highest number of GPUs with a column in a table.
MANY = 8


def text_of(analysis: Analysis, held: bool, details: bool = False, chosen: Collection[str] = SECTIONS) -> str:
    """Return sections of an analysis as aligned tables. `details`: with the remarks that hardly matter."""
    lines = [
        *(window_lines(analysis) if "window" in chosen else []),
        *(_defects(analysis) if "defects" in chosen else []),
    ]
    for name, title, head, rows in sections(analysis, held):
        if rows and name in chosen:
            lines += ["", title, aligned(head, rows)]
    lines += _ranks(analysis) if "iterations" in chosen else []
    lines += ["", *(f"warning: {text}" for text in analysis.run.remarks)] if "warnings" in chosen else []
    lines += [*(f"detail: {text}" for text in analysis.run.details)] if details else []
    if "missing" in chosen:
        lines += [*(f"Not recorded: {what}; nsys profile {how}" for what, how in analysis.missing.items())]
    return "\n".join(lines).strip("\n")


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


def _findings(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    rows = [
        [str(one.severity), one.id, ms(one.cost_ns), f"{100 * one.share:.1f}", one.confidence, one.title]
        for one in analysis.findings
    ]
    return ["severity", "id", "cost ms", "%", "confidence", "finding"], rows


def _defects(analysis: Analysis) -> list[str]:
    """List the defects of the reports, the worst first, with their effects."""
    lines = [f"  {defect.sentence} [{few(list(defect.reports))}]" for defect in analysis.run.defects]
    return ["", "Wrong or missing in the reports, the worst first:", *lines] if lines else []


def short_text_of(analysis: Analysis) -> str:
    """Return the few lines that close a translation, the window of interest first."""
    e = analysis.efficiency
    parts = (
        f"{e.load_balance:.3f} load balance x {e.communication:.3f} communication x {e.orchestration:.3f} orchestration"
    )
    efficiency = f"Parallel efficiency of the devices {e.parallel:.3f} = {parts} (NCCL as {analysis.question.nccl})"
    lines = [*window_lines(analysis, counting=False)]
    lines.append(efficiency if e.measured else "The reports hold no device activity.")
    every = analysis.overlap.filter(pl.col("operation") == ALL_OPERATIONS)
    if every.height and (total := int(every["communication_ns"].sum())):
        share = int(every["overlapped_ns"].sum()) / total
        lines.append(f"Communication {ms(total)} ms over all ranks, {100 * share:.1f} % of it overlapped with compute")
    return "\n".join([*lines, *_ranks(analysis)])


def sections(analysis: Analysis, held: bool) -> Iterator[Section]:
    """Yield name, title, column names and rows of each table, in order of importance."""
    yield "findings", "Findings", *_findings(analysis)
    yield "efficiency", "Device efficiency", *_efficiency(analysis)
    yield "efficiency", "Communication efficiency of the window", *_factors(analysis)
    yield "devices", "Device time", *_devices(analysis.efficiency)
    yield "host", "Host side", *_host_efficiency(analysis)
    yield "host", "Time of main threads", *_host(analysis)
    yield "overlap", "Communication", *_overlap(analysis)
    yield from waiting_sections(analysis.explanation, analysis.run)
    yield from explanation_sections(analysis.explanation, analysis.run)
    yield from _metrics(analysis, held)
    yield "iterations", "Iterations, mean by rank", *_iterations(analysis)
    yield "classes", "Kernel classes, all ranks", *_sums(analysis.classes, ["family"])
    yield "kernels", "Kernels, all ranks", *_sums(analysis.kernels, ["class", "name"])
    yield from ncu_sections(analysis)
    yield "memory", "Memory operations, all ranks", *_sums(analysis.memory, ["name"])
    yield from launch_sections(analysis)
    yield "api", "Host calls, all ranks", *_sums(analysis.api, ["kind", "name"])
    yield "ranges", "NVTX ranges on the device (by process)", *_ranges(analysis.ranges)
    yield "nvtx", "NVTX ranges on the host, all ranks", *_sums(analysis.nvtx, ["name"])
    yield "idle", "Longest idle times by device", *_gaps(analysis.gaps)


def _fraction(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _efficiency(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    every = analysis.iteration_efficiency
    longest_first = sorted(range(len(every)), key=lambda n: -every[n].efficiency.window_ns)
    longest = [every[n] for n in sorted(longest_first[:MOST_ITERATIONS])]
    named = [(analysis.question.window, analysis.efficiency)]
    named += [(p.name, p.efficiency) for p in (*analysis.phases, *longest)]
    rows = [
        [
            short(name),
            ms(e.window_ns),
            *map(_fraction, (e.parallel, e.load_balance, e.communication, e.orchestration)),
        ]
        for name, e in named
        if e.measured
    ]
    if rows and (more := len(every) - len(longest)):
        rows.append([f"(shorter iterations, not shown: {more})", *[""] * 5])
    return ["of", "window ms", "parallel", "= load balance", "x communication", "x orchestration"], rows


def _factors(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    factors = analysis.communication_factors
    rows = [[_fraction(analysis.efficiency.communication), *map(_fraction, factors.values())]] if factors else []
    return ["communication", "= serialization", "x transfer"], rows


def _devices(found: Efficiency) -> tuple[list[str], list[list[str]]]:
    rows = [
        [str(t.device.rank), t.device.host, str(t.device.gpu), ms(t.useful_ns), ms(t.busy_ns)] for t in found.devices
    ]
    return ["rank", "host", "gpu", "useful ms", "busy ms"], rows


def _host(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    rows = [[str(t.rank), ms(t.mpi_ns), ms(t.cuda_ns), ms(t.synchronization_ns)] for t in analysis.host.ranks]
    return ["rank", "MPI ms", "CUDA calls ms", "waiting in synchronization ms"], rows


def _host_efficiency(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    names = {
        "offload": "device offload (upper bound)",
        "mpi": "MPI parallel",
        "mpi_balance": "  = load balance",
        "mpi_communication": "  x communication",
    }
    values = analysis.host._asdict()
    return ["host efficiency", ""], [[n, f"{values[k]:.4f}"] for k, n in names.items() if values[k] is not None]


def _overlap(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            str(row["rank"]),
            row["communicator"] or "",
            row["operation"],
            str(row["kernels"]),
            "" if row["bytes"] is None else f"{row['bytes'] / 1e6:.3f}",
            *(ms(row[f"{n}_ns"]) for n in ("communication", "overlapped", "exposed")),
            f"{100 * row['overlapped_ns'] / row['communication_ns']:.1f}",
        ]
        for row in analysis.overlap.filter(pl.col("communication_ns") > 0).rows(named=True)
    ]
    head = ["rank", "communicator", "operation", "kernels", "MB", "ms", "overlapped ms", "exposed ms", "overlapped %"]
    return head, rows


def _metrics(analysis: Analysis, held: bool) -> Iterator[Section]:
    """Yield one table a metric: rows are classes, columns are GPUs (the first of many)."""
    for metric in dict.fromkeys(f.metric for f in analysis.metrics):
        fits = [f for f in analysis.metrics if f.metric == metric][: MANY + 1]
        classes = dict.fromkeys(c.classes for f in fits for c in f.classes)
        cells = [{c.classes: _mean(c, held) for c in f.classes} for f in fits]
        rows = [[" + ".join(names), *(own.get(names, "") for own in cells)] for names in classes]
        head = ["all" if f.device is None else f"rank {analysis.run.devices[f.device].rank}" for f in fits]
        if not held:
            rows.append(["R2", *(f"{f.r2:.3f}" for f in fits)])
            rows.append(["R2, iterations left out", *(f"{f.r2_left_out:.3f}" for f in fits)])
        rows.append(["samples", *(f"{f.samples} x {f.period_ns / 1000:.0f} us" for f in fits)])
        how = "held samples averaged inside kernels" if held else "estimate while a class runs, +- standard error"
        yield "metrics", f"{metric} by class: {how}", ["class", *head], rows


def _mean(found: ClassMean, held: bool) -> str:
    if held:
        return f"{found.held:.1f}"
    return found.note or f"{found.mean:.1f} +-{found.std_error:.1f}"


def _iterations(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    names = [c for c in analysis.iterations.columns if c.endswith("_ns") and c != "start_ns"]
    means = analysis.iterations.filter("steady").group_by("rank").agg(pl.len(), pl.col(names).mean()).sort("rank")
    shown = [n for n in names if means[n].null_count() < means.height and means[n].fill_null(0).ne(0).any()]
    rows = [
        [str(row["rank"]), str(row["len"]), *("" if row[n] is None else ms(row[n]) for n in shown)]
        for row in means.rows(named=True)
    ]
    return ["rank", "iterations", *(n.removesuffix("_ns").replace("_", " ") + " ms" for n in shown)], rows


def _ranks(analysis: Analysis) -> list[str]:
    ranks = analysis.ranks
    if ranks is None:
        return []
    slow = ", ".join(f"rank {rank} in {count}" for rank, count in ranks.slow.items()) or "none"
    count = analysis.iterations.select("iteration", "repeat").n_unique()
    pattern = short(printable(analysis.iteration_pattern or ""))
    late = [
        f"Late: rank {rank} in iteration {iteration}, by {ms(delay)} ms in `{short(phase)}`."
        for rank, iteration, phase, delay in analysis.delays.select("rank", "iteration", "phase", "delay_ns").rows()[
            :TABLE_ROWS
        ]
    ]
    return [
        "",
        f"Iterations `{pattern}`: {count}. Slow (own time 5 % above the median of the ranks): {slow}.",
        f"Mean own time: rank {ranks.slowest} has the longest, rank {ranks.fastest} the shortest.",
        *late,
    ]


def _sums(table: pl.DataFrame, by: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    top = table.filter(pl.col("rank").is_null()).head(TABLE_ROWS)
    rows = [
        [
            f"{row['time_percent']:.1f}",
            ms(row["total_ns"]),
            str(row["instances"]),
            *(
                f"{row[c] / 1000:.3f}"
                for c in ("avg_ns", "med_ns", "p90_ns", "p99_ns", "min_ns", "max_ns", "stddev_ns")
            ),
            *(short(str(row[c])) for c in by),
        ]
        for row in top.rows(named=True)
    ]
    head = ["time %", "total ms", "instances", "avg us", "p50 us", "p90 us", "p99 us", "min us", "max us", "stddev us"]
    return [*head, *by], rows


def _ranges(table: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    rows = [
        [short(name), str(count), ms(host), str(launched), ms(device), *map(ms, tail)]
        for name, count, host, launched, device, *tail in table.head(TABLE_ROWS).rows()
    ]
    head = ["range", "instances", "host ms", "launched", "device ms", "host p50 ms", "p90 ms", "p99 ms"]
    return head, rows


def _gaps(table: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            str(row["rank"]),
            str(row["gpu"]),
            ms(row["start_ns"]),
            ms(row["idle_ns"]),
            short(row["after"] or "", 30),
            short(row["before"] or "", 30),
            f"{short(row['call'])} {ms(row['call_ns'])} ms" if row["call"] else "",
            short(row["range"] or ""),
        ]
        for row in table.rows(named=True)
    ]
    return ["rank", "gpu", "at ms", "idle ms", "after", "before", "longest call of the host", "range"], rows
