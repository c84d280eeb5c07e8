"""The docs say what the code does: tables made from it, every command and option, examples that run."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import runpy
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import test_packages

import nsys2prv
from nsys2prv.cli.main import COMMANDS, cli
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.selection import chosen_families
from nsys2prv.paraver.cfg import CFGS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RULES, FACTS = (ROOT / "nsys2prv" / "analysis" / folder for folder in ("findings", "facts"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Characters of a row of a table, and of a paragraph or an entry of a list, on findings.
LONGEST_ROW, LONGEST_PARAGRAPH = 300, 450
# Files that examples name as arguments, which click wants to exist.
NAMED_FILES = {
    "hosts.txt": "mpi-halo.[01] first\nmpi-halo.[23] second\n",
    "kernels.csv": (ROOT / "tests" / "data" / "ncu" / "steps.csv").read_text(encoding="utf-8"),
    "offsets.txt": "gpu-node0 0\ngpu-node1 -120us\n",
}


def _read(name: str) -> str:
    """Return the text of a file, with lines that go on behind a backslash as one."""
    return re.sub(r" *\\\n +", " ", (ROOT / name).read_text(encoding="utf-8"))


def _sections(text: str) -> dict[str, str]:
    """Heading of second level -> its text."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def _examples(name: str) -> Iterator[list[str]]:
    """Arguments of every `nsys2prv ...` line in the code blocks of a file."""
    for block in FENCE.findall(_read(name)):
        for line in re.findall(r"^(?:pip install \. && )?nsys2prv (.+)$", block, re.MULTILINE):
            yield shlex.split(line, comments=True)


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"there is no command {name}"
    return command


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what examples name, as the current one."""
    (tmp_path / "sample_reports").symlink_to(ROOT / "sample_reports")
    for name, text in NAMED_FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        *("findings.md", "trace.md", "cfgs.md", "commands.md", "database.md", "python.md", "schemas.md"),
        "troubleshooting.md",
    ],
)
def test_tables_are_those_of_the_code(page: str) -> None:
    """Stale? Run `python docs/generate.py`."""
    filled: Callable[[str, str], str] = runpy.run_path(str(DOCS / "generate.py"))["filled"]
    text = _read(f"docs/{page}")
    assert filled(page, text) == text


def test_findings_are_listed_by_the_titles_of_the_code() -> None:
    """Every part of a title is in the code, both tables have the same findings, and each has a section of its own."""
    page = _read("docs/findings.md")
    sections = _sections(page)
    titles = re.findall(r"^\| (.+) \| \[`([\w-]+)`\]\(#\2\) \|$", sections["Findings by their titles"], re.MULTILINE)
    costs = re.findall(r"^\| \[`([\w-]+)`\]\(#\1\) \| .+ \| .+ \|$", sections["Findings and their costs"], re.MULTILINE)
    explained = re.findall(r"^### `([\w-]+)`$", page, re.MULTILINE)
    assert [name for _, name in titles] == costs
    assert sorted(explained) == sorted(costs)
    files = (*RULES.glob("*.py"), *FACTS.rglob("*.py"))
    nodes = (node for f in files for node in ast.walk(ast.parse(f.read_text(encoding="utf-8"))))
    code = "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    parts = (part.strip() for title, _ in titles for part in re.split(r"…|;| \(.*?\)", title))
    assert [part for part in parts if part not in code] == []


def test_findings_are_explained_in_short_rows_and_paragraphs() -> None:
    """Whatever needs more is a list, or a section of its own. The table of thresholds is that of the code."""
    page = re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", "", _read("docs/findings.md"), flags=re.DOTALL)
    pieces = [" ".join(piece.split()) for piece in re.split(r"\n(?= *[-|] | *\d\. |\n)", page)]
    assert len(pieces) > 300
    assert [p for p in pieces if len(p) > (LONGEST_ROW if p.startswith("|") else LONGEST_PARAGRAPH)] == []


def test_every_family_has_a_row() -> None:
    families = _sections(_read("docs/trace.md"))["Families"]
    assert re.findall(r"^\| `(\w+)`", families, re.MULTILINE) == [f.name for f in FAMILIES]


def test_every_command_has_a_section() -> None:
    sections = _sections(_read("docs/commands.md"))
    assert [name for name in sections if name in COMMANDS] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_explained(name: str) -> None:
    section = _sections(_read("docs/commands.md"))[name]
    named = {o for text in re.findall(r"^\| (`-.+?) \|", section, re.MULTILINE) for o in re.findall(r"-[\w-]+", text)}
    options = {o for p in _command(name).params if isinstance(p, click.Option) for o in (*p.opts, *p.secondary_opts)}
    assert options - named == set(), "options without a row in docs/commands.md"
    assert {o for o in named if o.startswith("--")} - options == set(), "rows of options that do not exist"


def test_examples_of_the_commands_run(workplace: Path) -> None:
    """In order, in a folder with sample_reports in it; shell patterns stand for what is there."""
    for words in _examples("docs/commands.md"):
        expanded = [e for w in words for e in (sorted(map(str, Path().glob(w))) if "*" in w else [w])]
        cli(expanded, standalone_mode=False)
    assert list(workplace.glob("*.prv*"))


@pytest.mark.parametrize("page", ["docs/tutorial-ml.md", "docs/tutorial-mpi.md"])
def test_a_tutorial_shows_what_its_commands_say(page: str, workplace: Path) -> None:
    """Every line of a text block is in the output of what was run above it, up to an ellipsis at its end."""
    shown, out = 0, io.StringIO()
    with contextlib.redirect_stdout(out):
        for language, block in BLOCK.findall(_read(page)):
            if language == "python":
                exec(compile(block, page, "exec"), {})
            elif language == "text":
                said = [" ".join(line.split()) for line in out.getvalue().splitlines()]
                lines = [" ".join(line.split()) for line in block.splitlines()]
                begun = tuple(line.removesuffix("...") for line in lines if line.endswith("..."))
                assert [line for line in lines if line not in said and not line.endswith("...")] == []
                assert [part for part in begun if not any(line.startswith(part) for line in said)] == []
                shown += len(lines)
            else:
                for line in re.findall(r"^nsys2prv (.+)$", block, re.MULTILINE):
                    cli(shlex.split(line), standalone_mode=False)
    assert shown > 10


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_summary_that_newcomers_read_is_what_translate_says(
    page: str, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line, up to an ellipsis."""
    (shown,) = (block for _, block in BLOCK.findall(_read(page)) if block.startswith("Wrote "))
    cli(["translate", "sample_reports/gpt-ddp", "-o", "gpt-ddp"], standalone_mode=False)
    said = capsys.readouterr().out.splitlines()
    for line in filter(None, (line.split("...")[0].rstrip() for line in shown.splitlines())):
        assert any(other.startswith(line) for other in said), line


