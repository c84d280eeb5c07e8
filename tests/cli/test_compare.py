"""`nsys2prv compare`: verdict, refusals, exit codes, forms."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from runs import ROOT, SAMPLES, Command
from step_runs import SLOWER, USUAL, run_of

import nsys2prv
from nsys2prv.analysis.compare.run_figures import CLASS_TIME, KERNEL_TIME, PHASE, unit_of_figure, words_of_figure

GPT, HALO = SAMPLES / "gpt-ddp", SAMPLES / "mpi-halo"


@pytest.fixture(scope="module")
def slower_rank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gpt-ddp, with every kernel of rank 2 but NCCL's 5 % longer."""
    folder = Path(shutil.copytree(GPT, tmp_path_factory.mktemp("slower") / "gpt-ddp"))
    (report,) = folder.glob("*.1.2.sqlite")
    report.chmod(0o644)
    kernels = "demangledName NOT IN (SELECT id FROM StringIds WHERE value LIKE '%nccl%')"
    with closing(sqlite3.connect(report)) as connection, connection:
        longer = 'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = "end" + ("end" - start) / 20 WHERE '
        assert connection.execute(longer + kernels).rowcount > 1000
    return folder


@pytest.mark.parametrize(
    ("what", "name", "sign", "words"),
    [
        ("window", "duration_ns", "ms", ("iteration, mean", "from first to last activity")),
        ("iteration step #, mean", "length_ns", "ms", ("iteration step #, mean", "from one to the next")),
        ("efficiency", "whole_iterations", "%", ("efficiency", "whole iterations")),
        ("iteration step #, mean", "own_ns", "ms", ("iteration step #, mean", "own, mean of ranks")),
        ("memory", "total_ns", "ms", ("memory operations", "total")),
        ("devices", "count", "", ("devices", "count")),
        ("efficiency", "load_balance", "%", ("efficiency", "load balance")),
        # Names of programs say nothing of the unit.
        (PHASE, "wait_ns", "%", ("phase", "wait_ns")),
        (KERNEL_TIME, "fill_bytes", "ms", ("kernel", "fill_bytes")),
        (CLASS_TIME, "share", "ms", ("class", "share")),
        ("GPU memory [Throughput %]", "wait_ns", "", ("GPU memory [Throughput %]", "wait_ns")),
    ],
)
def test_each_figure_has_its_unit(what: str, name: str, sign: str, words: tuple[str, str]) -> None:
    assert (unit_of_figure(what, name).sign, words_of_figure(what, name)) == (sign, words)
    if what == "window":
        assert words_of_figure(what, name, of_iterations=False) == ("window", "duration")


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (SAMPLES / "single/openmp.sqlite", []),
        (
            SAMPLES / "mpi-halo",
            ["parallel", "load_balance", "communication", "orchestration", "whole_iterations", "mpi"],
        ),
    ],
    ids=["no device activity", "devices and MPI"],
)
def test_efficiencies_are_those_that_a_run_has(run: Path, wanted: list[str], cli: Command) -> None:
    """Zeros for devices of a run without any would read as an efficiency."""
    rows = json.loads(cli("compare", run, run, "--json").out)["rows"]
    assert [row["name"] for row in rows if row["what"] == "efficiency"] == wanted


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return run_of(tmp_path / "before.sqlite", USUAL)


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return run_of(tmp_path / "after.sqlite", SLOWER)


def test_the_runs_come_first_and_then_the_verdict(cli: Command, before: Path, after: Path) -> None:
    """A verdict on B says nothing to whoever does not know which run that is."""
    a, b, _, slower, *_ = cli("compare", before, after).out.splitlines()
    assert (a, b) == (f"A: {before} (steady, 6 iterations)", f"B: {after} (steady, 6 iterations)")
    assert slower.startswith(
        "B is slower: the median iteration takes 0.110 ms instead of 0.100 (+10.0 %, significant: p = 0.00"
    )
    faster, same = (cli("compare", one, before).out.splitlines()[3] for one in (after, before))
    assert faster.startswith("B is faster: the median iteration takes 0.100 ms instead of 0.110 (-9.1 %")
    assert same.startswith("No difference that the spread of iterations does not explain")


def test_times_are_in_ms_of_an_iteration(cli: Command, before: Path, tmp_path: Path) -> None:
    """A run of twice as many iterations does not take twice as long."""
    twice = run_of(tmp_path / "twice.sqlite", SLOWER * 2)
    lines = [line.split() for line in cli("compare", before, twice).out.splitlines()]
    assert ["kernel", "sgemm", "ms", "0.090", "0.099", "0.009", "+10.0"] in lines


