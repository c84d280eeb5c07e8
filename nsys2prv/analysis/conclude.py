"""An analysis with its findings: all rules asked, the worst finding first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.hosts.sampled_functions import sampled_functions
from nsys2prv.analysis.findings.finding import SEVERITIES, Finding, severity_of
from nsys2prv.analysis.findings.rules import RULES
from nsys2prv.analysis.folded_findings import fold_same_host
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.question import Question

# Findings on defects of the reports: with a high one no cost is known well.
DEFECTS = ("failed-calls", "defective-reports")


def conclude(run: Run, question: Question) -> Analysis:
    """Answer a question about a run, with findings. Raises UsageError for a range that no rank has."""
    return with_findings(analyze_run(run, question))


def with_findings(analysis: Analysis) -> Analysis:
    """Return an analysis with its findings, the worst first, and what reads its samples of hosts."""
    case = case_of(analysis)
    rated = [_rated(one, case.iteration_ns) for rule in RULES for one in rule(case)]
    told = fold_same_host([one for one in rated if one.severity])
    # Stable: of equals the order of rules counts.
    findings = tuple(_said_once(sorted(told, key=_place)))
    return analysis._replace(
        findings=findings, host_samples=cache(partial(sampled_functions, analysis, case.timed.devices))
    )


def _said_once(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings in order; where an earlier one has a cause, too, they refer to the advice of that one."""
    known: set[str] = set()
    for one in findings:
        # The first screen has no advice of a mild one to refer to.
        if one.severity == "low":
            yield one
            continue
        advice = one.advice
        for common in one.common:
            advice = advice.replace(common.text, common.again) if common.cause in known else advice
            known.add(common.cause)
        yield one._replace(advice=advice)


def _place(finding: Finding) -> tuple[int, bool, float]:
    """Return the key of the order: by severity, then costs, of high ones after defects, on which all costs rest."""
    severity = finding.severity or "low"
    return SEVERITIES.index(severity), not (severity == "high" and finding.id in DEFECTS), -finding.share


def _rated(finding: Finding, iteration_ns: float) -> Finding:
    """Return a finding with share and severity: the rule's, or by cost; None if it costs too little."""
    share = finding.cost_ns / iteration_ns if finding.cost_ns and iteration_ns else finding.share
    return finding._replace(share=share, severity=finding.severity or severity_of(share))
