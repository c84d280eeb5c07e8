"""Comparison of two runs: from their reports to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.compare.comparison import Comparison, check_comparable
from nsys2prv.analysis.compare.conditions import Judgment, condition_of
from nsys2prv.analysis.compare.conditions import judge as judged
from nsys2prv.analysis.compare.run_figures import RunFigures, run_figures
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.database.recorded import LAST, Recorded
from nsys2prv.families.selection import Selection
from nsys2prv.model.words import few
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.run.run_options import RunOptions

Inputs = Sequence[Path | str] | Path | str


def compare(
    a: Inputs | Recorded,
    b: Inputs,
    *,
    question: Question = Question(),
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    anyway: bool = False,
    whole: bool = False,
) -> Comparison:
    """Compare two runs, and test if the iterations of b take another time.

    `a` and `b` are reports, or folders of them; `a` may be a run in a database, too. The other parameters are those of
    `analyze`. Raises Nsys2prvError, also if the runs are of other programs or of other numbers of ranks or GPUs, or
    answer other questions, unless `anyway` is given. `whole`: keep the analyses of both runs, as the page needs them.
    """

    def analyzed(run: Inputs) -> Analysis:
        return analyze(run, question=question, selection=selection, options=options, execution=execution)

    if isinstance(a, Recorded):
        sides = _with_recorded(a, b, analyzed, anyway, whole)
    else:
        sides = (run_figures(analyzed(a), _named(a), whole), run_figures(analyzed(b), _named(b), whole))
    if not anyway:
        check_comparable(*sides)
    return Comparison(*sides)


def _with_recorded(
    a: Recorded, b: Inputs, analyzed: Callable[[Inputs], Analysis], anyway: bool, whole: bool
) -> tuple[RunFigures, RunFigures]:
    """Return both sides. `analyzed`: analyzes a run; what the database lacks is told before."""
    # SQLAlchemy is loaded when a database is asked for.
    from nsys2prv.database.read import check_readable, read_run
    from nsys2prv.database.run_record import reports_hash

    check_readable(a.db)
    known = None if a.name == LAST and a.number is None else read_run(a)
    found = analyzed(b)
    other = run_figures(found, _named(b), whole)
    if known is None:
        known = read_run(a, None if anyway else other, reports_hash(found.run.recording))
    return known, other


def _named(inputs: Inputs) -> str:
    return str(inputs) if isinstance(inputs, str | Path) else few([str(item) for item in inputs])


def judge(comparison: Comparison, conditions: Sequence[str]) -> list[Judgment]:
    """Judge conditions such as `iteration > 3%` on a comparison, as `compare --fail-on` does. Raises UsageError."""
    return judged(comparison, [condition_of(text) for text in conditions])