def test_figures_that_do_not_differ_are_counted_and_not_printed(cli: Command, before: Path, after: Path) -> None:
    """A difference below the digits that are shown reads as none."""
    same = cli("compare", before, before)
    said, figures = same.out.splitlines(), len(json.loads(cli("compare", before, before, "--json").out)["rows"])
    assert said[-1] == f"None of {figures} figures differs in the digits that are shown (--json has all)."
    assert "B - A" not in same.out
    lines = cli("compare", before, after).out.splitlines()
    shown = [line.split() for line in lines[lines.index(next(line for line in lines if "B - A" in line)) + 1 : -1]]
    assert all(float(cells[-2]) for cells in shown)
    left = figures - len(shown)
    assert ["run", "ranks"] not in [cells[:2] for cells in shown]
    assert lines[-1] == (
        f"Left out: {left} of {figures} figures, which do not differ in the digits that are shown. --json has all."
    )


def test_the_page_shows_the_figures_that_the_terminal_shows(
    cli: Command, before: Path, after: Path, tmp_path: Path
) -> None:
    page, figures = tmp_path / "both.html", len(json.loads(cli("compare", before, after, "--json").out)["rows"])
    lines = cli("compare", before, after, "--html", page).out.splitlines()
    left = next(line for line in lines if line.startswith("Left out: ")).split()[2]
    text = page.read_text(encoding="utf-8")
    assert f"{left} of {figures} figures do not differ in the digits that are shown" in text
    assert '"section":"comparison","key":"times"' in text
    cli("compare", before, before, "--html", page, "--force")
    same = page.read_text(encoding="utf-8")
    assert f"{figures} of {figures} figures do not differ" in same
    assert '"section":"comparison","key":"times"' not in same


def test_too_few_iterations_cannot_be_told(cli: Command) -> None:
    said = cli("compare", GPT, GPT, "--fail-on", "iteration > 1%")
    text = "3 and 3 steady iterations are too few"
    verdict = f"It cannot be told if B is slower: {text} to tell, record 5 or more of each run."
    assert said.out.splitlines()[3].startswith(verdict)
    assert f"iteration > 1%: cannot be told, {text}" in said.err
    assert said.code == 0


def test_one_rank_with_slower_kernels_is_found(cli: Command, slower_rank: Path) -> None:
    said = cli("compare", GPT, slower_rank, "--fail-on", "compute > 3%", "--json")
    found = json.loads(said.out)
    assert found["verdict"]["change"] == "rank slower"
    assert found["verdict"]["text"].startswith("Rank 2 computes ")
    assert [one["rank"] for one in found["significance"]["ranks"] if one["significant"]] == [2]
    assert said.code == 3
    assert "regression: compute > 3%: rank 2 computes" in said.err


def test_a_regression_has_an_exit_code_and_is_named(cli: Command, before: Path, after: Path) -> None:
    said = cli("compare", before, after, "--fail-on", "iteration > 3%", "--fail-on", "iteration > 30%")
    assert said.code == 3
    (line,) = said.err.splitlines()
    assert line.startswith(
        "nsys2prv: regression: iteration > 3%: the median iteration takes 0.110 ms instead of 0.100 (+10.0 %"
    )
    assert cli("compare", after, before, "--fail-on", "iteration > 3%").code == 0


def test_an_iteration_that_is_longer_by_chance_is_no_regression(cli: Command, before: Path, tmp_path: Path) -> None:
    other = run_of(tmp_path / "other.sqlite", (103, 99, 98, 103, 104, 101))
    said = cli("compare", before, other, "--fail-on", "iteration > 0.5%", "--format", "markdown")
    assert (said.code, said.err) == (0, "")
    assert "- passed: iteration > 0.5%: the median iteration takes 0.102 ms instead of 0.100" in said.out
    assert "(not significant)" in said.out


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"program": "other"}, "A is of the program app, B of other"),
        ({"gpus": 2}, "A has 1 GPU, B 2"),
    ],
)
def test_runs_that_are_not_comparable_are_refused(
    other: dict[str, str | int], reason: str, cli: Command, before: Path, tmp_path: Path
) -> None:
    b = run_of(tmp_path / "b.sqlite", USUAL, **other)  # type: ignore[arg-type]
    said = cli("compare", before, b)
    assert said.code == 2
    assert said.err == f"nsys2prv: the runs are not comparable: {reason}; --anyway compares them all the same\n"
    assert cli("compare", before, b, "--anyway").code == 0


def test_another_number_of_ranks_is_refused(cli: Command, tmp_path: Path) -> None:
    for report in sorted(GPT.glob("*.sqlite"))[:2]:
        shutil.copy(report, tmp_path)
    said = cli("compare", GPT, tmp_path)
    assert (said.code, "A has 4 ranks, B 2" in said.err) == (2, True)


