"""Execution of the work: processes or Dask workers, memory, intermediate files, broken reports, progress."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.model.option import Option, declared, documented
from nsys2prv.model.quantities import parse_size

NSYS_OPTION = Option(
    "--nsys",
    "The nsys program that exports .nsys-rep files, or its folder (default: NSYS_HOME, then PATH).",
    value="PATH",
    kind="path",
)
JOBS_OPTION = Option(
    "--jobs",
    "Highest number of processes (default: one for small inputs, else one a core).",
    "Inputs below 40 MB are small. A run has at most one process for each report or each 40 MB. The bytes of the trace "
    "do not depend on it",
    value="N",
    kind="count",
)
DASK_OPTION = Option(
    "--dask",
    "Run on Dask workers: those of a scheduler, or --jobs workers started here or submitted to SLURM.",
    "`local` starts `--jobs` workers here, `slurm` submits them, else the address of a scheduler, such as "
    "`tcp://node1:8786`. The bytes of the trace do not depend on it. See [scaling.md](scaling.md#many-machines)",
    value="ADDRESS|local|slurm",
)
MEMORY_OPTION = Option(
    "--memory",
    "Memory limit for all processes together, such as 4GiB (default: half of what is free; to analyze, all of it).",
    "It limits `--jobs`: each process may take 750 MB ([why](scaling.md#long-reports)). `analyze` holds the intervals "
    "of the run in memory at once, about 260 bytes for each call and device activity and 110 for each NVTX range. "
    "Of a run that cannot fit, it analyzes the middle part that does, and says so; other commands refuse what needs "
    "all of such a run. With `--time`, `--nvtx` or `--ranks` only the chosen intervals count",
    value="SIZE",
)
SPILL_DIR_OPTION = Option(
    "--spill-dir",
    "Folder for intermediate files (default: beside the output; without one TMPDIR).",
    "Such as a fast local disk. `analyze --dask` uses the current folder by default, since all machines must see it. "
    "The files are removed at the end whatever happens",
    value="FOLDER",
    kind="folder",
)
KEEP_GOING_OPTION = Option(
    "--keep-going",
    "Leave out reports that cannot be read, and name them.",
    "Also reports that nsys cannot export",
    kind="flag",
)
QUIET_OPTION = Option("--quiet", "Print errors only.", kind="flag")


@documented
@dataclass(frozen=True)
class Execution:
    """Execution of the work. Figures and the bytes of a trace do not depend on it, with two exceptions.

    `keep_going` leaves out reports, and estimates of tensor activity that take more than `memory` (by default than
    `limits.estimate_memory`) are left out.

    `limits`: sizes at which the work is divided, without an option.
    """

    jobs: int | None = declared(
        JOBS_OPTION, default=None, about="Highest number of processes; None for as many as help."
    )
    dask: str | None = declared(
        DASK_OPTION,
        default=None,
        about="Dask workers instead of processes: address of a scheduler, `local` or `slurm`.",
    )
    memory: int | None = declared(
        MEMORY_OPTION,
        default=None,
        about="Memory limit for all processes together in bytes; None for half of what is free (analyze: all of it).",
        parse=partial(parse_size, MEMORY_OPTION.flag),
    )
    spill_dir: Path | None = declared(SPILL_DIR_OPTION, default=None)
    keep_going: bool = declared(KEEP_GOING_OPTION, default=False)
    quiet: bool = declared(QUIET_OPTION, default=True, about="Show no progress on stderr.")
    nsys: Path | None = declared(NSYS_OPTION, default=None)
    limits: Limits = DEFAULT_LIMITS
