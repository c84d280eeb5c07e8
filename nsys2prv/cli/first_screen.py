"""The first screen of `analyze`: the run, its efficiency, and the findings by what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from textwrap import wrap

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.facts.thresholds import LOW
from nsys2prv.analysis.findings.finding import COMMAND, RUN, Finding, of_run
from nsys2prv.analysis.overlapping_gains import overlapping_gains
from nsys2prv.analysis.sentences import (
    SERIAL_KERNELS,
    below_efficiency,
    communication_name,
    efficiency_text,
    found_by,
    left_out,
    outside_device_work,
    run_size,
    untold_defects,
    window_name,
    window_time,
)
from nsys2prv.cli.screen import HEIGHT, USUAL, Screen
from nsys2prv.cli.sections import ALL_SECTIONS
from nsys2prv.cli.text_table import ms, printable
from nsys2prv.commands.inputs import inputs_in_commands, run_name
from nsys2prv.model.basis import after_figure
from nsys2prv.model.words import short

# Tables that the last line names: those that readers ask for first.
FIRST_TABLES = "efficiency,waiting"
# How to see findings that the screen leaves out, and what to do about them.
SEE_FINDINGS = "--show findings; advice: --html FILE"
# A space at which a line is not wrapped.
FIXED_SPACE = "\u2060"
# Highest number of lines for iterations left out, for defects and foremost remarks, and for efficiencies of phases.
MOST_LEFT_OUT, MOST_DEFECTS, MOST_PHASES = 3, 3, 4
# Longest name of a window: of more iterations apart only the number shows.
LONGEST_WINDOW = 50
# Titles and advice are hardly ever longer: a sentence that is cut leaves a reader without its end, or the next step.
TITLE_LINES, ADVICE_LINES = 3, 6
# Lines of a warning, and of what stands before any figure.
WARNING_LINES, FOREMOST_LINES = 2, 3
INDENT = " " * 10


def verdict_of(analysis: Analysis, inputs: Sequence[Path], screen: Screen = USUAL) -> str:
    """Return the verdict as one screen of HEIGHT lines, of more where they are narrow. `inputs`: of the command."""
    run = inputs_in_commands(inputs)
    head = [*_wrapped([*_run(analysis, inputs, run, screen), *_efficiency(analysis)], screen)]
    foot = ["", _tables(run, screen)]
    if any(_has_steps(finding) and finding.cfg for finding in analysis.findings):
        foot[1:1] = [f"Trace for Paraver: nsys2prv translate {run} -o trace", "Its .cfg files: nsys2prv cfgs --install"]
    if analysis.run.remarks:
        first, *more = analysis.run.remarks
        warned = f"{len(more) + 1} warning{'s' * bool(more)} (--show warnings): {printable(first)}"
        foot[1:1] = screen.cut(warned, WARNING_LINES)
    taken = len(head) + len([*_defects(analysis, (), screen)]) + _rows(foot, screen)
    body, shown = _findings(analysis, run, screen.lines(HEIGHT) - taken, screen)
    return "\n".join(line.rstrip() for line in [*head, *_defects(analysis, shown, screen), *body, *foot])


def _wrapped(lines: Iterable[str], screen: Screen) -> Iterator[str]:
    """Yield lines as such of the screen's width: one that is cut shows half of a figure."""
    for line in lines:
        own = line[: len(line) - len(line.lstrip())]
        yield from wrap(line, screen.width, subsequent_indent=f"{own}  ", break_on_hyphens=False)


def _tables(run: str, screen: Screen) -> str:
    """Return the line on how to see all tables, and some of them where it has room for that."""
    line = f"Tables: nsys2prv analyze {run} --show {ALL_SECTIONS}"
    some = f" (or some: {FIRST_TABLES},...)"
    return line + (some if len(line + some) <= screen.width else "")


def _whole(command: str) -> str:
    """Return a command so that no line is wrapped inside it: one that is cannot be pasted into a shell."""
    return command.replace(" ", FIXED_SPACE)


