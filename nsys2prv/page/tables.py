"""Tables of the page: every figure of the JSON, in the sections and the units of the terminal.

A table's values are those of the JSON, unrounded; each column says how they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nsys2prv.analysis import shown_tables as shown
from nsys2prv.analysis.analysis_json import fractions
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.iterations.iteration_times import iteration_means
from nsys2prv.analysis.sentences import (
    below_clock_error,
    communication_name,
    communication_row,
    parts_by_name,
    windows_by_name,
)
from nsys2prv.analysis.shown_tables import Records, ShownTable, host_factors, with_percent


class PageColumn(NamedTuple):
    """A column: its title; `scale` that values are multiplied by and `digits` behind the point, None for texts."""

    title: str
    scale: float | None
    digits: int | None
    values: list[Any]


class PageTable(NamedTuple):
    """A table of a section. `key`: its name, the same on every page; `note`: what a reader has to know."""

    section: str
    key: str
    title: str
    columns: tuple[PageColumn, ...]
    note: str = ""

    @property
    def height(self) -> int:
        """Return the number of rows."""
        return len(self.columns[0].values) if self.columns else 0


_ALL_RANKS = "The first rows, whose rank is `all`, are sums over all ranks."


def tables(analysis: Analysis, values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield the tables of an analysis that have rows, in the order of the terminal. `values`: its JSON."""
    for table in (*_verdict(values), *_of_time(analysis, values), *_explained(values), *_work(analysis, values)):
        if table.height:
            yield table
    yield from _remarks(values)


def table_of(table: ShownTable, rows: Records, note: str = "") -> PageTable:
    """Return rows with the same names as a table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = tuple(_column(table, name, [row.get(name) for row in rows]) for name in names)
    return PageTable(table.section, table.key, table.title, columns, note)


def _column(table: ShownTable, name: str, values: list[Any]) -> PageColumn:
    listed = [" + ".join(map(str, value)) if isinstance(value, list) else value for value in values]
    kinds = {type(value) for value in listed if value is not None}
    if not kinds <= {int, float}:
        return PageColumn(table.head(name), None, None, listed)
    unit = table.unit(name, whole=kinds == {int})
    known = [table.none.get(name) if value is None else value for value in listed]
    return PageColumn(table.head(name), unit.scale, unit.digits, known)


def _verdict(values: Mapping[str, Any]) -> Iterator[PageTable]:
    findings = [
        {n: one[n] for n in ("severity", "id", "cost_ns", "share", "confidence", "title", "ranks", "iterations")}
        for one in shown.finding_rows(values["findings"])
    ]
    yield table_of(shown.FINDINGS, findings)
    yield table_of(ShownTable("window", "left_out", "Iterations left out"), values["window"]["left_out"])
    yield table_of(shown.DEFECTS, values["defects"])


def _of_time(analysis: Analysis, values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield the tables that say how the time of devices and hosts is spent."""
    if values["devices"]:
        rows: list[dict[str, Any]] = [
            {"name": name, "window_ns": e.window_ns, **fractions(e)} for name, e in windows_by_name(analysis)
        ]
        rows += [
            {"name": name, "window_ns": e.window_ns, **fractions(e), "occurrences": occurrences}
            for name, (_, occurrences, e) in parts_by_name(analysis.phases, analysis.iteration_efficiency)
        ]
        yield table_of(shown.with_communication(shown.EFFICIENCY, communication_name(analysis)), rows)
    yield table_of(shown.FACTORS, communication_row(analysis))
    yield table_of(shown.DEVICES, values["devices"])
    yield table_of(shown.HOST, host_factors(analysis.host))
    yield table_of(shown.MAIN_THREADS, values["host"]["ranks"])
    every = [{"rank": r["rank"], "communicator": None, "operation": "all", **r} for r in values["overlap"]]
    both = [r for r in (*every, *values["overlap_by_operation"]) if r["communication_ns"]]
    yield table_of(shown.OVERLAP, with_percent(both, "overlapped_percent", "overlapped_ns", "communication_ns"))


