"""Nsight Systems reports of a run on many GPUs and nodes, as one Paraver trace.

`translate(inputs, output)` writes a trace, `cut(trace, output, time)` one of a part of its time, `analyze(inputs)` says
where the time goes, `open_report(path)` reads one report, `read_prv(path)` gives a trace's records back as frames. They
are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module

# As in `typing`, which takes longer to load than all that comes before the command line awaits interrupts.
TYPE_CHECKING = False
# Kept here, where it is at hand: to ask the installation for it takes 4 ms.
__version__ = "0.1.0"

if TYPE_CHECKING:
    from typing import Any

    from nsys2prv.analysis.result import Analysis, Question
    from nsys2prv.engine.analyze import analyze
    from nsys2prv.engine.cut import cut
    from nsys2prv.engine.result import Translation
    from nsys2prv.engine.selection import RunOptions, Selection
    from nsys2prv.engine.translate import translate
    from nsys2prv.errors import Nsys2prvError
    from nsys2prv.paraver.reader import Trace, read_prv
    from nsys2prv.report.report import Report, open_report

_HOME = {
    "Analysis": "nsys2prv.analysis.result",
    "Nsys2prvError": "nsys2prv.errors",
    "Question": "nsys2prv.analysis.result",
    "Report": "nsys2prv.report.report",
    "RunOptions": "nsys2prv.engine.selection",
    "Selection": "nsys2prv.engine.selection",
    "Trace": "nsys2prv.paraver.reader",
    "Translation": "nsys2prv.engine.result",
    "analyze": "nsys2prv.engine.analyze",
    "cut": "nsys2prv.engine.cut",
    "open_report": "nsys2prv.report.report",
    "read_prv": "nsys2prv.paraver.reader",
    "translate": "nsys2prv.engine.translate",
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
    "translate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nsys2prv' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
