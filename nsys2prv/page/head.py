"""The first screen of the page as HTML: the run, the verdict, and the findings. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.findings.finding import RUN, Finding, of_run
from nsys2prv.analysis.overlapping_gains import overlapping_gains
from nsys2prv.analysis.sentences import (
    SERIAL_KERNELS,
    below_efficiency,
    counted,
    factors_by_name,
    found_by,
    left_out,
    outside_device_work,
    run_size,
    untold_defects,
    window_name,
    window_time,
)
from nsys2prv.model.basis import after_figure
from nsys2prv.model.version import VERSION
from nsys2prv.page.evidence import evidence_pair


def run_facts(analysis: Analysis, name: str, inputs: str) -> str:
    """Return name, size, date and window of a run. `inputs`: its reports in commands."""
    recording = analysis.run.recording
    facts = [("Run", name), ("Size", run_size(analysis))]
    if recording.began is not None:
        began = datetime.fromtimestamp(recording.began / 1e9, UTC)
        facts.append(("Recorded", f"{began:%Y-%m-%d %H:%M} UTC"))
    if recording.gpus:
        facts.append(("GPU", ", ".join(recording.gpus)))
    if recording.nsys:
        facts.append(("nsys", ", ".join(recording.nsys)))
    facts.append(("Window", f"{window_name(analysis)}, {window_time(analysis)}"))
    facts += [("Device work", text) for text in outside_device_work(analysis)]
    facts += [("Iterations", text) for text in found_by(analysis)]
    facts += [("Iterations", text) for text in left_out(analysis)]
    facts.append(("NCCL counts as", analysis.question.nccl))
    if inputs == RUN:
        facts.append((f"{RUN} in commands", "the reports of the run"))
    facts.append(("Analyzed by", f"nsys2prv {VERSION}"))
    rows = "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>" for term, text in facts)
    return f'<dl class="facts">{rows}</dl>'


def verdict(analysis: Analysis) -> str:
    """Return the efficiency of the run as a product of its factors."""
    e, host = analysis.headline_efficiency, analysis.host
    if analysis.run.serial:
        return f'<p class="note">{escape(SERIAL_KERNELS)}</p>'
    if e.measured:
        factors = factors_by_name(e, analysis)
        notes = tuple(below_efficiency(analysis))
        told = "".join(f'<p class="note">{escape(one)}</p>' for one in notes)
        return _product("parallel efficiency of the devices", e.parallel, tuple(factors.items())) + told
    if host.mpi is not None and host.mpi_balance is not None and host.mpi_communication is not None:
        of_hosts = (("load balance", host.mpi_balance), ("communication", host.mpi_communication))
        shown = _product("MPI parallel efficiency of the hosts", host.mpi, of_hosts)
        return f'{shown}<p class="note">The reports hold no device activity.</p>'
    return '<p class="note">The reports hold no device activity.</p>'


def _product(name: str, value: float, factors: tuple[tuple[str, float], ...]) -> str:
    parts = [f'<span class="big">{100 * value:.1f} %</span><span class="of">{escape(name)}</span>']
    signs = ("=", *["&times;"] * len(factors))
    parts += [
        f'<span class="factor"><span class="sign">{sign}</span> <b>{100 * part:.1f} %</b> {escape(of)}</span>'
        for sign, (of, part) in zip(signs, factors, strict=False)
    ]
    return f'<p class="verdict">{" ".join(parts)}</p>'


def defects(analysis: Analysis) -> str:
    """Return the defects of the reports that no finding tells, and the foremost remarks, as HTML; the worst first."""
    texts = [f"Defect: {defect.sentence}" for defect in untold_defects(analysis, analysis.findings)]
    texts += analysis.run.foremost
    return "".join(f'<p class="defect">{escape(text)}</p>' for text in texts)


def findings(analysis: Analysis, inputs: str, side: int) -> str:
    """Return all findings, the worst first; those with a place in time link to it.

    `inputs`: the reports of the run in commands; `side`: number of the run.
    """
    if not analysis.findings:
        return "<p>No findings.</p>"
    unit = after_figure(bool(analysis.window.iterations))
    items = "".join(_finding(one, analysis, inputs, side) for one in analysis.findings)
    overlap = overlapping_gains(analysis)
    note = f"Findings, by what they cost {unit}.{f' {overlap}' if overlap else ''}"
    return f'<p class="note">{note}</p><ol class="findings">{items}</ol>'


def _finding(one: Finding, analysis: Analysis, inputs: str, side: int) -> str:
    """Return a finding as an item of the list. `inputs`, `side`: see findings."""
    severity = one.severity or "low"
    cost = f'<span class="cost">{one.cost_text}, {100 * one.share:.1f} %</span>' if one.cost_text else ""
    title = f'<span class="badge">{severity}</span> {cost} <span class="title">{escape(one.title)}</span>'
    steps = f"<p>{escape(of_run(one.advice, inputs))}</p>{''.join(_next_steps(one, inputs))}"
    # Many iterations are named by the first and last ones of a row.
    named = counted([(number, 0) for number in one.iterations]).partition(" ")[2] if one.iterations else ""
    facts = {**one.evidence, "ranks": list(one.ranks), "iterations": named, "confidence": one.confidence}
    pairs = [evidence_pair(key, value) for key, value in facts.items() if value not in ([], None, "")]
    evidence = "".join(f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in pairs)
    # The advice of a cheap finding is folded.
    shown = "" if severity == "low" else " open"
    return (
        f'<li class="{severity}" data-id="{escape(one.id)}"><p class="line">{title}{_link(one, analysis, side)}</p>'
        f"<details{shown}><summary>What to do, and the evidence</summary>{steps}"
        f'<dl class="facts">{evidence}</dl></details></li>'
    )


def _link(one: Finding, analysis: Analysis, side: int) -> str:
    """Return the link to the place of a finding on the timeline, empty for one without a place."""
    place = _place(one, analysis)
    if not place:
        return ""
    low, high, at = place
    rank = f"&amp;rank={one.ranks[0]}" if one.ranks else ""
    to = f"#run={side}&amp;from={low}&amp;to={high}&amp;at={at}{rank}"
    return f' <a class="go" href="{to}">Show at {at / 1e6:.3f} ms</a>'


def _next_steps(one: Finding, inputs: str) -> Iterator[str]:
    if one.command:
        yield f'<p class="next">Next: <code>{escape(of_run(one.command, inputs))}</code></p>'
    if one.cfg:
        at = f" at {one.at_ns / 1e6:.3f} ms" if one.at_ns is not None else ""
        yield f'<p class="next">In Paraver: <code>{escape(one.cfg)}.cfg</code>{at}</p>'


def _place(one: Finding, analysis: Analysis) -> tuple[int, int, int] | None:
    """Return begin and end of the time to show, and the instant to mark; None for a finding without a place."""
    steps = analysis.iterations
    if one.at_ns is not None:
        # A tenth of an iteration around it, or a fiftieth of the window.
        whole = steps["total_ns"].median() if steps.height else None
        width = int(whole / 10) if isinstance(whole, float) else analysis.window.spans.total() // 50
        width = max(width, 1000)
        return max(0, one.at_ns - width // 4), one.at_ns + 3 * width // 4, one.at_ns
    named = steps.filter(steps["iteration"].is_in(one.iterations)) if one.iterations else steps.clear()
    if named.is_empty():
        return None
    first = named.sort("start_ns").row(0, named=True)
    return int(first["start_ns"]), int(first["start_ns"] + first["total_ns"]), int(first["start_ns"])
