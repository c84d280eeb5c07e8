"""One conclusion from an analysis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from nsys2prv.analysis.facts.common_advice import CommonAdvice
from nsys2prv.analysis.facts.thresholds import HIGH, LOW, MEDIUM
from nsys2prv.model.units import SHORTEST_IN_MS
from nsys2prv.model.words import RANKS_SHOWN

FindingSeverity = Literal["high", "medium", "low"]
Confidence = Literal["high", "medium", "low"]
# From the worst to the mildest.
SEVERITIES: tuple[FindingSeverity, ...] = ("high", "medium", "low")
# Stands for the inputs of the run in advice and commands.
RUN = "RUN"
# In the title of `host-bound` it stands after the time that the GPUs of ranks have no work.
OTHERS_WAIT = ", and others wait for "
# A command on the run in advice: what is pasted into a shell.
COMMAND = re.compile(rf"\bnsys2prv [a-z]+ {RUN}(?: --?[a-z-]+(?: (?!-)(?:'[^']*'|[\w*=,-]+(?<!,)))?)*")


def of_run(text: str, run: str) -> str:
    """Return advice or a command with the inputs of the run in place of RUN."""
    return re.sub(rf"\b{RUN}\b", lambda _: run, text)


def severity_of(share: float) -> FindingSeverity | None:
    """Return the severity of what takes a share (of 1) of an iteration or of a run; None if that is too little."""
    levels: tuple[tuple[float, FindingSeverity], ...] = (
        (HIGH.value, "high"),
        (MEDIUM.value, "medium"),
        (LOW.value, "low"),
    )
    return next((severity for least, severity in levels if share >= least), None)


def named_ranks(ranks: Iterable[int], worst_first: bool = False) -> tuple[int, ...]:
    """Return the ranks that a finding names: each once, at most RANKS_SHOWN, in order, or as given if `worst_first`."""
    return tuple(dict.fromkeys(ranks if worst_first else sorted(ranks)))[:RANKS_SHOWN]


class Finding(NamedTuple):
    """One conclusion from an analysis.

    `cost_ns`: time of an iteration that it costs (of the window, without iterations), and `share` its part of 1, or of
    what costs no iteration anything, as pauses, the part of the run that it takes;
    `ranks`, `iterations`: those concerned, empty for all, of ranks at most RANKS_SHOWN; `evidence`: figures by name,
    with the unit at the end of the name; `advice`: what to do; `command`: the next command; both have RUN for inputs;
    `cfg`: the Paraver configuration that shows it, and `at_ns` the time in the trace to look at (null: none).
    `severity` None is judged by the cost; `gains`: False where the run would gain next to nothing (less than LOW)
    without it, so that the first screen leaves it out; `common`: the parts of its advice on causes that other findings
    may have, too; `spare`: parts of its advice without which a screen that has no room for all still says what to do,
    in the order in which they are left out: evidence, and other ways.
    """

    id: str
    title: str
    cost_ns: float
    advice: str
    ranks: tuple[int, ...] = ()
    iterations: tuple[int, ...] = ()
    evidence: Mapping[str, Any] = {}
    confidence: Confidence = "high"
    command: str = ""
    cfg: str = ""
    at_ns: int | None = None
    severity: FindingSeverity | None = None
    share: float = 0.0
    gains: bool = True
    common: tuple[CommonAdvice, ...] = ()
    spare: tuple[str, ...] = ()

    @property
    def cost_text(self) -> str:
        """Return the cost as text, in ms, or in us where that would be no digit that counts; empty if it has none."""
        short = self.cost_ns < SHORTEST_IN_MS
        time = f"{self.cost_ns / 1e3:.3f} us" if short else f"{self.cost_ns / 1e6:.3f} ms"
        return time if self.cost_ns else ""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {
            "id": self.id,
            "severity": self.severity,
            "title": self.title,
            "cost_ns": round(self.cost_ns),
            "share": self.share,
            "ranks": list(self.ranks),
            "iterations": list(self.iterations),
            "evidence": dict(self.evidence),
            "confidence": self.confidence,
            "advice": self.advice,
            "command": self.command,
            "cfg": self.cfg,
            "at_ns": self.at_ns,
        }
