"""Analyses of the shared reports, made once a session, and small frames."""

from __future__ import annotations

from typing import Any

import pytest
from analysis_cases import Analysed, Find

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.run.run_options import RunOptions


@pytest.fixture(scope="session")
def analysed(report: Find) -> Analysed:
    """The analysis of a report or folder over all device activity, aligned by the wall clock."""
    made: dict[tuple[str, Question], Analysis] = {}

    def find(name: str, **question: Any) -> Analysis:
        key = (name, Question(**{"window": "device", **question}))
        if key not in made:
            made[key] = analyze(report(name), question=key[1], options=RunOptions(align="utc"))
        return made[key]

    return find
