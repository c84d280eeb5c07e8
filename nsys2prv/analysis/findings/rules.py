"""The rules that make findings, and their order by cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.facts.case import Case, case_of
from nsys2prv.analysis.facts.hosts.sampled_functions import sampled_functions
from nsys2prv.analysis.findings.allocations import allocations
from nsys2prv.analysis.findings.contention import contention
from nsys2prv.analysis.findings.conversions import conversions
from nsys2prv.analysis.findings.data_loading import data_loading
from nsys2prv.analysis.findings.device_copies import device_copies
from nsys2prv.analysis.findings.dominant_kernel import dominant_kernel
from nsys2prv.analysis.findings.double_precision import double_precision
from nsys2prv.analysis.findings.doubtful_recording import doubtful_recording
from nsys2prv.analysis.findings.exposed_transfer import exposed_transfer
from nsys2prv.analysis.findings.exposed_waiting import exposed_waiting
from nsys2prv.analysis.findings.finding import SEVERITIES, Finding, severity_of
from nsys2prv.analysis.findings.folded_findings import fold_same_host
from nsys2prv.analysis.findings.gathers import gathers
from nsys2prv.analysis.findings.gpu_imbalance import gpu_imbalance
from nsys2prv.analysis.findings.gpus_in_turn import gpus_in_turn
from nsys2prv.analysis.findings.host_copies import host_copies
from nsys2prv.analysis.findings.host_functions import host_functions
from nsys2prv.analysis.findings.host_synchronization import host_synchronization
from nsys2prv.analysis.findings.imbalance import imbalance
from nsys2prv.analysis.findings.late_gpu import late_gpu
from nsys2prv.analysis.findings.late_rank import late_rank
from nsys2prv.analysis.findings.late_ranks import late_ranks
from nsys2prv.analysis.findings.launch_bound import launch_bound
from nsys2prv.analysis.findings.long_iterations import long_iterations
from nsys2prv.analysis.findings.low_bandwidth import low_bandwidth
from nsys2prv.analysis.findings.matrix_products import matrix_products
from nsys2prv.analysis.findings.memory_near_full import memory_near_full
from nsys2prv.analysis.findings.migrations import migrations
from nsys2prv.analysis.findings.pauses import pauses
from nsys2prv.analysis.findings.pipeline_bubble import pipeline_bubble
from nsys2prv.analysis.findings.recomputed_activations import recomputed_activations
from nsys2prv.analysis.findings.repeated_reductions import repeated_reductions
from nsys2prv.analysis.findings.shared_gpu import shared_gpu
from nsys2prv.analysis.findings.slow_gpu import slow_gpu
from nsys2prv.analysis.findings.small_grids import small_grids
from nsys2prv.analysis.findings.staged_copies import staged_copies
from nsys2prv.analysis.findings.stray_kernels import stray_kernels
from nsys2prv.analysis.findings.system_waiting import system_waiting
from nsys2prv.analysis.findings.timed_kernels import timed_kernels
from nsys2prv.analysis.findings.unaligned_products import unaligned_products
from nsys2prv.analysis.findings.unfused_attention import unfused_attention
from nsys2prv.analysis.findings.unfused_elementwise import unfused_elementwise
from nsys2prv.analysis.findings.varying_kernels import varying_kernels
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.question import Question

# Findings on defects of the reports: with a high one no cost is known well.
DEFECTS = ("failed-calls", "defective-reports")
Rule = Callable[[Case], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    doubtful_recording,
    exposed_transfer,
    repeated_reductions,
    exposed_waiting,
    late_rank,
    late_ranks,
    late_gpu,
    stray_kernels,
    shared_gpu,
    slow_gpu,
    imbalance,
    gpu_imbalance,
    gpus_in_turn,
    pipeline_bubble,
    pauses,
    long_iterations,
    launch_bound,
    host_synchronization,
    host_functions,
    data_loading,
    system_waiting,
    host_copies,
    staged_copies,
    device_copies,
    allocations,
    migrations,
    matrix_products,
    double_precision,
    unaligned_products,
    conversions,
    gathers,
    unfused_attention,
    unfused_elementwise,
    recomputed_activations,
    small_grids,
    memory_near_full,
    varying_kernels,
    dominant_kernel,
    timed_kernels,
    low_bandwidth,
    contention,
)


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
