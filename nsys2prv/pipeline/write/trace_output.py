"""How a trace is written: compressed, without names, up to which size, with a summary of its run."""

from __future__ import annotations

from dataclasses import dataclass

from nsys2prv.model.limits import DEFAULT_LIMITS
from nsys2prv.model.options import Option, declared, documented
from nsys2prv.model.quantities import parse_size

COMPRESS = Option(
    "--compress",
    "Write OUT.prv.gz instead of OUT.prv.",
    "Paraver reads it as it is",
    kind="flag",
)
REDACT = Option(
    "--redact",
    "Leave out the names of hosts, users and reports, and the folders of paths.",
    "For sharing. In `.pcf`, `.row`, `.align.json` and the comments, hosts, users and reports are called `host1`, "
    "`user1`, `report1`; of paths only the last part stays; values of variables that are called like secrets are "
    "removed. The summary counts the replacements. Other texts of the program, such as NVTX texts and names of "
    "kernels, stay: look through them. The traces of `batch` keep the names of their runs, and its manifest "
    "names the reports: share the traces without it",
    kind="flag",
)
MAX_SIZE = Option(
    "--max-size",
    "Write nothing if the trace would be larger than this.",
    "Such as `500MB` or `2GiB`. The message names the families that would help most",
    value="SIZE",
    default="4GB",
)
SUMMARY = Option(
    "--summary",
    "Close with the efficiency and overlap of the run, the short form of `analyze`.",
    "Also names slow ranks",
    kind="flag",
)


@documented
@dataclass(frozen=True)
class TraceOutput:
    """How a trace is written."""

    compress: bool = declared(COMPRESS, default=False)
    redact: bool = declared(REDACT, default=False)
    summary: bool = declared(SUMMARY, default=False, about="Analyze the run, too, out of the same extraction.")
    # Paraver takes some ten minutes to load the default size.
    max_size: int = declared(
        MAX_SIZE, default=DEFAULT_LIMITS.trace_bytes, about="Largest size of the trace in bytes.", parse=parse_size
    )