def test_a_mistyped_condition_is_refused(cli: Command, before: Path) -> None:
    said = cli("compare", before, before, "--fail-on", "iteratoin > 3%")
    assert said.code == 2
    assert "no figure 'iteratoin', did you mean 'iteration'?" in said.err
    # Without reading the reports.
    assert "cannot be read; a condition is NAME > N%" in cli("compare", "none", "none", "--fail-on", "iteration").err


def test_markdown_has_a_verdict_and_a_table(cli: Command, before: Path, after: Path) -> None:
    lines = cli("compare", before, after, "--format", "markdown", "--fail-on", "iteration > 3%").out.splitlines()
    assert lines[:3] == [f"A: `{before}` (steady, 6 iterations)  ", f"B: `{after}` (steady, 6 iterations)  ", ""]
    assert lines[3].startswith("**B is slower: the median iteration takes 0.110 ms instead of 0.100 (+10.0 %")
    assert lines[5].startswith("- failed: iteration > 3%: ")
    head = lines.index("| what | name | unit | A | B | B - A | change % |")
    assert "| kernel | sgemm | ms | 0.090 | 0.099 | 0.009 | +10.0 |" in lines[head:]
    assert all(line.startswith("|") and line.count("|") == 8 for line in lines[head:])
    same = cli("compare", before, before, "--format", "markdown").out
    assert (" figures differs in the digits" in same, "|" in same) == (True, False)


def test_where_nothing_is_on_devices_markdown_says_that_there_are_no_figures(cli: Command) -> None:
    """Nor has a phase an efficiency there: zeros would read as one."""
    report = SAMPLES / "single" / "nvtx-attributes.sqlite"
    said = cli("compare", report, report, "--phase", "iteration", "--format", "markdown").out
    assert said.splitlines()[-1] == "Neither run has figures to compare: device activity, MPI calls or iterations."


def test_csv_has_the_rows(cli: Command, before: Path) -> None:
    assert cli("compare", before, before, "--format", "csv").out.startswith("what,name,a,b,difference,change_percent\n")


def test_python_says_the_same(cli: Command, before: Path, after: Path) -> None:
    found = nsys2prv.compare(before, after)
    assert {"version": 1, **found.as_json(), "conditions": []} == json.loads(
        cli("compare", before, after, "--json").out
    )
    assert repr(found).startswith("<Comparison: B is slower: ")
    with pytest.raises(nsys2prv.Nsys2prvError, match="not comparable"):
        nsys2prv.compare(before, HALO)


def test_the_command_of_the_workflow_runs(
    cli: Command, before: Path, after: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "contrib" / "github" / "performance.yml").read_text()
    (line,) = (line.strip() for line in text.splitlines() if line.strip().startswith("nsys2prv "))
    words, _, file = line.partition(" > comment")
    reports = {"base-run.nsys-rep": before, "change-run.nsys-rep": after}
    assert file == ".md"
    said = cli(*(reports.get(word, word) for word in shlex.split(words)[1:]))
    assert said.code == 3
    assert said.out.splitlines()[3].startswith("**B is slower")


def test_a_page_of_both_runs_is_written_once(cli: Command, before: Path, after: Path, tmp_path: Path) -> None:
    page = tmp_path / "both.html"
    said = cli("compare", before, after, "--html", page)
    assert said.out.endswith(f"Wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "before.sqlite" in text
    assert "after.sqlite" in text
    again = cli("compare", before, after, "--html", page)
    assert again.code == 2
    assert "use --force to write over it" in again.err


def test_it_is_of_the_part_and_the_reports_that_are_chosen(cli: Command) -> None:
    """As `analyze` is: with the options that the messages of both name."""
    part = ("--nvtx", "iteration 5", "--window", "trace", "--only", "kernels,mpi,nvtx", "--ranks", "0-3", "--jobs", "1")
    told = json.loads(cli("compare", HALO, HALO, *part, "--json").out)
    found = nsys2prv.compare(
        HALO,
        HALO,
        question=nsys2prv.Question(window="trace"),
        selection=nsys2prv.Selection(("kernels", "mpi", "nvtx"), nvtx="iteration 5"),
    )
    assert told["rows"] == json.loads(json.dumps(found.as_json()["rows"])) != []
    assert told["rows"] != json.loads(cli("compare", HALO, HALO, "--json").out)["rows"]
    single = SAMPLES / "single"
    refused = cli("compare", single, single)
    assert (refused.code, "--one-run" in refused.err) == (2, True)
    assert cli("compare", single, single, "--one-run").code == 0
