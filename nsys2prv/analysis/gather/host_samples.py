"""The samples of what host threads do, read from the reports of a run when a finding asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from nsys2prv.analysis.frames import TEXT
from nsys2prv.analysis.recording.remarks import families_in
from nsys2prv.analysis.recording.undrawn import tasks_of_processes
from nsys2prv.families.host.cpu_samples import FAMILY as CPU_SAMPLES
from nsys2prv.families.host.stacks import COLUMNS, NO_STACK, named_entries
from nsys2prv.families.nvtx.python_samples import FAMILY as PYTHON_SAMPLES
from nsys2prv.families.nvtx.python_samples import stack_functions, with_stacks
from nsys2prv.families.nvtx_counts import nvtx_pieces
from nsys2prv.families.nvtx_events import PYTHON_SAMPLING, from_profiler
from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.intervals.spans import Span
from nsys2prv.model.global_ids import process_of
from nsys2prv.model.interning import THREAD
from nsys2prv.model.schemas import to_schema
from nsys2prv.report import schema
from nsys2prv.report.report import open_report
from nsys2prv.run.places import PROFILER_THREAD
from nsys2prv.run.plan import Plan
from nsys2prv.run.trace_rows import NO_ROW

# Samples of host threads. `row`: NO_ROW for a thread without one; `time`: ns of the trace; `family`: CPU_SAMPLES or
# PYTHON_SAMPLES; `function`: the innermost one, of Python samples that of the program's own code; `file`: its module
# or source file, without folders.
HOST_SAMPLE = {
    "task": pl.Int64(),
    "row": pl.Int64(),
    "time": pl.Int64(),
    "family": TEXT,
    "function": TEXT,
    "file": TEXT,
}
# Files of Python that are no code of the program, as far as their path tells: nsys keeps its end alone.
LIBRARY = r"(^|/)(site-packages|dist-packages|python\d[.\d]*)/|^<frozen "
# The function in a loop of PyTorch over the elements of tensors, which is a template's argument.
LOOP = r"::callback_fn<.*?([\w:]+)\(at::TensorIterator"
# Template arguments nest no deeper in names that are still of use.
NESTED = 8


def read_host_samples(plan: Plan, span: Span | None = None) -> pl.DataFrame:
    """Return HOST_SAMPLE of the processes of a run. `span` (merged ns): only samples in it. Raises ReportError.

    A table is read piece by piece, and of a stack one function is kept: a sample takes some 40 bytes.
    """
    parts = [pl.DataFrame(schema=HOST_SAMPLE)]
    for r, summary in enumerate(plan.summaries):
        threads = _threads(plan, r)
        with open_report(summary.path) as report:
            source = Source(SourceTables(report, {}))
            for family, samples in HOST_FAMILIES.items():
                for piece in samples(source) if family in families_in(summary) else ():
                    time = pl.Series("time", plan.clocks[r].merged(piece["start"].to_numpy()), dtype=pl.Int64)
                    own = piece.with_columns(time, process=process_of(pl.col("globalTid")), family=pl.lit(family))
                    inside = pl.lit(True) if span is None else pl.col("time").is_between(*span, closed="left")
                    placed = _placed(plan, r, own.filter(inside), threads)
                    parts.append(to_schema(placed, HOST_SAMPLE))
    return pl.concat(parts)


def _threads(plan: Plan, r: int) -> pl.DataFrame:
    """Return globalTid and row of each thread of a report that has one."""
    places = plan.summaries[r].places.with_columns(row=pl.Series(plan.objects.row_of[r], dtype=pl.Int64)).sort("lane")
    own = places.filter((pl.col("kind") == THREAD) & (pl.col("row") != NO_ROW))
    return own.select("row", globalTid=pl.col("process") + pl.col("thread")).unique("globalTid", keep="first")


def _placed(plan: Plan, r: int, samples: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Return samples (globalTid, process) with `row` and `task`, without those of other processes and of nsys."""
    task = pl.col("process").replace_strict(dict(tasks_of_processes(plan, r)), default=NO_ROW, return_dtype=pl.Int64)
    names = plan.summaries[r].identity.thread_names
    of_nsys = [tid for tid, name in names.items() if re.search(PROFILER_THREAD, name)]
    known = samples.with_columns(task=task).filter((pl.col("task") != NO_ROW) & ~pl.col("globalTid").is_in(of_nsys))
    placed = known.join(threads, on="globalTid", how="left", maintain_order="left")
    return placed.with_columns(pl.col("row").fill_null(NO_ROW))


def _cpu_samples(source: Source) -> Iterator[pl.DataFrame]:
    """Yield globalTid, start, function and file of the CPU samples of a report."""
    size = source.tables.limits.piece_rows(len(COLUMNS))
    innermost = [pl.DataFrame(schema={"id": pl.Int64(), "function": TEXT, "file": TEXT})]
    for read in source.report.pieces(schema.CPU_STACKS, COLUMNS, size, equal={"stackDepth": (0,)}):
        named = named_entries(source, read())
        # Few functions are in most stacks: to shorten a name takes far longer than to look it up.
        names = named.select("name").unique().with_columns(function=_without_types(pl.col("name")).cast(TEXT))
        known = named.join(names, on="name", how="left", maintain_order="left")
        innermost.append(known.select("id", "function", pl.col("file").cast(TEXT)))
    functions = pl.concat(innermost).unique("id", keep="first")
    for samples in source.pieces(schema.CPU_SAMPLES, ("id", "start", "globalTid")):
        named = samples.drop_nulls("globalTid").join(functions, on="id", how="left", maintain_order="left")
        yield named.with_columns(pl.col("function").cast(pl.String).fill_null(NO_STACK))


def _without_types(name: pl.Expr) -> pl.Expr:
    """Return the name of a function of C++ without types: `np::sort` of `void np::sort<double>(double*, long)`.

    Of code in a function's body, and of a loop of PyTorch over elements, it is the name of that function.
    """
    named = name.str.replace_all("(anonymous namespace)::", "", literal=True)
    plain = named
    for _ in range(NESTED):
        plain = plain.str.replace_all(r"<[^<>]*>", "")
    plain = plain.str.replace(r"\(.*$", "").str.strip_chars()
    typed = ~plain.str.contains(r"\boperator\b")
    plain = pl.coalesce(named.str.extract(LOOP), pl.when(typed).then(plain.str.replace(r"^.* ", "")).otherwise(plain))
    # A module in brackets stands for an unknown function.
    return pl.when(name.str.starts_with("[") | (plain == "")).then(name).otherwise(plain)


def _python_samples(source: Source) -> Iterator[pl.DataFrame]:
    """Yield globalTid, start, function and file of the Python samples of a report, by the program's innermost code."""
    for rows in nvtx_pieces(source.report, source.tables.limits):
        sampled = rows.ranges.filter(from_profiler() & pl.col("domain").is_in(PYTHON_SAMPLING))
        if sampled.is_empty():
            continue
        samples = with_stacks(source, sampled.drop_nulls("globalTid"))
        functions = stack_functions(source, samples).with_columns(
            library=pl.col("path").str.contains(LIBRARY).fill_null(False)
        )
        innermost = functions.sort("id", "library", "stackDepth").unique("id", keep="first")
        own = innermost.select("id", "function", file=pl.col("path").str.replace(r"^.*/", ""))
        named = samples.join(own, on="id", how="left", maintain_order="left")
        yield named.with_columns(pl.col("function").fill_null(NO_STACK))


# Readers of the families of samples.
HOST_FAMILIES = {CPU_SAMPLES.name: _cpu_samples, PYTHON_SAMPLES.name: _python_samples}