def _explained(values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield the tables that explain the time: waiting, critical path, idle time, predictions."""
    yield table_of(shown.COMMUNICATION, with_percent(values["communication"], "waiting_percent", "waiting_ns", "ns"))
    uncertain = below_clock_error(values["clock_error_ns"])
    note = f"{uncertain[0].upper()}{uncertain[1:]}." if uncertain else ""
    yield table_of(shown.WAITING, values["waiting"], note)
    yield table_of(shown.WAITING_OF_GPUS, values["waiting_of_gpus"])
    total = sum(r["ns"] for r in values["causes"])
    yield table_of(shown.CAUSES, with_percent(values["causes"], "percent", "ns", total))
    path = values["critical_path"]
    yield table_of(shown.CRITICAL_PATH, with_percent(path["by_kind"], "percent", "ns", path["length_ns"]))
    yield table_of(shown.CRITICAL_PATH_CLASSES, with_percent(path["by_class"], "percent", "ns", path["length_ns"]))
    yield table_of(shown.CRITICAL_PATH_RANKS, [r for r in path["by_rank"] if r["rank"] is not None])
    pieces = ShownTable("critical-path", "critical_path_pieces", "Longest pieces of the critical path")
    yield table_of(pieces, path["pieces"])
    note = "Span `all` is the whole window; the others are its spans of time, counted from 0."
    yield table_of(shown.IDLE_CAUSES, values["idle_causes"], note)
    changes = [{**r, "replay_error_percent": 100 * path["replay_error"]} for r in values["what_if"]]
    yield table_of(shown.WHAT_IF, changes)
    beside = [{**r, "lost_ns": r["waiting_ns"] + r["transfer_ns"]} for r in values["contention"]]
    yield table_of(shown.CONTENTION, beside)
    yield table_of(shown.PIPELINE, values["pipeline"])


def _work(analysis: Analysis, values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield the tables of what ran: metrics, iterations, kernels, memory operations, launches, calls, ranges."""
    yield from _metrics(values)
    yield table_of(shown.ITERATION_MEANS, iteration_means(analysis.iterations).to_dicts())
    yield table_of(ShownTable("iterations", "iterations", "Iterations"), values["iterations"]["rows"])
    delays = ShownTable("iterations", "delays", "Late ranks, by iteration")
    yield table_of(delays, values["iterations"]["delays"])
    yield table_of(shown.CLASSES, values["classes"], _ALL_RANKS)
    yield table_of(shown.KERNELS, values["kernels"], _ALL_RANKS)
    if "ncu" in values:
        yield table_of(shown.NCU_FILES, values["ncu"]["files"])
        yield table_of(shown.NCU_CLASSES, values["ncu"]["classes"])
        yield table_of(shown.ROOFLINE, values["ncu"]["roofline"])
    yield table_of(shown.MEMORY, values["memory"], _ALL_RANKS)
    yield table_of(shown.MEMORY_KINDS, values["memory_kinds"])
    launched = [{**r, "name": r["name"] or "(all)"} for r in values["launches"]["kernels"]]
    yield table_of(shown.LAUNCHES, launched, _ALL_RANKS)
    yield table_of(shown.QUEUES, values["launches"]["queues"])
    yield table_of(shown.NCCL_BANDWIDTHS, values["nccl_bandwidths"])
    yield table_of(shown.API, values["api"], _ALL_RANKS)
    yield table_of(shown.RANGES, values["ranges"])
    yield table_of(shown.NVTX, analysis.nvtx.to_dicts(), _ALL_RANKS)
    yield table_of(shown.IDLE, values["idle"])
    yield table_of(shown.HOST_SAMPLES, values["host_samples"])


def _metrics(values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield one table a metric, a row for each GPU and class."""
    for number, metric in enumerate(dict.fromkeys(fit["metric"] for fit in values["metrics"])):
        rows = []
        for fit in (one for one in values["metrics"] if one["metric"] == metric):
            of = {"rank": fit["rank"], "host": fit["host"], "gpu": fit["gpu"]}
            names = ("mean", "std_error", "held", "samples", "periods", "note")
            rows += [{**of, "class": " + ".join(c["classes"]), **{n: c[n] for n in names}} for c in fit["classes"]]
        fits = [{n: fit[n] for n in ("rank", "host", "gpu", "samples", "period_ns", "r2", "r2_left_out")}
                for fit in values["metrics"] if fit["metric"] == metric]  # fmt: skip
        note = "Estimate while a class runs, its standard error, and the samples held inside its kernels."
        heads = {"std_error": "+-", "held": "held samples", "mean": "estimate"}
        by_class = ShownTable("metrics", f"metric_{number}", f"{metric} by class", heads, none=shown.OVER_ALL)
        yield table_of(by_class, rows, note)
        quality = ShownTable("metrics", f"fit_{number}", f"{metric}: quality of the estimate", none=shown.OVER_ALL)
        yield table_of(quality, fits)


def _remarks(values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield what the run lacks and its remarks, which are worth a look where there are none, too."""
    for key, title in (("warnings", "Warnings"), ("details", "Details")):
        if values[key]:
            yield table_of(ShownTable("warnings", key, title), [{"text": text} for text in values[key]])
    if values["missing"]:
        missing = ShownTable("missing", "missing", "Not recorded", {"record": "nsys profile"})
        yield table_of(missing, values["missing"])
