"""Findings that tell one fault by two rules: the one that costs more is left, and says in short what the other says."""

from __future__ import annotations

from collections.abc import Sequence

from nsys2prv.analysis.findings.finding import OTHERS_WAIT, Finding


def fold_same_host(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Return findings with `host-bound` and `late-rank` of the same rank, late all along, as one.

    The first rank of `late-rank` counts: further ones are late in turn with it.
    The title of the one that costs less becomes a sentence of the other's advice.
    """
    bound = next((one for one in findings if one.id == "host-bound" and one.ranks), None)
    late = next((one for one in findings if bound and _is_lasting(one) and one.ranks[:1] == bound.ranks), None)
    if bound is None or late is None:
        return findings
    more, less = (bound, late) if bound.cost_ns > late.cost_ns else (late, bound)
    # What others wait is in the title of `late-rank`.
    said = f"{less.title.partition(OTHERS_WAIT)[0]}. "
    evidence = {**less.evidence, **more.evidence, "also": less.id}
    folded = more._replace(advice=f"{said}{more.advice}", evidence=evidence, spare=(*more.spare, said))
    return [folded if one is more else one for one in findings if one is not less]


def _is_lasting(finding: Finding) -> bool:
    """Return True for a `late-rank` of many iterations: those of single delays have another evidence."""
    return finding.id == "late-rank" and "waiting_ranks" in finding.evidence
