"""Commands that a verdict and a page print are pasted into a shell: inputs and lines are whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from programs import GOOD, analysis_of, program

from nsys2prv.analysis.findings.finding import RUN
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.commands.inputs import inputs_in_commands
from nsys2prv.page.page import page

LONG = Path("/scratch/project_465000001/a user/2026-11-30/gpt-large-fsdp/nsys/reports/of-job-12345678/all")


def test_a_command_with_a_long_path_is_one_line() -> None:
    found = analysis_of(program(GOOD))
    (one, *_) = found.findings
    asking = one._replace(
        advice="Look (nsys2prv analyze RUN --show api,idle), then wait.",
        severity="high",
        command="nsys2prv whatif RUN --set 'transfer*0.5'",
        cfg="views/nccl",
    )
    lines = verdict_of(found._replace(findings=(asking,)), [LONG]).splitlines()
    for command in (
        f"nsys2prv whatif '{LONG}' --set 'transfer*0.5'",
        f"nsys2prv analyze '{LONG}' --show api,idle",
        f"nsys2prv translate '{LONG}' -o trace",
        f"nsys2prv analyze '{LONG}' --show all",
    ):
        assert any(command in line for line in lines), command
    assert "|" not in lines[-1]


def test_long_commands_take_several_rows_of_the_screen() -> None:
    found = analysis_of(program(GOOD))
    (one, *_) = found.findings
    many = tuple(one._replace(title=f"{n} is slow", severity="high", command="nsys2prv inspect RUN") for n in range(20))
    verdicts = [verdict_of(found._replace(findings=many), [path]) for path in (LONG, Path("run"))]
    few, more = (text.count("Next: nsys2prv inspect") for text in verdicts)
    assert few < more


@pytest.mark.parametrize(
    ("others", "pattern"),
    [((), "reports of/*.sqlite"), (("rank99.sqlite",), RUN), (("notes.txt",), "reports of/*.sqlite")],
    ids=["all", "a report that is not given", "a file of another kind"],
)
def test_many_reports_are_the_pattern_that_matches_them_alone(
    others: tuple[str, ...], pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("reports of")
    folder.mkdir()
    given = [folder / f"rank{n:02}.sqlite" for n in range(16)]
    for path in (*given, *(folder / name for name in others)):
        path.touch()
    told = inputs_in_commands(given)
    assert told.replace("'", "") == pattern
    if told != RUN:
        listed = subprocess.run(["sh", "-c", f"printf '%s\n' {told}"], capture_output=True, text=True, check=True)
        assert listed.stdout.splitlines() == [str(path) for path in given]
    monkeypatch.chdir(folder)
    inside = inputs_in_commands([Path(path.name) for path in given])
    assert inside == (RUN if told == RUN else "*.sqlite")


def test_few_inputs_are_named_one_by_one() -> None:
    assert inputs_in_commands([Path("a.sqlite"), Path("my b.sqlite")]) == "a.sqlite 'my b.sqlite'"
    assert inputs_in_commands([Path("a\nb")]) == RUN


def test_run_is_explained_before_it_is_used() -> None:
    found = analysis_of(program(GOOD))
    lines = verdict_of(found, [Path(f"{name}/rank0.sqlite") for name in "abcdefgh"]).splitlines()
    assert lines[1] == "  RUN in the commands below stands for its 8 inputs"
    assert f"nsys2prv analyze {RUN} --show all" in lines[-1]


def test_the_page_has_the_commands_of_the_terminal() -> None:
    found = analysis_of(program(GOOD))
    (one, *_) = found.findings
    asking = found._replace(findings=(one._replace(command="nsys2prv inspect RUN"),))
    assert "Next: <code>nsys2prv inspect runs/one</code>" in page(asking, "one", "runs/one")
    assert "<dt>RUN in commands</dt><dd>the reports of the run</dd>" in page(asking, "one")
