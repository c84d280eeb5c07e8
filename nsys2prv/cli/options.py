"""Options that commands share, and their forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsys2prv.errors import UsageError
from nsys2prv.intervals.reduction_options import ALL, Reduction

if TYPE_CHECKING:
    from nsys2prv.families.selection import Selection
    from nsys2prv.run.options import RunOptions

Command = TypeVar("Command", bound=Callable[..., Any])

# What cannot be read is said by whoever reads it, in one line as for all inputs.
INPUT = click.Path(path_type=Path, readable=False)

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "": 10**9}
_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def selecting(command: Command) -> Command:
    """Add the options by which a command chooses what of a run it looks at."""
    return aligning(_with(_SELECTING, command))


def translating(command: Command) -> Command:
    """Add the options that say how a run is translated; `translate_arguments` takes them."""
    return selecting(_with((*_REDUCING, *_TRANSLATING), command))


def aligning(command: Command) -> Command:
    """Add the options that say how the reports' clocks are put on one."""
    return _with(_ALIGNING, command)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


INPUTS = click.argument("inputs", nargs=-1, required=True, type=INPUT, metavar="INPUT...")
OUTPUT = click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="The trace to write: OUT.prv, OUT.pcf and OUT.row.",
)
NSYS = click.option(
    "--nsys",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The nsys that exports .nsys-rep files (default: NSYS_HOME, PATH).",
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes (default: one for small inputs, else one a core).",
)
DASK = click.option(
    "--dask",
    metavar="ADDRESS|local|slurm",
    help="Run on Dask workers instead: those of a scheduler, or --jobs of them started here or submitted to SLURM.",
)
_SELECTING = (
    click.option("--only", metavar="FAMILIES",
                 help="Only these families, such as kernels,nvtx; `nsys2prv inspect` shows which there are."),
    click.option("--also", metavar="FAMILIES",
                 help="These families too, such as scheduling,cpu_samples, which are off by default."),
    click.option("--skip", metavar="FAMILIES", help="Leave out these families, such as gpu_metrics,osrt."),
    click.option("-t", "--trace", "public", metavar="NAMES",
                 help="Families by the public nsys2prv's category names, such as cuda_api_trace,nccl."),
    click.option("--ranks", metavar="LIST", help="Only these ranks, such as 0,4-7."),
    click.option("--time", metavar="FROM:TO",
                 help="Only this span of the trace, such as 1.5s:2s; an empty side is open."),
    click.option("--nvtx", metavar="RANGE[@DOMAIN]",
                 help="Only from the first begin to the last end of this NVTX range over all ranks."),
    click.option("--classes", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
                 help="Rules of kernel classes that are tried before the packaged ones."),
    click.option("--threads", type=click.Choice(["active", "all"]), default="active", show_default=True,
                 help="Host threads with a row: those with calls of CUDA, MPI and the like or NVTX ranges, or all."),
    click.option("--rank-from", type=click.Choice(["auto", "mpi", "env", "file", "pid"]), default="auto",
                 show_default=True, help="Where ranks come from; pid: no ranks, processes in order of host and id."),
)  # fmt: skip
_REDUCING = (
    click.option("--min-duration", metavar="TIME", default="0",
                 help="Leave out what lasts less, such as 10us: calls, kernels, ranges, marks."),
    click.option("--metrics-every", metavar="TIME", default="0",
                 help="Average GPU metrics over periods of this length, such as 10ms."),
    click.option("--merge-streams", is_flag=True,
                 help="All streams of a task on one device in one row, in as many as overlap."),
)  # fmt: skip
_ALIGNING = (
    click.option("--align", type=click.Choice(["auto", "collectives", "utc", "none"]), default="auto",
                 show_default=True, help="How the reports' clocks are put on one (docs/clocks.md)."),
    click.option("--offsets", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
                 help="Lines `PATTERN OFFSET [PPM]`, or the JSON of `align`: what is added to UTC, instead of a fit."),
    click.option("--hosts", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
                 help="Lines `PATTERN HOST`: the host of the reports whose names match."),
)  # fmt: skip
_TRANSLATING = (
    click.option("--states", is_flag=True, help="State records of host threads and streams, too."),
    click.option("--compress", is_flag=True, help="Write .prv.gz instead of .prv."),
    click.option("--redact", is_flag=True,
                 help="Leave out names of hosts, users and reports, and folders of paths."),
    click.option("--keep-going", is_flag=True, help="Leave out reports that cannot be read, and name them."),
    click.option("--max-size", metavar="SIZE", default="4GB", show_default=True,
                 help="Write nothing if the trace would be larger than this."),
    NSYS,
    JOBS,
    DASK,
    click.option("--memory", metavar="SIZE",
                 help="What all processes may take, such as 4GiB: it limits --jobs (default: half of what is free)."),
    click.option("--spill-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER",
                 help="Where intermediate files go (default: beside the output)."),
)  # fmt: skip


def chosen_arguments(
    *,
    only: str | None,
    also: str | None,
    skip: str | None,
    public: str | None,
    ranks: str | None,
    time: str | None,
    nvtx: str | None,
    classes: Path | None,
    threads: str,
    align: str,
    offsets: Path | None,
    hosts: Path | None,
    rank_from: str,
    states: bool = False,
    less: Reduction = ALL,
    memory: str | None,
    **as_given: Any,
) -> dict[str, Any]:
    """Arguments of `engine.analyze` and the like for the options of `selecting`, and all others. Raises UsageError."""
    return {
        "memory": size(memory) if memory else None,
        "selection": selection(only, skip, public, time, nvtx, classes, also, states, less),
        "options": run_options(align, offsets, hosts, rank_from, ranks, threads),
        **as_given,
    }


