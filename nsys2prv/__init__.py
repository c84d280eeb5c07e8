"""Nsight Systems reports of a run on many GPUs and nodes, as one Paraver trace.

`translate(inputs, output)` writes a trace, `cut(trace, output, time)` one of a part of its time, `analyze(inputs)` says
where the time goes, `open_report(path)` reads one report, `read_prv(path)` gives a trace's records back as frames. They
are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nsys2prv.model.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nsys2prv.analysis.result import Analysis, Question
    from nsys2prv.commands.analyze import analyze
    from nsys2prv.commands.cut import cut
    from nsys2prv.commands.result import Translation
    from nsys2prv.commands.translate import translate
    from nsys2prv.errors import Nsys2prvError
    from nsys2prv.families.selection import Selection
    from nsys2prv.model.pandas_frame import to_pandas
    from nsys2prv.paraver.reader import Trace, read_prv
    from nsys2prv.report.report import Report, open_report
    from nsys2prv.run.options import RunOptions

_HOME = {
    "Analysis": "nsys2prv.analysis.result",
    "Nsys2prvError": "nsys2prv.errors",
    "Question": "nsys2prv.analysis.result",
    "Report": "nsys2prv.report.report",
    "RunOptions": "nsys2prv.run.options",
    "Selection": "nsys2prv.families.selection",
    "Trace": "nsys2prv.paraver.reader",
    "Translation": "nsys2prv.commands.result",
    "analyze": "nsys2prv.commands.analyze",
    "cut": "nsys2prv.commands.cut",
    "open_report": "nsys2prv.report.report",
    "read_prv": "nsys2prv.paraver.reader",
    "to_pandas": "nsys2prv.model.pandas_frame",
    "translate": "nsys2prv.commands.translate",
}

__all__ = [
    "Analysis",
    "Nsys2prvError",
    "Question",
    "Report",
    "RunOptions",
    "Selection",
    "Trace",
    "Translation",
    "analyze",
    "cut",
    "open_report",
    "read_prv",
    "to_pandas",
    "translate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nsys2prv' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
