"""Every example of the docs and of the help texts does what it says, on the sample reports.

Those of docs/commands.md and of the tutorials run in order, see test_docs.py; the others run here, each by itself.
"""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import construct
import paramedir
import pytest
from runs import COMMAND, ROOT, SAMPLES

import nsys2prv
from nsys2prv.cli.main import COMMANDS, cli

PAGES = ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
IN_ORDER = ("docs/commands.md", "docs/tutorial-ml.md", "docs/tutorial-mpi.md")
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Names under which examples have reports of a run: each holds ranges `step 5`, `forward` and `backward`.
FOLDERS = ("reports", "before", "after")
REPORTS = ("rank{rank}.sqlite", "job.{rank}.sqlite", "results/41_node{node}_{rank}.sqlite")


# A command in a cell of a table in README.
IN_TABLE = re.compile(r"`(nsys2prv [^`]+)`(?=[,|` ])")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> str:
    """Return the code of a page, with lines that go on behind a backslash as one."""
    code = "\n".join(FENCE.findall((ROOT / page).read_text(encoding="utf-8")))
    return re.sub(r" *\\\n +", " ", code)


def examples() -> list[str]:
    """Lines of the pages' code blocks and of the help texts, each once."""
    pages = "\n".join(blocks(page) for page in PAGES if page not in IN_ORDER)
    found = re.findall(r"^(?:pip install \. && )?(nsys2prv .+)$", pages, re.MULTILINE)
    for row in re.findall(r"^\| .+ \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        found += IN_TABLE.findall(row)
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        own = re.findall(rf"^ +(nsys2prv {name}\b.*)$", command.help or "", re.MULTILINE)
        assert own, f"the help of {name} has no example"
        found += own
    return sorted({shlex.join(shlex.split(line, comments=True)) for line in found})


@pytest.fixture(scope="session")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace of 100 s, plain and compressed."""
    folder = tmp_path_factory.mktemp("long")
    report = construct.repeated(SAMPLES / "single/saxpy.sqlite", folder, 10, period_ns=10**10)
    nsys2prv.translate(report, folder / "trace", execution=nsys2prv.Execution(jobs=1))
    (folder / "trace.prv.gz").write_bytes(gzip.compress((folder / "trace.prv").read_bytes()))
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two runs: one of the reports of the examples under other names, so that they are another run."""
    folder = tmp_path_factory.mktemp("runs")
    for rank, report in enumerate(sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))):
        (folder / f"rank{rank}.sqlite").symlink_to(report)
    for name, inputs in (("nightly", folder), ("halo", SAMPLES / "mpi-halo")):
        nsys2prv.record(inputs, folder / "runs.db", name=name, execution=nsys2prv.Execution(jobs=1))
    return folder / "runs.db"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_trace: Path, runs: Path) -> Path:
    """A folder with what examples name, as the current one and as home."""
    (tmp_path / "results").mkdir()
    (tmp_path / "sample_reports").symlink_to(SAMPLES)
    for name in FOLDERS:
        (tmp_path / name).symlink_to(SAMPLES / "gpt-ddp")
    for rank, report in enumerate(sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))):
        for name in REPORTS:
            (tmp_path / name.format(rank=rank, node=rank // 2)).symlink_to(report)
    shutil.copy(runs, tmp_path)
    shutil.copy(ROOT / "tests" / "data" / "ncu" / "steps.csv", tmp_path / "kernels.csv")
    for file in long_trace.glob("trace.*"):
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("line", examples())
def test_an_example_runs(line: str, workplace: Path) -> None:
    said, _, file = line.partition(" '>' ")
    words = shlex.split(said)[1:]
    # A pattern that no file matches stays a word, as in a shell.
    expanded = [e for word in words for e in ("*" in word and sorted(map(str, Path().glob(word)))) or [word]]
    # A trace of that name is an input of other examples.
    output = expanded[expanded.index("-o") + 1] if "-o" in expanded else ""
    for path in workplace.glob(f"{output or '-'}.*"):
        path.unlink()
    assert not cli(expanded, standalone_mode=False), file
    assert not output or output == "--dry-run" or "--dry-run" in words or list(workplace.glob(f"{output}*"))


@pytest.mark.parametrize("page", [p for p in PAGES if p not in IN_ORDER and "import nsys2prv" in blocks(p)])
def test_examples_in_python_run(page: str, workplace: Path) -> None:
    """Those of a page one after the other, as a reader would type them."""
    (workplace / "runs.db").unlink()
    known: dict[str, object] = {}
    for block in PYTHON.findall((ROOT / page).read_text(encoding="utf-8")):
        exec(compile(block, page, "exec"), known)


@pytest.mark.paraver
def test_examples_of_paramedir_run(workplace: Path) -> None:
    lines = re.findall(r"^paramedir .+$", "\n".join(map(blocks, PAGES)), re.MULTILINE)
    assert lines
    program = workplace / "bin" / "nsys2prv"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    nsys2prv.translate("sample_reports/mpi-halo", "halo", execution=nsys2prv.Execution(jobs=1))
    for line in lines:
        run = line.replace("paramedir", shlex.quote(paramedir.program()), 1).replace("trace.prv", "halo.prv")
        shell = f'PATH="{program.parent}:$PATH"; {run}'
        subprocess.run(shell, shell=True, check=True, capture_output=True, timeout=120)
        assert Path(shlex.split(line)[-1]).read_text().startswith("\tParallel efficiency [%]\t")