def translate_arguments(
    *,
    min_duration: str,
    metrics_every: str,
    merge_streams: bool,
    max_size: str,
    **chosen: Any,
) -> dict[str, Any]:
    """Arguments of `engine.translate` (and `batch`) for the options of `translating`. Raises UsageError."""
    return {
        **chosen_arguments(less=reduction(min_duration, metrics_every, merge_streams), **chosen),
        "max_size": size(max_size),
    }


def selection(
    only: str | None,
    skip: str | None,
    public: str | None,
    time: str | None,
    nvtx: str | None,
    classes: Path | None = None,
    also: str | None = None,
    states: bool = False,
    less: Reduction = ALL,
) -> Selection:
    """What of the run is chosen. Raises UsageError."""
    # Loaded when a command runs, so that its help is quick.
    from nsys2prv.families.host.states import FAMILY as STATES
    from nsys2prv.families.registry import DEFAULT_FAMILIES, FAMILIES
    from nsys2prv.families.selection import Selection

    if only and public:
        raise UsageError("--only and -t both name the families; give one of them")
    families = [*DEFAULT_FAMILIES]
    if only:
        families = _families(only)
    elif public:
        families = _public_families(public)
    dropped = _families(skip) if skip else []
    added = [*(_families(also) if also else []), *([STATES.name] if states else [])]
    kept = {*(f for f in families if f not in dropped), *added}
    chosen = tuple(f.name for f in FAMILIES if f.name in kept)
    if not chosen:
        raise UsageError("no family is left to translate; see --only and --skip")
    return Selection(chosen, span(time) if time else None, nvtx, classes, less)


def reduction(min_duration: str, metrics_every: str, merge_streams: bool) -> Reduction:
    """What the user can do without. Raises UsageError."""
    return Reduction(_time("--min-duration", min_duration), _time("--metrics-every", metrics_every), merge_streams)


def run_options(
    align: str,
    offsets: Path | None,
    hosts: Path | None,
    rank_from: str = "auto",
    ranks: str | None = None,
    threads: str = "active",
) -> RunOptions:
    """How the reports become one run. Raises UsageError."""
    # Loaded when a command runs, so that its help is quick.
    from nsys2prv.run.clocks import read_offsets
    from nsys2prv.run.hosts import read_hosts_file
    from nsys2prv.run.options import RunOptions

    return RunOptions(
        align=align,  # type: ignore[arg-type]
        offsets=read_offsets(offsets) if offsets else None,
        hosts=read_hosts_file(hosts) if hosts else {},
        rank_from=rank_from,  # type: ignore[arg-type]
        ranks=_ranks(ranks) if ranks else None,
        every_thread=threads == "all",
    )


def _families(text: str) -> list[str]:
    from nsys2prv.families.registry import FAMILIES

    names = [n.strip() for n in text.split(",") if n.strip()]
    known = [f.name for f in FAMILIES]
    if unknown := [n for n in names if n not in known]:
        raise UsageError(f"there is no family {unknown[0]!r}; the families are {', '.join(known)}")
    return [f for f in known if f in names]


def _public_families(text: str) -> list[str]:
    from nsys2prv.families.registry import FAMILIES

    names = [n.strip() for n in text.split(",") if n.strip()]
    by_public: dict[str, set[str]] = {}
    for family in FAMILIES:
        for public in family.public:
            by_public.setdefault(public, set()).add(family.name)
    if unknown := [n for n in names if n not in by_public]:
        raise UsageError(f"-t: there is no category {unknown[0]!r}; the categories are {', '.join(sorted(by_public))}")
    chosen = set().union(*(by_public[n] for n in names))
    return [f.name for f in FAMILIES if f.name in chosen]


def span(text: str) -> tuple[int | None, int | None]:
    """ns of such as `1.5s:2s`, None for an empty side. Raises UsageError."""
    low, colon, high = text.partition(":")
    if not colon:
        raise UsageError(f"--time {text}: this is not a span; give FROM:TO, such as 1.5s:2s (either side may be empty)")
    start, end = (_time("--time", side) if side.strip() else None for side in (low, high))
    return start, end


def _time(option: str, text: str) -> int:
    """ns of such as `1.5s` or `200us`. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d+)(?:\.(\d+))?\s*(ns|us|ms|s|)\s*", text)
    if not match:
        raise UsageError(f"{option}: {text!r} is not a time; write such as 1500ms or 1.5s")
    unit = _UNITS[match[3]]
    fraction = (match[2] or "")[:9]
    return int(match[1]) * unit + int(fraction or 0) * unit // int(10 ** len(fraction))


def _ranks(text: str) -> frozenset[int]:
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if not match:
            raise UsageError(f"--ranks: {part!r} is not a rank below a million or a span of such; write such as 0,4-7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"--ranks: {part!r} ends before it begins; write the lower rank first, such as 4-7")
        ranks.update(range(first, last + 1))
    return frozenset(ranks)


def size(text: str) -> int:
    """Bytes of such as `4GB` or `500MiB`. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    if not match or match[2] not in _SIZES:
        raise UsageError(f"{text!r} is not a size; write such as 4GB or 500MiB")
    return int(float(match[1]) * _SIZES[match[2]])
