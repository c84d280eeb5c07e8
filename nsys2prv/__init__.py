"""Nsight Systems reports of a run on many GPUs and nodes, as one Paraver trace.

`translate(inputs, output)` writes a trace, `cut(trace, output, time)` a part of one, `batch(root, folder)` those of
all runs below a folder. `analyze(inputs)` shows where a run spends its time, `what_if(inputs, changes)` predicts
iteration times, `load(inputs)` gives the frames of a run and answers questions about it, `compare(a, b)` says if a
run is slower than another, `record(inputs, db)` records a run in a database and `history(db)` shows the runs there,
`export(inputs, folder)` writes frames. `inspect(inputs)`, `align(inputs)`, `doctor()` and `cfgs()` are the commands
of these names, `open_report(path)` opens one report, `read_prv(path)` reads a trace into frames. Parameters travel in
groups: `Selection`, `RunOptions`, `Execution`, `TraceOutput`, `Question`. Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nsys2prv.model.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from nsys2prv.analysis.analysis_record import Analysis
    from nsys2prv.analysis.compare.comparison import Comparison
    from nsys2prv.analysis.compare.conditions import Judgment
    from nsys2prv.analysis.question import Question
    from nsys2prv.commands.align import align
    from nsys2prv.commands.analyze import analyze
    from nsys2prv.commands.batch.batch import BatchResult, batch
    from nsys2prv.commands.batch.jobs import Settings
    from nsys2prv.commands.cfgs import cfgs, install_cfgs
    from nsys2prv.commands.compare import compare, judge
    from nsys2prv.commands.cut import cut
    from nsys2prv.commands.doctor import doctor
    from nsys2prv.commands.export import Exported, export
    from nsys2prv.commands.frames_written import FrameFile
    from nsys2prv.commands.history import history
    from nsys2prv.commands.inspect import Inspection, inspect
    from nsys2prv.commands.load import LoadedRun, load
    from nsys2prv.commands.record import record
    from nsys2prv.commands.translate import translate
    from nsys2prv.commands.translation import Translation
    from nsys2prv.commands.whatif import what_if
    from nsys2prv.database.history import History
    from nsys2prv.database.recorded import Recorded
    from nsys2prv.errors import Nsys2prvError
    from nsys2prv.families.selection import Selection
    from nsys2prv.model.pandas_frame import to_pandas
    from nsys2prv.paraver.reader import Trace, read_prv
    from nsys2prv.pipeline.workers.execution import Execution
    from nsys2prv.pipeline.write.trace_output import TraceOutput
    from nsys2prv.report.report import Report, open_report
    from nsys2prv.run.clocks import Alignment
    from nsys2prv.run.run_options import RunOptions

_MODULE_OF = {
    "Alignment": "nsys2prv.run.clocks",
    "Analysis": "nsys2prv.analysis.analysis_record",
    "BatchResult": "nsys2prv.commands.batch.batch",
    "Comparison": "nsys2prv.analysis.compare.comparison",
    "Execution": "nsys2prv.pipeline.workers.execution",
    "Exported": "nsys2prv.commands.export",
    "FrameFile": "nsys2prv.commands.frames_written",
    "History": "nsys2prv.database.history",
    "Inspection": "nsys2prv.commands.inspect",
    "Judgment": "nsys2prv.analysis.compare.conditions",
    "LoadedRun": "nsys2prv.commands.load",
    "Nsys2prvError": "nsys2prv.errors",
    "Profile": "nsys2prv.report.ncu.profile",
    "ProfileFile": "nsys2prv.report.ncu.profile",
    "Question": "nsys2prv.analysis.question",
    "Recorded": "nsys2prv.database.recorded",
    "Report": "nsys2prv.report.report",
    "RunOptions": "nsys2prv.run.run_options",
    "Selection": "nsys2prv.families.selection",
    "Settings": "nsys2prv.commands.batch.jobs",
    "Trace": "nsys2prv.paraver.reader",
    "TraceOutput": "nsys2prv.pipeline.write.trace_output",
    "Translation": "nsys2prv.commands.translation",
    "align": "nsys2prv.commands.align",
    "analyze": "nsys2prv.commands.analyze",
    "batch": "nsys2prv.commands.batch.batch",
    "cfgs": "nsys2prv.commands.cfgs",
    "compare": "nsys2prv.commands.compare",
    "cut": "nsys2prv.commands.cut",
    "doctor": "nsys2prv.commands.doctor",
    "export": "nsys2prv.commands.export",
    "history": "nsys2prv.commands.history",
    "inspect": "nsys2prv.commands.inspect",
    "install_cfgs": "nsys2prv.commands.cfgs",
    "judge": "nsys2prv.commands.compare",
    "load": "nsys2prv.commands.load",
    "open_report": "nsys2prv.report.report",
    "read_profile": "nsys2prv.report.ncu.profile",
    "read_prv": "nsys2prv.paraver.reader",
    "record": "nsys2prv.commands.record",
    "to_pandas": "nsys2prv.model.pandas_frame",
    "translate": "nsys2prv.commands.translate",
    "what_if": "nsys2prv.commands.whatif",
}

__all__ = [
    "Alignment",
    "Analysis",
    "BatchResult",
    "Comparison",
    "Execution",
    "Exported",
    "FrameFile",
    "History",
    "Inspection",
    "Judgment",
    "LoadedRun",
    "Nsys2prvError",
    "Profile",
    "ProfileFile",
    "Question",
    "Recorded",
    "Report",
    "RunOptions",
    "Selection",
    "Settings",
    "Trace",
    "TraceOutput",
    "Translation",
    "align",
    "analyze",
    "batch",
    "cfgs",
    "compare",
    "cut",
    "doctor",
    "export",
    "history",
    "inspect",
    "install_cfgs",
    "judge",
    "load",
    "open_report",
    "read_profile",
    "read_prv",
    "record",
    "to_pandas",
    "translate",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'nsys2prv' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
