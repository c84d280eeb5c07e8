"""The part of a run that is selected: families, a span of time, rules of kernel classes, reductions.

Modules of the command line import this one for its declarations, so that it loads the families only when it is used.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nsys2prv.errors import UsageError
from nsys2prv.intervals.reduction_options import UNREDUCED, Reduction
from nsys2prv.model.option import Option, declared, documented
from nsys2prv.model.quantities import parse_span, parse_time
from nsys2prv.model.words import did_you_mean

ONLY_OPTION = Option(
    "--only",
    "Only these families, such as kernels,nvtx; `nsys2prv inspect` shows those with rows.",
    "Separated by commas. [trace.md](trace.md#families) lists all",
    value="FAMILIES",
)
ALSO_OPTION = Option(
    "--also",
    "These families too, such as scheduling,cpu_samples, which are off by default.",
    "The end of every translation names the families that are off, with their rows",
    value="FAMILIES",
)
SKIP_OPTION = Option("--skip", "Leave out these families, such as gpu_metrics,osrt.", value="FAMILIES")
TRACE_OPTION = Option(
    "--trace",
    "Families by the category names of the public nsys2prv, such as cuda_api_trace,nccl.",
    "Not together with `--only`",
    value="NAMES",
    short="-t",
)
STATES_OPTION = Option(
    "--states",
    "Draw state records of host threads and streams, too.",
    "[States](device-families.md#states)",
    kind="flag",
)
TIME_OPTION = Option(
    "--time",
    "Only this span of the trace, such as 1.5s:2s; an empty side is open.",
    "Times are those of the trace that the same options make without `--time`; a trace of other families or ranks may "
    "begin at another event. Units are ns, us, ms and s (the default). The trace lasts as long as the span, within "
    "the run",
    value="FROM:TO",
)
NVTX_OPTION = Option(
    "--nvtx",
    "Only from the first begin to the last end of this NVTX range over all ranks.",
    'Such as `"step 5"`, `"ncclAllReduce@NCCL"` or `"step 5@default"`. A text may have an `@` of its own: ranges of '
    "that text are found, too. With `--time`: the time that both hold",
    value="RANGE[@DOMAIN]",
)
CLASSES_OPTION = Option(
    "--classes",
    "Rules of kernel classes that are tried before the packaged ones.",
    "See [kernel classes](kernel-classes.md)",
    value="FILE",
    kind="file",
)
MIN_DURATION_OPTION = Option(
    "--min-duration",
    "Drop events shorter than this, such as 10us: calls, kernels, ranges, marks.",
    "Their attributes and the lines from CUDA calls to them go too, and so do instants (marks, CPU samples). The "
    "length counts as recorded, before `--time` cuts it. Messages between ranks, lines of event waits and "
    "states stay, and ranges on the device span everything that was launched in them",
    value="TIME",
)
METRICS_EVERY_OPTION = Option(
    "--metrics-every",
    "Average GPU metrics over periods of this length, such as 10ms.",
    "Periods begin at the first sample of each GPU. The mean is weighted by time and rounded. The last sample stays",
    value="TIME",
)
MERGE_STREAMS_OPTION = Option(
    "--merge-streams",
    "Draw all streams of a task on one device in one row, or in as many rows as overlap.",
    "The row is `CUDA-D<n>.S0`. Work that overlaps goes to further rows, as many as streams are busy at once; a report "
    "that is read in [slices](how-it-works.md#memory) may need more. Times stay as they are",
    kind="flag",
)
# The public tool's category that no family has.
CPU_COUNTERS = "cpu_raw_counters"


def default_families() -> tuple[str, ...]:
    """Return the names of the families that are translated by default."""
    from nsys2prv.families.registry import DEFAULT_FAMILIES

    return DEFAULT_FAMILIES


def chosen_families(
    only: str | None = None,
    also: str | None = None,
    skip: str | None = None,
    trace: str | None = None,
    states: bool = False,
) -> tuple[str, ...]:
    """Return the names of the families that these options choose, in order of the registry. Raises UsageError."""
    from nsys2prv.families.host.states import FAMILY
    from nsys2prv.families.registry import FAMILIES

    if only and trace:
        raise UsageError("--only and -t both name the families; give one of them")
    chosen = _named("--only", only) if only else _of_public(trace) if trace else {*default_families()}
    added = _named("--also", also or "") | ({FAMILY.name} if states else set())
    kept = (chosen - _named("--skip", skip or "")) | added
    if not kept:
        raise UsageError("no family is left to translate; see --only and --skip")
    return tuple(f.name for f in FAMILIES if f.name in kept)


def _named(option: str, text: str) -> set[str]:
    """Return the names of families in an option's list with commas. Raises UsageError."""
    from nsys2prv.families.registry import FAMILIES

    known, names = [f.name for f in FAMILIES], _listed(text)
    if unknown := [n for n in names if n not in known]:
        near = did_you_mean(unknown[0], known)
        raise UsageError(f"{option}: there is no family {unknown[0]!r}{near}; the families are {', '.join(known)}")
    return set(names)


