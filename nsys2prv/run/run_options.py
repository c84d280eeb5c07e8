"""The options that make one run of several reports.

Modules of the command line import this one for its declarations, so that it loads clocks and hosts only when used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsys2prv.errors import UsageError
from nsys2prv.model.option import Option, declared, documented

if TYPE_CHECKING:
    from nsys2prv.report.ncu.profile import ProfileFile
    from nsys2prv.run.clocks import Align, Offsets
    from nsys2prv.run.ranks import RankFrom

ALIGN_OPTION = Option(
    "--align",
    "Method that aligns the clocks of the reports (docs/clocks.md).",
    "`auto`: hosts by the collectives and messages that their ranks share, if the reports have any. "
    "`collectives`: also by the end of MPI_Init. `utc`: only by the wall clock at the start of each session. `none`: "
    "all sessions begin at once. See [clocks.md](clocks.md)",
    choices=("auto", "collectives", "utc", "none"),
    default="auto",
)
OFFSETS_OPTION = Option(
    "--offsets",
    "File of clock offsets that replace a fit: lines `PATTERN OFFSET [PPM]`, or the JSON of `align`.",
    "Such as `node7* -3.7ms`. The offset is added to the UTC-aligned time of the reports or hosts whose names match",
    value="FILE",
    kind="file",
)
HOSTS_OPTION = Option(
    "--hosts",
    "File of hosts: lines `PATTERN HOST`, for the reports whose names match.",
    "Reports whose names match the shell pattern were recorded on that host, together with those that name it "
    "themselves. `#` begins a comment; the first match counts; a pattern that matches nothing is a warning",
    value="FILE",
    kind="file",
)
RANK_FROM_OPTION = Option(
    "--rank-from",
    "Source of the ranks; pid: no ranks, processes in order of host and id.",
    "`mpi`: ranks in the report. `env`: the launcher's environment, by the [first variable](trace.md#objects) that "
    "differs between the processes. `file`: the number behind `rank` in the report's name, or the last one. `pid`: no "
    "ranks. `auto`: mpi, then env, then NCCL's, then file",
    choices=("auto", "mpi", "env", "file", "pid"),
    default="auto",
)
RANKS_OPTION = Option(
    "--ranks",
    "Only these ranks, such as 0,4-7.",
    "A task without a rank has the number that `analyze` gives it. Ranks that no report has are a warning",
    value="LIST",
)
THREADS_OPTION = Option(
    "--threads",
    "Host threads that get a row: those with calls of CUDA, MPI and the like or NVTX ranges, or all.",
    "`active`: threads with events of a family that [makes rows](trace.md#families). `all`: also the others, such as "
    "those that only make OS calls",
    choices=("active", "all"),
    default="active",
)
ONE_RUN_OPTION = Option(
    "--one-run",
    "Take the reports for one run, also if they seem to be of several.",
    "Otherwise folders with reports of several runs are [refused](#which-reports-are-one-run)",
    kind="flag",
)
NCU_OPTION = Option(
    "--ncu",
    "File of Nsight Compute, .csv or .ncu-rep, whose metrics are joined to the kernels. May be repeated.",
    "CSV of the raw page, or of the details page. With `RANK=FILE` the kernels are those of that rank, else of a rank "
    "that launched them. See [Nsight Compute](nsight-compute.md)",
    value="[RANK=]FILE",
    repeated=True,
)


def parse_ranks(text: str) -> frozenset[int]:
    """Return the ranks in a list such as `0,4-7`. Raises UsageError."""
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if not match:
            raise UsageError(
                f"--ranks: {part!r} is neither a rank below a million nor a range of ranks; write such as 0,4-7"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"--ranks: {part!r} ends before it begins; write the lower rank first, such as 4-7")
        ranks.update(range(first, last + 1))
    return frozenset(ranks)


def _read_offsets(path: Path) -> Offsets:
    from nsys2prv.run.clocks import read_offsets

    return read_offsets(path)


def _profile_files(texts: Sequence[str]) -> tuple[ProfileFile, ...]:
    if not texts:
        return ()
    from nsys2prv.report.ncu.profile import profile_file

    return tuple(map(profile_file, texts))


def _read_hosts(path: Path) -> Mapping[str, str]:
    from nsys2prv.run.hosts import read_hosts_file

    return read_hosts_file(path)


@documented
@dataclass(frozen=True)
class RunOptions:
    """Options that make one run of several reports: clocks, hosts, ranks, rows of host threads, metrics of kernels."""

    align: Align = declared(ALIGN_OPTION, default="auto")
    offsets: Offsets | None = declared(
        OFFSETS_OPTION,
        default=None,
        about="Offsets of clocks by pattern, from `read_offsets`, that replace a fit.",
        parse=_read_offsets,
        # The trace's comments on its inputs hold the values of the file.
        spell=lambda offsets: ["--offsets FILE"],
    )
    hosts: Mapping[str, str] = declared(
        HOSTS_OPTION,
        default_factory=dict,
        about="Host by pattern of report names.",
        parse=_read_hosts,
        spell=lambda hosts: ["--hosts FILE"],
    )
    rank_from: RankFrom = declared(RANK_FROM_OPTION, default="auto")
    ranks: frozenset[int] | None = declared(
        RANKS_OPTION,
        default=None,
        about="Ranks to keep; None for all.",
        parse=parse_ranks,
        spell=lambda ranks: [f"--ranks {','.join(map(str, sorted(ranks)))}"],
    )
    every_thread: bool = declared(
        THREADS_OPTION,
        default=False,
        about="Give a row also to host threads whose families make none.",
        parse=lambda threads: threads == "all",
        spell=lambda every: ["--threads all"],
    )
    one_run: bool | None = declared(
        ONE_RUN_OPTION,
        default=None,
        about="True: they are one run; False: refuse those of several; None: refuse them in folders.",
        parse=lambda given: given or None,
        spell=lambda given: ["--one-run"] if given else [],
    )
    ncu: tuple[ProfileFile, ...] = declared(
        NCU_OPTION,
        default=(),
        about="Files of Nsight Compute whose metrics are joined to kernels: `ProfileFile(path, rank)`.",
        parse=_profile_files,
        spell=lambda files: [f"--ncu {'' if f.rank is None else f'{f.rank}='}{f.path.name}" for f in files],
    )

    @property
    def fits_clocks(self) -> bool:
        """Return True if events that cross reports may be used to fit their clocks."""
        return self.offsets is not None or self.align in ("auto", "collectives")
