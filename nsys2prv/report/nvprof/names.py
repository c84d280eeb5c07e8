"""Names that nvprof's files lack: of calls by number, of kernels demangled, of kinds of events."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

# CUpti_ActivityOverheadKind, CUpti_OpenAccEventKind and CUpti_OpenMpEventKind.
OVERHEAD = {1: "Driver compiler", 1 << 16: "CUPTI buffer flush", 2 << 16: "CUPTI instrumentation"}
OVERHEAD |= {3 << 16: "CUPTI resource", 4 << 16: "Runtime triggered module loading", 5 << 16: "Lazy function loading"}
OPENACC = dict(
    enumerate(
        (
            *("Device init", "Device shutdown", "Runtime shutdown", "Enqueue launch", "Enqueue upload"),
            *("Enqueue download", "Wait", "Implicit wait", "Compute construct", "Update", "Enter data", "Exit data"),
            *("Create", "Delete", "Alloc", "Free"),
        ),
        start=1,
    )
)
OPENMP = dict(enumerate(("Parallel", "Task", "Thread", "Idle", "Wait barrier", "Wait taskwait"), start=1))
MANGLED = "_Z"
ANONYMOUS = "(anonymous namespace)"


@cache
def call_names(api: str) -> tuple[str, ...]:
    """Return the names of the calls of the `runtime` or `driver` API by CUPTI's number."""
    text = files("nsys2prv.report.nvprof").joinpath("call_names.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)[api].split())


def call_name(api: str, number: int) -> str:
    """Return the name of a call; of one that is newer than the list, its API and number."""
    known = call_names(api)
    return known[number] if 0 < number < len(known) else f"{api} call {number}"


def demangled(name: str) -> str | None:
    """Return a C++ name as in its source; a name that is not mangled as it is. None without the package for it."""
    if not name.startswith(MANGLED):
        return name
    try:
        # Part of the extra `nvprof`.
        from cpp_demangle import demangle
    except ImportError:
        return None
    try:
        return str(demangle(name))
    except ValueError:
        return name


def short_name(full: str) -> str:
    """Return a function's name without result, namespaces, template arguments and parameters, as nsys shortens it."""
    text, before = full.replace(ANONYMOUS, ""), ""
    while text != before:
        text, before = re.sub(r"<[^<>]*>", "", text), text
    return re.split(r"::| ", text.split("(", 1)[0].rstrip())[-1] or full
