"""Samples of what hosts do while devices have no work: the functions that they name, else how to see or record some."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.launchers import idle_of_launchers
from nsys2prv.analysis.facts.thresholds import FEWEST_SAMPLES, NAMED_FUNCTION, NAMED_TOO
from nsys2prv.analysis.frames import Run
from nsys2prv.errors import Nsys2prvError
from nsys2prv.families.host.cpu_samples import FAMILY as CPU_SAMPLES
from nsys2prv.families.nvtx.python_samples import FAMILY as PYTHON_SAMPLES
from nsys2prv.intervals.grouped import Axis
from nsys2prv.intervals.spans import Indices, Spans, inside, intersection
from nsys2prv.model.words import short
from nsys2prv.run.trace_rows import NO_ROW

# Functions of the evidence, and of a sentence at most.
IN_EVIDENCE, IN_TEXT = 5, 3
# Modules of CPython.
INTERPRETER = r"^(?:lib)?python3"
# Compilers of kernels: CUDA's, that of its driver, and those of Triton and Numba.
COMPILERS = r"^lib(?:nvrtc|nvJitLink|nvptxcompiler|nvvm|nvidia-(?:ptxjitcompiler|nvvm)|triton|LLVM|llvmlite)"
# Meanings of libraries whose names do not say it, by the beginning of their names.
LIBRARIES = (
    (re.compile(r"lib(?:gomp|iomp5|omp)\b"), "OpenMP: operators that compute on the CPU"),
    (re.compile(r"lib(?:mkl|openblas|blas)"), "operators that compute on the CPU"),
    (re.compile(r"libcupti\b|libToolsInjection"), "the profiler"),
    (re.compile(r"libcuda\b"), "CUDA's driver"),
    (re.compile(COMPILERS), "compiling kernels"),
    (re.compile(INTERPRETER), "the interpreter"),
    (re.compile(r"lib(?:z|zstd|lz4|lzma|bz2|snappy|deflate|isal|blosc2?)\b"), "compressed data"),
    (re.compile(r"(?:lib(?:(?:turbo)?jpeg|png16|webp|tiff)|_imaging)\b"), "decoding images"),
    (re.compile(r"lib(?:avcodec|avformat|swscale|dav1d)\b"), "decoding video"),
    (re.compile(r"lib(?:hdf5|netcdf|arrow|parquet|lmdb)"), "reading files"),
)
# Functions and modules of PyTorch and NumPy that make random numbers on the host.
MAKES_RANDOM = (
    r"CPUGeneratorImpl|\bcpu::(?:normal|uniform|random|bernoulli|exponential)"
    r"|_(?:mt19937|philox|pcg64|sfc64|bounded_integers)\b|\bmtrand\b"
)
# Modules that compute on the CPU what a device can compute: NumPy, SciPy, and libraries of linear algebra, neural
# networks and OpenMP. Of PyTorch's library, which launches for devices, too, these are the operators.
COMPUTING_MODULES = (
    r"^(?:lib(?:gomp|iomp5|omp|mkl\w*|(?:open|c)?blas\w*|dnnl|fftw3\w*)\b|_(?:multiarray|pocketfft)_umath|_umath_linalg"
    r"|_?pypocketfft|_(?:flapack|fblas|sparsetools)\b)"
)
OPERATOR_MODULE = r"^libtorch_cpu\b"
OPERATORS = r"^at::(?:native::[\w:]*kernel|vec::)|\b(?:cpublas|AVX2|AVX512|DEFAULT)::"
# Functions that move or fill memory, which a device need not do.
MOVES = r"(?i)copy|fill|_contig|memset|memmove"
# Functions of CPython that hardly anything but a garbage collection calls.
COLLECTING = (
    r"^(?:gc_collect\w*|_Py(?:Dict|Tuple)_MaybeUntrack|_PyObject_VisitManagedDict|PyObject_IS_GC|delete_garbage"
    r"|visit_(?:decref|reachable)|(?:subtract|update)_refs|(?:deduce|move)_unreachable|untrack_\w+|\w*traverse)$"
)
# What samples are counted for, in order of the fields of Seen.
_FILE, _FUNCTION = pl.col("file"), pl.col("function")
_KINDS = (
    (_FILE.str.contains(COMPUTING_MODULES) | (_FILE.str.contains(OPERATOR_MODULE) & _FUNCTION.str.contains(OPERATORS)))
    & ~_FUNCTION.str.contains(MOVES).fill_null(False),
    _FILE.str.contains(INTERPRETER),
    _FILE.str.contains(INTERPRETER) & _FUNCTION.str.contains(COLLECTING),
    _FILE.str.contains(COMPILERS),
)


class Seen(NamedTuple):
    """The functions that samples of hosts show: their files and shares, how many samples, and the words on them.

    The words are empty where no function has a share worth saying; `others` is their part on functions after the first
    one. Shares of all samples (of 1): `computing` what a device can compute, in the `interpreter` of Python, and in it
    `collecting` garbage; `compiling` kernels.
    """

    samples: int = 0
    functions: tuple[tuple[str, str, float], ...] = ()
    text: str = ""
    others: str = ""
    computing: float = 0.0
    interpreter: float = 0.0
    collecting: float = 0.0
    compiling: float = 0.0

    @property
    def evidence(self) -> dict[str, Any]:
        """Return the evidence of a finding; nothing without samples."""
        functions = [[*named, round(share, 3)] for *named, share in self.functions]
        return {"samples": self.samples, "functions": functions} if self.samples else {}


def see_samples(run: Run, seen: Seen, in_table: bool = False) -> str:
    """Return the words on samples of hosts: what they say, else how to see those of the reports, else to record some.

    `seen`: of the time that a finding speaks of; `in_table`: the table of host samples lists those of that time.
    """
    if seen.text:
        return seen.text
    if held := _held(run):
        command = "analyze RUN --show host-samples" if in_table else f"translate RUN --also {','.join(held)} -o trace"
        return f"the reports hold samples (nsys2prv {command})"
    return "record CPU samples or Python stacks (nsys profile --sample=process-tree --python-sampling=true)"


def _held(run: Run) -> list[str]:
    """Return the families of samples that the reports hold, those of Python last."""
    return [family.name for family in (CPU_SAMPLES, PYTHON_SAMPLES) if family.name in run.recorded_families]


def seen_functions(case: Case, covered: Spans, rank: int | None = None, waiting: bool = False) -> Seen:
    """Return what samples say of the threads that launch next, while devices have no launched work.

    `covered`: the time that counts (ns of the trace); `rank`: only of its process; `waiting`: only while these threads
    wait for the system, of which CPU samples tell what the other threads of their processes do.
    """
    held = _held(case.run)
    if case.run.host_samples is None or not held:
        return Seen()
    launchers = case.launchers
    idle = idle_of_launchers(launchers, case.idle_gaps(covered))
    if waiting:
        idle = intersection(idle, launchers.in_system)
    try:
        samples = case.run.host_samples()
    except Nsys2prvError:
        # Workers on other machines may see reports that this process does not: a hint remains (see see_samples).
        return Seen()
    if rank is not None:
        samples = samples.filter(pl.col("task") == case.run.task_by_rank[rank])
    found = []
    # Python samples name the code of the program, and hold threads that wait, too.
    for family in reversed(held):
        own = samples.filter(pl.col("family") == family)
        kind = "Python samples" if family == PYTHON_SAMPLES.name else "samples"
        if waiting and family == CPU_SAMPLES.name:
            there, whose = _of_others(case, own, idle), "other threads of these processes meanwhile"
        else:
            own = own.filter(pl.col("row") != NO_ROW)
            there, whose = _within(own, launchers.rows, "row", launchers.axis, idle), "launching threads in these times"
        found.append(_seen(there, f"{kind} of {whose}"))
    seen = next((one for one in found if one.text), max(found, key=lambda one: one.samples))
    # Samples of Python name no code of libraries.
    of_cpu = max(found, key=lambda one: one.computing + one.interpreter + one.compiling)
    shares = {kind: getattr(of_cpu, kind) for kind in ("computing", "interpreter", "collecting", "compiling")}
    return seen._replace(**shares)


def _within(samples: pl.DataFrame, members: Indices, column: str, axis: Axis, spans: Spans) -> pl.DataFrame:
    """Return the samples inside spans on an axis whose groups are the `members`, values of a column, in order."""
    recorded = pl.col("time").is_between(axis.low, axis.high, closed="left")
    own = samples.filter(pl.col(column).is_in(pl.Series(members).implode()), recorded)
    at = axis.at(np.searchsorted(members, own[column].to_numpy()), own["time"].to_numpy())
    return own.filter(inside(spans, at))


def _of_others(case: Case, samples: pl.DataFrame, idle: Spans) -> pl.DataFrame:
    """Return the samples of threads that do not launch, of a process of which a thread is idle."""
    axis, rows = case.launchers.axis, case.launchers.rows
    callers = case.run.work.select("caller_row", "task").drop_nulls().unique("caller_row").sort("caller_row")
    task = callers["task"].to_numpy()[axis.group(idle.start)]
    tasks = np.arange(len(case.run.tasks))
    by_task = Axis(axis.low, axis.high, len(tasks))
    spans = by_task.union(task, axis.time(idle.start), axis.time(idle.end))
    others = (pl.col("row") == NO_ROW) | ~pl.col("row").is_in(pl.Series(rows).implode())
    return _within(samples.filter(others), tasks, "task", by_task, spans)


def _seen(samples: pl.DataFrame, what: str) -> Seen:
    """Return what samples say. `what`: whose they are."""
    count = samples.height
    shares = _shares(samples, "function", "file")
    named = tuple((str(name), str(file or ""), float(share)) for name, file, share in shares.head(IN_EVIDENCE).rows())
    if count < FEWEST_SAMPLES.value:
        return Seen(count, named)
    said = _listed([share for *_, share in named], [_told(name, file) for name, file, _ in named])
    if not said:
        files = _shares(samples, "file").head(IN_TEXT)
        said = _listed(files["share"].to_list(), [_module_said(file or "?") for file in files["file"]])
    if not said:
        return Seen(count, named, "", "", *(_share_of(shares, chosen) for chosen in _KINDS))
    others = "".join(said[1:])
    text = f"of the {count:,} {what} {said[0]}{others}{_of_random_numbers(shares)}"
    return Seen(count, named, text, others, *(_share_of(shares, chosen) for chosen in _KINDS))


def _share_of(shares: pl.DataFrame, chosen: pl.Expr) -> float:
    """Return the share (of 1) of chosen functions. `shares`: function, file and share of samples."""
    return float(shares.filter(chosen.fill_null(False))["share"].sum())


def _of_random_numbers(shares: pl.DataFrame) -> str:
    """Return words on samples of functions that make random numbers; nothing if there are few.

    `shares`: function, file and share of samples.
    """
    share = _share_of(shares, pl.any_horizontal(pl.col(c).str.contains(MAKES_RANDOM) for c in ("function", "file")))
    return (
        f"; {100 * share:.0f} % make random numbers, which the device can do" if share >= NAMED_FUNCTION.value else ""
    )


def _told(name: str, file: str) -> str:
    """Return the words on a function; where it is unknown, on its module."""
    if name == f"[{file}]":
        return _module_said(file, "functions unknown")
    return f"`{short(name, 40)}`{f' ({_module(file)})' if file else ''}"


def _module(file: str) -> str:
    """Return the name of a library without its ending: `_mt19937` of `_mt19937.cpython-312-x86_64-linux-gnu.so`."""
    return re.sub(r"\.(cpython|abi3|so)\b.*", "", file)


def _module_said(file: str, more: str = "") -> str:
    """Return the name of a library, and in parentheses its meaning and `more`, as far as there are any."""
    name = _module(file)
    notes = [*(meaning for begin, meaning in LIBRARIES if begin.match(name)), *([more] if more else [])]
    return f"{name} ({'; '.join(notes)})" if notes else name


def _shares(samples: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return columns as texts and the `share` of the samples that have these, the largest first."""
    texts = samples.select(pl.col(c).cast(pl.String) for c in by)
    shares = texts.group_by(by).agg(share=pl.len() / max(samples.height, 1))
    return shares.sort("share", *by, descending=[True, *(False for _ in by)])


def _listed(shares: list[float], names: list[str]) -> list[str]:
    """Return `31 % are in f`, `, 16 % in g`; nothing where the largest share is too small."""
    if not shares or shares[0] < NAMED_FUNCTION.value:
        return []
    enough = [n for n, share in enumerate(shares[:IN_TEXT]) if share >= NAMED_TOO.value]
    return [f"{', ' * (n > 0)}{100 * shares[n]:.0f} % {'are ' * (n == 0)}in {names[n]}" for n in enough]