def test_the_verdict_that_newcomers_read_is_what_analyze_says(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = (block for _, block in BLOCK.findall(_read("README.md")) if block.startswith("Run "))
    cli(["analyze", "sample_reports/gpt-ddp"], standalone_mode=False)
    said = capsys.readouterr().out.splitlines()
    lines = [line for line in shown.splitlines() if line.strip() not in ("", "...")]
    assert lines == [line for line in said if line in lines]
    assert len(lines) == 8


def test_every_cfg_has_a_row() -> None:
    """Those of a GPU metric share one, and their folders are explained."""
    page = _read("docs/cfgs.md")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == {cfg.name for cfg in CFGS}
    assert {cfg.folder for cfg in CFGS} <= set(re.findall(r"^(?:## |- `)([\w/]+)", page, re.MULTILINE))


def test_cfgs_that_pages_name_are_there() -> None:
    """Wherever a folder stands before the name."""
    pages = [*(f"docs/{page.name}" for page in DOCS.glob("*.md")), "README.md"]
    named = {
        cfg for page in pages for cfg in re.findall(r"(?<![\w/])(?:basics|views|analysis)/\w+(?=`|\.cfg)", _read(page))
    }
    assert len(named) > 20
    assert named - {f"{cfg.folder}/{cfg.name}" for cfg in CFGS} == set()


def test_every_message_names_the_next_step() -> None:
    rows = re.findall(r"^\| (.+) \| (.*) \| (\d) \|$", _read("docs/troubleshooting.md"), re.MULTILINE)
    assert len(rows) > 50
    assert [cause for cause, step, _ in rows if not step and re.search("[a-z]", cause)] == []


@pytest.mark.parametrize(
    ("cause", "next_step"),
    [
        ("…: the compressed file is damaged (…)", "give a .prv or .prv.gz that nsys2prv wrote"),
        (
            "…: SQLite cannot read it (…)",
            "export the report again with `nsys export --type sqlite`, or record it again with `nvprof -o`",
        ),
    ],
)
def test_a_message_has_the_next_step_of_its_own_module(cause: str, next_step: str) -> None:
    """Also one that is returned to be raised elsewhere."""
    assert f"| {cause} | {next_step} | 1 |" in _read("docs/troubleshooting.md")


def test_every_name_of_the_python_api_has_a_row_and_a_reference() -> None:
    page = _read("docs/python.md")
    rows = dict(re.findall(r"^\| \[`(\w+)`\]\(#([\w.]+)\)", page, re.MULTILINE))
    assert sorted(rows) == sorted(nsys2prv.__all__)
    assert sorted(rows.values()) == sorted(re.findall(r"^::: (\S+)$", page, re.MULTILINE))


def test_categories_of_the_public_tool_are_as_the_code_has_them() -> None:
    section = _sections(_read("docs/from-public.md"))["Categories of `-t`"]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    # What its help lists, and the name of its report for device activity.
    assert {name for name, _ in rows} == {
        *("mpi_event_trace", "nvtx_pushpop_trace", "nvtx_startend_trace", "cuda_api_trace", "cuda_gpu_trace"),
        *("gpu_metrics", "openacc", "nccl", "graphs"),
        *("nvtx", "kernels", "openmp", "osrt", "pthread", "memory_usage", "cuda_events", "nic_metrics"),
    }
    for name, families in rows:
        chosen = chosen_families(trace=name)
        assert set(re.findall(r"`(\w+)`", families)) == set(chosen)


# Words of code that name a file or folder, from the top of the repository or from the package.
PATH = re.compile(r"(?!\.venv)(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|md)")
TOPICS = (
    "the format of a PRV line",
    "the clock fit",
    "NCCL calls and kernels",
    "matching across ranks",
    "GPU metrics from table to figure",
    "a new table of nsys",
    "a renamed column",
    "a new cfg",
    "a new option",
    "memory limits",
    "where a loss is reported",
)
NOUNS = (
    *("report", "run", "host", "task", "rank", "place", "row", "stream", "communicator", "operation", "interval"),
    *("sample", "message", "point", "combination", "window", "slice", "label", "family", "finding", "iteration"),
    *("repeat", "steady", "efficiency", "waiting", "replay", "anchor", "confidence", "exposed", "cfg"),
    # Those of the code alone.
    *("frame", "attribute", "kind", "slot", "lane", "end", "member", "merged", "unit", "component", "sampler"),
    *("loss", "diagnostic"),
    *("summary", "spill", "bundle", "part", "piece", "milestone"),
)


def _paths(text: str) -> list[str]:
    """Return the paths that code spans and code blocks name."""
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    words = [word for code in (*spans, *FENCE.findall(text)) for word in code.split()]
    return [word for word in words if PATH.fullmatch(word)]


def _missing(text: str) -> list[str]:
    """Return the paths that neither the repository nor the package has."""
    return [path for path in _paths(text) if not ((ROOT / path).exists() or (ROOT / "nsys2prv" / path).exists())]


def test_a_path_that_is_gone_is_found() -> None:
    text = "`report/schema.py`, `nsys2prv/run/`, `python docs/gone.py --option a/b`\n\n```\npytest tests/gone/\n```\n"
    assert _missing(text) == ["docs/gone.py", "a/b", "tests/gone/"]


@pytest.mark.parametrize("page", ["docs/how-it-works.md", "CONTRIBUTING.md"])
def test_paths_that_newcomers_are_sent_to_exist(page: str) -> None:
    text = _read(page)
    assert len(_paths(text)) > 10
    assert _missing(text) == []


def test_the_page_says_where_to_find_things() -> None:
    table = _sections(_read("docs/how-it-works.md"))["Where do I find ..."]
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE))
    assert [topic for topic in TOPICS if topic not in rows] == []
    assert [topic for topic, places in rows.items() if not _paths(places)] == ["I look for", "---"]


