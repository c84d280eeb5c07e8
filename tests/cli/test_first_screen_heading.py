"""The lines around the findings of a verdict: what these cost, and how to see the others."""

from __future__ import annotations

from pathlib import Path

from analysis_cases import SAMPLES
from programs import GOOD, analysis_of, program

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.question import Question
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.commands.analyze import analyze


def _lines(found: Analysis) -> list[str]:
    return verdict_of(found, [Path("run")]).splitlines()


def test_a_run_that_loses_nothing_is_told_so() -> None:
    found = analysis_of(program(GOOD))
    (one, *_) = found.findings
    free = one._replace(cost_ns=0, severity="low", gains=True)
    assert "No finding costs 1 % of the time or more. What else there is:" in _lines(found._replace(findings=(free,)))
    costly = free._replace(cost_ns=5_000_000, share=0.1)
    assert "Findings, by what they cost an iteration:" in _lines(found._replace(findings=(costly, free)))


def test_a_run_without_devices_names_what_its_reports_hold() -> None:
    lines = _lines(analyze(SAMPLES / "single" / "openmp.sqlite", question=Question()))
    assert "Calls and regions of hosts: nsys2prv analyze run --show api" in lines
    assert "Findings:" in lines


def test_findings_without_room_and_warnings_say_what_they_are() -> None:
    found = analysis_of(program(GOOD))
    (one, *_) = found.findings
    many = tuple(one._replace(title=f"{n} is slow", severity="high") for n in range(30))
    warned = found.run._replace(remarks=("cuDNN was not traced", "other"))
    lines = _lines(found._replace(findings=many, run=warned))
    assert any(line.endswith(" more findings: --show findings; advice: --html FILE") for line in lines)
    assert "2 warnings (--show warnings): cuDNN was not traced" in lines
