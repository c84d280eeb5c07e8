"""`.ncu-rep` files, read by an installed `ncu`, or by its Python module `ncu_report`."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nsys2prv.errors import ReportError
from nsys2prv.report.installed import find_installed

RAW = ".ncu-rep"
_INSTALL = "put `ncu` on PATH or in NCU_HOME, or write CSV where it is: ncu -i FILE.ncu-rep --page raw --csv > FILE.csv"
_MODULE = "ncu_report"


def raw_page(report: Path, wanted: Callable[[str], bool]) -> bytes:
    """Return the raw page of a `.ncu-rep` as CSV, in base units. Raises ReportError."""
    if not report.is_file():
        raise ReportError(report, "is no file", "give a .csv or .ncu-rep of Nsight Compute")
    if (ncu := find_installed("ncu")) is not None:
        return _by_executable(report, ncu)
    try:
        module = importlib.import_module(_MODULE)
    except ImportError:
        raise ReportError(report, f"needs `ncu` or the module {_MODULE}, and neither was found", _INSTALL) from None
    return _by_module(report, module, wanted)


def _by_executable(report: Path, ncu: Path) -> bytes:
    """Return the raw page as `ncu` prints it. Raises ReportError with what it said."""
    command: list[str | Path] = [ncu, "-i", report, "--page", "raw", "--csv", "--print-units", "base"]
    # Numbers in the locale of the user may have commas.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        run = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, env=environment)
    except OSError as error:
        advice = f"check {ncu}, which was found as ncu"
        raise ReportError(report, f"ncu could not run ({error.strerror})", advice) from None
    if run.returncode or not run.stdout.strip():
        said = (run.stderr or run.stdout).decode(errors="replace").strip().splitlines()
        cause = said[-1][:200] if said else f"exit code {run.returncode}"
        advice = f"try it by hand: ncu -i '{report}' --page raw --csv; a newer ncu reads older reports"
        raise ReportError(report, f"ncu could not read it ({cause})", advice)
    return run.stdout


def _by_module(report: Path, module: Any, wanted: Callable[[str], bool]) -> bytes:
    """Read a report by `ncu_report`, whose values are in base units, into a page as `ncu` prints it.

    Its interface: https://docs.nvidia.com/nsight-compute/PythonReportInterface.
    """
    try:
        actions = [a for r in module.load_report(str(report)) for a in r]
        metrics = list(dict.fromkeys(name for a in actions for name in a.metric_names() if wanted(name)))
        lines = [["ID", "Kernel Name", *_SIZES, *metrics], ["", "", *[""] * len(_SIZES), *_units(actions, metrics)]]
        for number, action in enumerate(actions):
            values = [_value(action, name) for name in metrics]
            lines.append([str(number), action.name(), *(_value(action, name) for name in _SIZES), *values])
    except (RuntimeError, OSError, ValueError, TypeError, AttributeError) as error:
        advice = f"check it by hand: ncu -i '{report}' --page raw --csv"
        raise ReportError(report, f"{_MODULE} could not read it ({error})", advice) from None
    # JSON writes quotation marks inside a text with a backslash, CSV doubles them.
    return "".join(
        ",".join(json.dumps(c, ensure_ascii=False).replace('\\"', '""') for c in line) + "\n" for line in lines
    ).encode()


_SIZES = tuple(f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz")


def _units(actions: list[Any], metrics: list[str]) -> list[str]:
    first = {name: a for a in reversed(actions) for name in a.metric_names() if name in metrics}
    return [first[name].metric_by_name(name).unit() or "" for name in metrics]


def _value(action: Any, name: str) -> str:
    metric = action.metric_by_name(name)
    value = None if metric is None else metric.value()
    return "" if value is None else str(value)