def _lines(text: str, screen: Screen, indent: str = "", hanging: str = "  ", most: int | None = None) -> list[str]:
    """Return a text as lines, at most `most`; commands and paths stay whole, if they are longer."""
    lines = wrap(
        text,
        screen.width,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=most,
    )
    return [line.replace(FIXED_SPACE, " ") for line in lines]


def _rows(lines: Iterable[str], screen: Screen) -> int:
    """Return how many rows of the screen lines take: a long command takes several."""
    return sum(max(1, -(-len(line) // screen.width)) for line in lines)


def _run(analysis: Analysis, inputs: Sequence[Path], run: str, screen: Screen) -> Iterator[str]:
    """Yield name and size of the run, the window, and the iterations left out. `run`: the inputs in commands."""
    yield f"Run {short(printable(run_name(inputs)), 50)}: {run_size(analysis)}"
    if run == RUN:
        yield f"  {RUN} in the commands below stands for its {len(inputs)} inputs"
    # Before any figure: reports of several runs, and reports that were left out.
    for text in analysis.run.foremost[:MOST_DEFECTS]:
        yield from screen.cut(f"  {printable(text)}", FOREMOST_LINES, "    ")
    window = analysis.window
    name = printable(window_name(analysis))
    if window.iterations and len(name) > LONGEST_WINDOW:
        name = f"{window.name}, {len(window.iterations)} iterations"
    yield f"Window: {short(name, LONGEST_WINDOW)}, {window_time(analysis)}"
    yield from (f"  {printable(line)}" for line in (*outside_device_work(analysis), *found_by(analysis)))
    for line in islice(left_out(analysis), MOST_LEFT_OUT):
        yield f"  {line}"


def _efficiency(analysis: Analysis) -> Iterator[str]:
    """Yield the efficiency of the run, and of the phases that were asked for."""
    if analysis.run.serial:
        yield SERIAL_KERNELS
        return
    if analysis.efficiency.measured:
        nccl = f" (NCCL as {analysis.question.nccl})" if analysis.question.nccl != "communication" else ""
        yield f"Efficiency: {efficiency_text(analysis.headline_efficiency, analysis)}{nccl}"
        yield from (f"  {line}" for line in below_efficiency(analysis))
        only = "copy" if communication_name(analysis) == "copies" else "communicate"
        if len(analysis.efficiency.devices) > 1:
            yield f"  100 % if GPUs compute equally long, never only {only}, and always have something to do"
        else:
            yield f"  100 % if the GPU computes all the time: it does not only {only}, and has something to do"
    elif analysis.host.mpi is not None:
        share = f"{100 * analysis.host.mpi:.1f} %, the time outside of MPI"
        yield f"Efficiency: MPI {share} (the reports hold no device activity)"
    else:
        yield "The reports hold no device activity."
    for phase in analysis.phases[:MOST_PHASES]:
        yield f"  {short(printable(phase.name), 20)}: {efficiency_text(phase.efficiency, analysis)}"


def _defects(analysis: Analysis, shown: Sequence[Finding], screen: Screen) -> Iterator[str]:
    """Yield the worst defects that show in figures. `shown`: the findings below them, which tell some of them."""
    for defect in untold_defects(analysis, shown)[:MOST_DEFECTS]:
        yield from screen.cut(printable(f"Defect: {defect.sentence}"), WARNING_LINES)


def _findings(analysis: Analysis, run: str, lines: int, screen: Screen) -> tuple[list[str], Sequence[Finding]]:
    """Return the lines of the findings that gain something, as many as fit into `lines`, and these findings.

    A last line counts the others.
    """
    listed = [one for one in analysis.findings if not _told_above(one, analysis)]
    findings = [one for one in listed if one.gains]
    gainless = len(listed) - len(findings)
    if not findings:
        others = f"No {'other ' * (len(listed) < len(analysis.findings))}findings"
        return ["", *_lines(f"{others}{f' but {_without_gain(gainless)}' if gainless else '.'}", screen)], ()
    shown = ["", *_heading(analysis, findings, run, screen)]
    for number, finding in enumerate(findings):
        block = [*_block(finding, run, screen)]
        left = len(findings) - number + gainless
        if _rows([*shown, *block], screen) + (left > 1) > lines:
            more = f"{left} more finding{'s' * (left > 1)}: {SEE_FINDINGS}"
            return [*shown, *_lines(more, screen)], findings[:number]
        shown += block
    return [*shown, *(_lines(f"Also {_without_gain(gainless)}", screen) if gainless else [])], findings


def _without_gain(count: int) -> str:
    """Return the words on findings that gain nothing, with how to see them."""
    return f"{count} that gain{'s' * (count == 1)} next to nothing: {SEE_FINDINGS}"


def _heading(analysis: Analysis, findings: Sequence[Finding], run: str, screen: Screen) -> list[str]:
    """Return the lines above findings: what they cost and if they overlap, or that none does.

    Without devices they say how to see what there is.
    """
    unit = after_figure(bool(analysis.window.iterations))
    if any(finding.cost_ns for finding in findings):
        overlap = overlapping_gains(analysis)
        return [
            f"Findings, by what they cost {unit}:",
            *(screen.cut(f"  {overlap}", WARNING_LINES, "    ") if overlap else []),
        ]
    if analysis.efficiency.measured or analysis.host.mpi is not None:
        return _lines(f"No finding costs {100 * LOW.value:g} % of the time or more. What else there is:", screen)
    calls = _whole(f"nsys2prv analyze {run} --show api")
    return [*(_lines(f"Calls and regions of hosts: {calls}", screen) if analysis.api.height else []), "Findings:"]


def _told_above(finding: Finding, analysis: Analysis) -> bool:
    """Return True if the lines on the window say all that this screen would of a finding: why iterations are left out.

    One that is printed with steps has more to say.
    """
    reasons = islice(dict.fromkeys(one.why for one in analysis.window.left_out), MOST_LEFT_OUT)
    return finding.id == "late-capture" and not _has_steps(finding) and any(why in finding.title for why in reasons)


def _has_steps(finding: Finding) -> bool:
    """Return True if a finding is printed with advice and the next step: it costs more than little."""
    return finding.severity != "low"


def _block(finding: Finding, run: str, screen: Screen) -> Iterator[str]:
    """Yield the lines of one finding."""
    cost = f"{finding.cost_text} {100 * finding.share:.1f} %" if finding.cost_text else ""
    label = f"{finding.severity or '':<8}{cost}"
    title = printable(f"{label}{': ' if cost else ''}{finding.title}")
    yield from screen.cut(title, TITLE_LINES, INDENT)
    if not _has_steps(finding):
        return
    yield from _indented(_shortened(finding, run, screen), run, screen, screen.lines(ADVICE_LINES))
    where = f"{finding.cfg}.cfg" if finding.cfg else ""
    at = f" at {ms(finding.at_ns)} ms" if where and finding.at_ns is not None else ""
    steps = "; ".join(filter(None, [finding.command, f"in Paraver: {where}{at}" if where else ""]))
    if steps:
        yield from _indented(f"Next: {steps}", run, screen)


def _shortened(finding: Finding, run: str, screen: Screen) -> str:
    """Return the advice of a finding, without as many of its spare parts as have no room in ADVICE_LINES."""
    advice = finding.advice
    for part in finding.spare:
        if len(_indented(advice, run, screen)) <= screen.lines(ADVICE_LINES):
            break
        advice = advice.replace(part, "", 1)
    return advice


def _indented(text: str, run: str, screen: Screen, lines: int | None = None) -> list[str]:
    """Return advice or a command below the title of a finding, with the inputs `run` for RUN, in some lines at most."""
    told = of_run(COMMAND.sub(lambda command: _whole(of_run(command[0], run)), text), run)
    return _lines(told, screen, "        ", INDENT, lines)
