"""Output of a trace: compression, redaction, largest size, summary, window of interest, numbers of event types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from nsys2prv.model.limits import DEFAULT_LIMITS
from nsys2prv.model.option import Option, declared, documented
from nsys2prv.model.quantities import parse_size

COMPRESS_OPTION = Option(
    "--compress",
    "Write OUT.prv.gz instead of OUT.prv.",
    "Paraver reads it as it is",
    kind="flag",
)
REDACT_OPTION = Option(
    "--redact",
    "Leave out the names of hosts, users and reports, and the folders of paths.",
    "For sharing. In `.pcf`, `.row`, `.align.json` and the comments, hosts, users and reports are called `host1`, "
    "`user1`, `report1`; of paths only the last part stays; values of variables that are called like secrets are "
    "removed. The summary counts the replacements. Other texts of the program, such as NVTX texts and names of "
    "kernels, stay: look through them. The traces of `batch` keep the names of their runs, and its manifest "
    "names the reports: share the traces without it",
    kind="flag",
)
MAX_SIZE_OPTION = Option(
    "--max-size",
    "Write nothing if the trace would be larger than this.",
    "Such as `500MB` or `2GiB`. The message names the families that would help most",
    value="SIZE",
    default="4GB",
)
SUMMARY_OPTION = Option(
    "--summary",
    "Close with the efficiency and overlap of the run, the short form of `analyze`.",
    "Out of the same extraction, over the window that `--window` marks. Also names slow ranks",
    kind="flag",
)
WINDOW_OPTION = Option(
    "--window",
    "Time that the trace marks as window of interest: steady iterations, all device activity, all, or an NVTX range.",
    "The analysis cfgs count what lies within it. `steady` are the iterations that all ranks recorded whole, without "
    "start-up and interruptions. They need the families nvtx and projection; without ranges that number them, "
    "correlation and those of the device work that repeats. Without iterations it is the time in which all ranks "
    "recorded. See [analysis.md](analysis.md#the-window)",
    value="steady|device|trace|RANGE",
    default="steady",
)
PUBLIC_TYPES_OPTION = Option(
    "--public-types",
    "Give event types the numbers of the public nsys2prv 0.6, so that cfgs made for its traces show this one.",
    "See [from-public.md](from-public.md#numbers-of-event-types) for the types that have another number then. The cfgs "
    "of `nsys2prv cfgs` find types by label, and show such a trace, too",
    kind="flag",
)


@documented
@dataclass(frozen=True)
class TraceOutput:
    """Output of a trace."""

    compress: bool = declared(COMPRESS_OPTION, default=False)
    redact: bool = declared(REDACT_OPTION, default=False)
    # Paraver takes some ten minutes to load the default size.
    max_size: int = declared(
        MAX_SIZE_OPTION,
        default=DEFAULT_LIMITS.trace_bytes,
        about="Largest size of the trace in bytes.",
        parse=partial(parse_size, MAX_SIZE_OPTION.flag),
    )
    window: str = declared(
        WINDOW_OPTION, default="steady", about="`steady`, `device`, `trace` or the name of an NVTX range."
    )
    public_types: bool = declared(PUBLIC_TYPES_OPTION, default=False)
    summary: bool = declared(SUMMARY_OPTION, default=False, about="Also analyze the run, out of the same extraction.")