def _of_public(text: str) -> set[str]:
    """Return the families of the public tool's categories in a list with commas. Raises UsageError."""
    from nsys2prv.families.registry import FAMILIES

    by_public: dict[str, set[str]] = {}
    for family in FAMILIES:
        for public in family.public:
            by_public.setdefault(public, set()).add(family.name)
    names = _listed(text)
    if CPU_COUNTERS in names:
        raise UsageError(f"-t: there is no family for {CPU_COUNTERS}: counters of CPUs are not drawn; leave it out")
    if unknown := [n for n in names if n not in by_public]:
        raise UsageError(f"-t: there is no category {unknown[0]!r}; the categories are {', '.join(sorted(by_public))}")
    return set().union(*(by_public[n] for n in names))


def _listed(text: str) -> list[str]:
    return [n.strip() for n in text.split(",") if n.strip()]


def spell_families(families: tuple[str, ...]) -> Iterator[str]:
    """Yield the shortest options that choose these families."""
    usual = default_families()
    skipped = [name for name in usual if name not in families]
    if 2 * len(skipped) > len(usual):
        yield f"--only {','.join(families)}"
        return
    added = [name for name in families if name not in usual]
    for option, names in (("--skip", skipped), ("--also", added)):
        if names:
            yield f"{option} {','.join(names)}"


def chosen_reduction(
    min_duration: str | None = None, metrics_every: str | None = None, merge_streams: bool = False
) -> Reduction:
    """Return the reduction that these options choose. Raises UsageError."""
    least = parse_time("--min-duration", min_duration or "0")
    return Reduction(least, parse_time("--metrics-every", metrics_every or "0"), merge_streams)


def spell_reduction(reduction: Reduction) -> Iterator[str]:
    """Yield the options that choose a reduction."""
    if reduction.min_duration:
        yield f"--min-duration {reduction.min_duration}ns"
    if reduction.metrics_every:
        yield f"--metrics-every {reduction.metrics_every}ns"
    if reduction.merge_streams:
        yield "--merge-streams"


def spell_span(span: tuple[int | None, int | None]) -> Iterator[str]:
    """Yield the option that chooses a span of time."""
    yield "--time {}:{}".format(*("" if side is None else f"{side}ns" for side in span))


@documented
@dataclass(frozen=True)
class Selection:
    """The part of a run to translate or analyze, and the rules of kernel classes."""

    families: tuple[str, ...] = declared(
        *(ONLY_OPTION, ALSO_OPTION, SKIP_OPTION, TRACE_OPTION, STATES_OPTION),
        default_factory=default_families,
        about="Names of families, as in docs/trace.md.",
        parse=chosen_families,
        spell=spell_families,
    )
    time: tuple[int | None, int | None] | None = declared(
        TIME_OPTION,
        default=None,
        about="Begin and end in ns of the trace's time, None for an open side.",
        parse=parse_span,
        spell=spell_span,
    )
    nvtx: str | None = declared(
        NVTX_OPTION,
        default=None,
        about="`RANGE` or `RANGE@DOMAIN`: only the time that this NVTX range spans over all ranks.",
        spell=lambda name: [f"--nvtx {shlex.quote(name)}"],
    )
    classes: Path | None = declared(CLASSES_OPTION, default=None, spell=lambda path: [f"--classes {path.name}"])
    reduction: Reduction = declared(
        *(MIN_DURATION_OPTION, METRICS_EVERY_OPTION, MERGE_STREAMS_OPTION),
        default=UNREDUCED,
        about="Data that may be reduced: shortest duration (ns), period of metrics (ns), merged streams.",
        parse=chosen_reduction,
        spell=spell_reduction,
    )

    @property
    def chooses_time(self) -> bool:
        """Return True if only a part of the run's time is selected."""
        return self.time is not None or self.nvtx is not None