def test_the_kernel_that_the_page_follows_has_these_lines(tmp_path: Path) -> None:
    shown = re.findall(r"^(2:.+):\.\.\.$", _read("docs/how-it-works.md"), re.MULTILINE)
    selection = nsys2prv.Selection(("kernels", "cuda_api"))
    result = nsys2prv.translate(
        ROOT / "sample_reports" / "single" / "saxpy.sqlite", tmp_path / "saxpy", selection=selection
    )
    assert result.prv is not None
    lines = result.prv.read_text(encoding="utf-8").splitlines()
    assert [sum(line.startswith(f"{begin}:") for line in lines) for begin in shown] == [1, 1]


def test_the_table_of_packages_is_that_of_the_code() -> None:
    """Package -> its folders, from the command line down."""
    table = _sections(_read("docs/how-it-works.md"))["Packages"]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.*) ?\|$", table, re.MULTILINE)
    folders = {
        name: {p.parent.name for p in (ROOT / "nsys2prv" / name).glob("*/__init__.py")} for name in test_packages.FLOORS
    }
    assert [name for name, _ in rows] == list(test_packages.FLOORS)
    assert {name: set(re.findall(r"`(\w+)`", cell)) for name, cell in rows} == folders


def test_the_glossary_defines_every_noun_once() -> None:
    defined = re.findall(r"^\*\*(\w+)\*\*\n: ", _read("docs/glossary.md"), re.MULTILINE)
    assert [noun.lower() for noun in defined] == list(NOUNS)


def test_readme_begins_with_the_two_lines_that_set_up() -> None:
    """`.ci/run` takes its test line from there."""
    lines = FENCE.search(_read("README.md"))
    assert lines is not None
    assert [line.split("  ")[0] for line in lines[1].splitlines()] == [
        "pip install . && nsys2prv translate sample_reports/gpt-ddp -o gpt-ddp",
        "pip install '.[test]' && pytest",
    ]
