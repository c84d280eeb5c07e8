"""Comparison of two runs: from their reports to a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nsys2prv.analysis.comparable import comparable
from nsys2prv.analysis.comparison import Comparison, check_comparable
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.errors import few
from nsys2prv.families.selection import Selection
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.run.options import RunOptions

Inputs = Iterable[Path | str] | Path | str


def compare(
    a: Inputs,
    b: Inputs,
    *,
    question: Question = Question(),
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    anyway: bool = False,
) -> Comparison:
    """Compare two runs, and test if the iterations of b take another time.

    `a` and `b` are reports, or folders of them; the other parameters are those of `analyze`. Raises Nsys2prvError, also
    if the runs are of other programs or of other numbers of ranks or GPUs, unless `anyway` is given.
    """
    sides = [
        comparable(
            analyze(run, question=question, selection=selection, options=options, execution=execution), _named(run)
        )
        for run in (a, b)
    ]
    if not anyway:
        check_comparable(*sides)
    return Comparison(*sides)


def _named(inputs: Inputs) -> str:
    return str(inputs) if isinstance(inputs, str | Path) else few([str(item) for item in inputs])
