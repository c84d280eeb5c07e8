"""Runs in a database: what is recorded, found again, and compared; on PostgreSQL, too, where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import postgres
import pytest
from exports import in_parquet
from polars.testing import assert_frame_equal
from runs import SAMPLES, Command
from sqlalchemy import delete, insert, select
from step_runs import SLOWER, run_of

import nsys2prv
from nsys2prv.analysis.compare.run_figures import run_figures
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.database.connection import address, transaction
from nsys2prv.database.read import read_run
from nsys2prv.database.schema import FINDINGS, KERNEL_CLASSES, RUNS, TASKS
from nsys2prv.errors import UsageError

HALO = SAMPLES / "mpi-halo"


def rows(db: str, table: Any) -> list[dict[str, Any]]:
    with transaction(address(db)) as connection:
        return [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]


def test_what_is_recorded_is_what_analyze_finds(db: str, tmp_path: Path) -> None:
    trace = tmp_path / "halo.prv"
    done = nsys2prv.record(HALO, db, name="nightly", trace=trace, question=nsys2prv.Question(nccl="useful"))
    found = nsys2prv.analyze(HALO, question=nsys2prv.Question(nccl="useful"))
    (run,) = rows(db, RUNS)
    assert (run["id"], run["name"], run["program"]) == (done.number, "nightly", "mpicuda")
    assert (run["ranks"], run["gpus"], run["iterations"]) == (4, 4, len(found.window.iterations))
    assert (run["parallel"], run["version"]) == (found.efficiency.parallel, nsys2prv.__version__)
    assert (run["trace"], run["options"]) == (str(trace), ["--nccl useful"])
    assert run["reports"] == [str(path) for path in sorted(HALO.glob("*.sqlite"))]
    assert run["began"] < run["recorded"]
    stored = [{k: v for k, v in row.items() if k not in ("run_id", "position")} for row in rows(db, FINDINGS)]
    assert stored == [one.as_json() for one in found.findings]
    sums = pl.DataFrame(rows(db, KERNEL_CLASSES)).group_by("family").agg(pl.col("total_ns").sum()).sort("family")
    kernels = found.classes.filter(pl.col("rank").is_null() & pl.col("family").is_in(sums["family"].implode()))
    assert sums.rows() == kernels.select("family", "total_ns").sort("family").rows()
    assert [row["rank"] for row in rows(db, TASKS)] == [0, 1, 2, 3]


def test_a_stored_run_is_the_side_of_a_comparison_that_it_was(db: str) -> None:
    done = nsys2prv.record(HALO, db)
    found = run_figures(nsys2prv.analyze(HALO), "mpi-halo (run 1)")
    stored = read_run(done)
    assert_frame_equal(stored.iterations, found.iterations)
    # Launches are not stored, nor when they begin and end.
    known = {"work": found.work, "recorded_work": found.recorded_work, "active_ns": found.active_ns}
    assert stored._replace(iterations=found.iterations, **known) == found  # type: ignore[arg-type]


@pytest.mark.parametrize("how", [None, 1])
def test_the_same_reports_take_their_own_place(how: int | None, db: str, before: Path, after: Path) -> None:
    first = nsys2prv.record(before, db, name="nightly")
    other = nsys2prv.record(after, db, name="nightly")
    execution = nsys2prv.Execution(jobs=how)
    again = nsys2prv.record(before, db, name="nightly", trace="again.prv", execution=execution)
    named = nsys2prv.record(before, db)
    assert (first.replaced, other.replaced, again.replaced, named.replaced) == (False, False, True, False)
    assert again.number == first.number
    assert nsys2prv.history(db).runs.select("run", "name", "trace").rows() == [
        (first.number, "nightly", str(Path("again.prv").absolute())),
        (named.number, "before", None),
        (other.number, "nightly", None),
    ]


def test_a_folder_in_an_export_says_nothing_of_the_run(tmp_path: Path, before: Path) -> None:
    export = in_parquet(before, tmp_path)
    first = nsys2prv.record(export, tmp_path / "runs.db")
    (export / "of-mine").mkdir()
    (export / "of-mine" / "notes.txt").touch()
    again = nsys2prv.record(export, tmp_path / "runs.db")
    assert (again.number, again.replaced) == (first.number, True)


def test_a_loaded_run_records_itself(db: str, before: Path) -> None:
    with nsys2prv.load(before) as run:
        done = run.record(db, name="loaded")
    nsys2prv.record(before, db, name="straight")
    loaded, straight = (read_run(nsys2prv.Recorded(db, name)) for name in ("loaded", "straight"))
    assert loaded.figures == straight.figures
    assert_frame_equal(loaded.iterations, straight.iterations)
    assert done.name == "loaded"


def test_history_names_the_first_finding_that_takes_time(db: str, before: Path) -> None:
    """A defect of the recording may come first, and costs nothing."""
    done = nsys2prv.record(before, db)
    own: dict[str, Any] = {"run_id": done.number, "ranks": [], "iterations": [], "evidence": {}}
    texts = {"severity": "high", "confidence": "high", "advice": "", "command": "", "cfg": ""}
    told = [("defective-reports", 0, 0.0), ("pauses", 0, 0.2), ("imbalance", 5, 0.1)]
    for n, shown in ((3, "pauses"), (1, "defective-reports"), (0, None)):
        with transaction(address(db)) as connection:
            connection.execute(delete(FINDINGS))
            for place, (name, cost, share) in enumerate(told[:n]):
                row = {"position": place, "id": name, "title": name, "cost_ns": cost, "share": share}
                connection.execute(insert(FINDINGS).values(**own, **row, **texts))
        assert nsys2prv.history(db).runs["finding"].to_list() == [shown]


def test_history_is_in_order_of_the_recordings(db: str, tmp_path: Path, before: Path, after: Path) -> None:
    for report in (after, run_of(tmp_path / "other.sqlite", SLOWER, program="other", day=3), before):
        nsys2prv.record(report, db)
    runs = nsys2prv.history(db).runs
    assert runs["name"].to_list() == ["before", "after", "other"]
    assert runs["began"].dt.strftime("%Y-%m-%d").to_list() == ["2024-05-01", "2024-05-02", "2024-05-03"]
    assert runs["iteration_ns"].to_list() == [100_000, 110_000, 110_000]
    assert nsys2prv.history(db, program="oth").runs["name"].to_list() == ["other"]
    assert nsys2prv.history(db, program="OTH").runs["name"].to_list() == ["other"]
    with pytest.raises(nsys2prv.Nsys2prvError, match="no run of a program 'othr', did you mean 'other'"):
        nsys2prv.history(db, program="othr")
    # Signs of patterns stand for themselves.
    with pytest.raises(nsys2prv.Nsys2prvError, match="no run of a program '%'"):
        nsys2prv.history(db, program="%")


def test_a_run_is_compared_with_a_stored_one_as_with_its_reports(db: str, before: Path, after: Path) -> None:
    nsys2prv.record(before, db)
    stored, direct = nsys2prv.compare(nsys2prv.Recorded(db, "before"), after), nsys2prv.compare(before, after)
    assert stored.as_json() == direct.as_json()
    assert stored.verdict.change == "slower"


def test_last_is_the_latest_run_of_the_same_kind_and_of_other_reports(
    db: str, tmp_path: Path, before: Path, after: Path
) -> None:
    latest = run_of(tmp_path / "latest.sqlite", SLOWER, day=4)
    with pytest.raises(nsys2prv.Nsys2prvError, match=r"no run is recorded there|no such database"):
        nsys2prv.compare(nsys2prv.Recorded(db), latest)
    nsys2prv.record(run_of(tmp_path / "other.sqlite", SLOWER, program="other", day=5), db)
    nsys2prv.record(run_of(tmp_path / "two.sqlite", SLOWER, gpus=2, day=6), db)
    with pytest.raises(nsys2prv.Nsys2prvError, match="no other run of app on 1 ranks and 1 GPUs"):
        nsys2prv.compare(nsys2prv.Recorded(db), latest)
    for report in (latest, before, after):
        nsys2prv.record(report, db)
    assert nsys2prv.compare(nsys2prv.Recorded(db), latest).a.name == "after (run 5)"
    assert nsys2prv.compare(nsys2prv.Recorded(db), latest, anyway=True).a.name == "two (run 2)"
    assert nsys2prv.compare(nsys2prv.Recorded(db, "4"), latest).a.name == "before (run 4)"
    with pytest.raises(nsys2prv.Nsys2prvError, match="no run 'befor', did you mean 'before'"):
        nsys2prv.compare(nsys2prv.Recorded(db, "befor"), latest)


@pytest.mark.parametrize("name", ["99", "9" * 20, "9" * 5000])
def test_a_number_that_no_run_has_is_refused(name: str, db: str, before: Path) -> None:
    nsys2prv.record(before, db)
    with pytest.raises(UsageError, match=r"no run '99.*; the runs are: before"):
        nsys2prv.compare(nsys2prv.Recorded(db, name), before)


def test_a_run_that_was_deleted_since_is_refused(db: str, before: Path) -> None:
    done = nsys2prv.record(before, db)
    with transaction(address(db)) as connection:
        connection.execute(delete(RUNS).where(RUNS.c.id == done.number))
    with pytest.raises(UsageError, match=f"no run '{done.number}'; the runs are: none"):
        nsys2prv.compare(done, before)


def test_runs_that_answer_other_questions_are_not_compared(db: str, before: Path, after: Path) -> None:
    nsys2prv.record(before, db, question=nsys2prv.Question(window="device", nccl="useful"))
    other = "A covers the window device, B steady, A counts NCCL as useful, B as communication"
    with pytest.raises(nsys2prv.Nsys2prvError, match=other):
        nsys2prv.compare(nsys2prv.Recorded(db, "before"), after)
    assert nsys2prv.compare(nsys2prv.Recorded(db, "before"), after, anyway=True).a.window == "device"


def test_names_with_zero_bytes_are_stored(db: str, tmp_path: Path) -> None:
    done = nsys2prv.record(run_of(tmp_path / "zero.sqlite", SLOWER), db, name="a\0b")
    assert rows(db, RUNS)[0]["name"] == "ab"
    assert done.number == 1


def test_the_command_line_says_the_same(cli: Command, tmp_path: Path, before: Path, after: Path) -> None:
    db = tmp_path / "runs.db"
    assert cli("record", before, "--db", db).out == f"Recorded before as run 1 in {db}\n"
    assert cli("record", before, "--db", db).out.endswith(f"in {db}, in the place of the same reports\n")
    told = json.loads(cli("record", after, "--db", db, "--name", "nightly", "--prv", "after.prv", "--json").out)
    assert told == {"version": 1, "db": str(db), "run": 2, "name": "nightly", "replaced": False}
    said = cli("history", "--db", db, "--json")
    assert json.loads(said.out) == {"version": 1, **nsys2prv.history(db).as_json()}
    assert [run["began"] for run in json.loads(said.out)["runs"]] == [
        f"2024-05-0{day}T00:00:00.000000Z" for day in (1, 2)
    ]
    table = cli("history", "--db", db).out.splitlines()
    assert table[0].split()[:4] == ["run", "name", "program", "began"]
    assert table[2].split()[:8] == ["2", "nightly", "app", "2024-05-02", "00:00", "1", "1", "6"]
    assert cli("history", "--db", db, "--format", "csv").out.splitlines()[0].startswith("run,name,program,began,")
    assert cli("history", "--db", db, "--program", "nothing").code == 2


def test_a_password_is_kept_to_compare_and_never_printed(
    server: postgres.Server, cli: Command, before: Path, after: Path
) -> None:
    db = server.new_database().replace("tests@", "tests:secret@")
    done = nsys2prv.record(before, db)
    # The server of the tests takes any password.
    assert done.db == db
    assert nsys2prv.compare(done, after).verdict.change == "slower"
    printed = (repr(done), cli("record", before, "--db", db).out, cli("record", before, "--db", db, "--json").out)
    assert [("secret" in text, "tests:***@" in text) for text in printed] == [(False, True)] * 3


def test_a_build_fails_against_a_stored_run(cli: Command, tmp_path: Path, before: Path, after: Path) -> None:
    db = tmp_path / "runs.db"
    cli("record", before, "--db", db)
    said = cli("compare", after, "--against", "db:LAST", "--db", db, "--fail-on", "iteration > 3%")
    assert said.code == 3
    assert said.out.startswith("A: before (run 1) (steady, 6 iterations)\n")
    assert "\nB is slower: the median iteration takes 0.110 ms instead of 0.100" in said.out
    assert cli("compare", before, "--against", "db:before", "--db", db, "--fail-on", "iteration > 3%").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("A",), "give two runs, or one and --against db:NAME --db DATABASE"),
        (("A", "B", "--against", "db:LAST", "--db", "runs.db"), "--against takes the place of the first run"),
        (("A", "--against", "LAST", "--db", "runs.db"), "--against and --db go together"),
        (("A", "--against", "db:LAST"), "--against and --db go together"),
        (("A", "--db", "runs.db"), "--db goes with --against db:NAME"),
        (("A", "B", "--db", "runs.db"), "--db goes with --against db:NAME"),
    ],
)
def test_a_side_of_a_comparison_is_given_once(words: tuple[str, ...], said: str, cli: Command) -> None:
    refused = cli("compare", *words)
    assert (refused.code, said in refused.err) == (2, True)


def test_a_plot_has_a_panel_a_program_and_a_dot_a_run(cli: Command, tmp_path: Path, before: Path, after: Path) -> None:
    db, plot = tmp_path / "runs.db", tmp_path / "history.svg"
    for report in (before, after, run_of(tmp_path / "other.sqlite", SLOWER, program="<other>")):
        cli("record", report, "--db", db)
    assert cli("history", "--db", db, "--plot", plot).code == 0
    drawn = plot.read_text()
    # Of each run a dot for the iteration, and one for the efficiency.
    assert drawn.count("<circle ") == 6
    assert drawn.count('font-weight="bold"') == 2
    assert "&lt;other&gt;" in drawn
    assert "before (run 1), 2024-05-01 00:00: 0.100 ms, parallel 100.0 %" in drawn
    assert drawn == nsys2prv.history(db).as_svg()


def test_history_has_the_efficiency_of_whole_iterations(cli: Command, tmp_path: Path, before: Path) -> None:
    """It had that of the window alone, which leaves out the tenth of each iteration between its kernels."""
    db = tmp_path / "runs.db"
    for report in (before, SAMPLES / "single" / "openmp.sqlite"):
        cli("record", report, "--db", db)
    runs = nsys2prv.history(db).runs.sort("run")
    whole = nsys2prv.analyze(before).whole_efficiency.parallel
    assert runs["whole_iterations"].to_list() == [whole, None]
    assert whole < 0.95 * runs["parallel"][0]
    lengths = iteration_lengths(nsys2prv.analyze(before).iterations)
    assert runs.select("iteration_mean_ns", "iteration_ns").rows() == [
        (lengths.mean(), np.median(lengths)),
        (None, None),
    ]
    head, *told = cli("history", "--db", db).out.splitlines()
    (cells,) = (line.split() for line in told if " before " in line)
    assert (f"{100 * whole:.1f}" in cells, "whole %" in head) == (True, True)
    assert "mean ms  median ms" in head
    said = cli("compare", before, "--against", "db:before", "--db", db, "--fail-on", "whole iterations < 1%")
    assert (said.code, said.err.startswith("nsys2prv: regression: whole iterations < 1%: ")) == (3, True)


def test_a_run_in_which_no_gpu_did_anything_has_no_efficiency(cli: Command, tmp_path: Path, before: Path) -> None:
    db, plot = tmp_path / "runs.db", tmp_path / "history.svg"
    for report in (before, SAMPLES / "single" / "openmp.sqlite"):
        cli("record", report, "--db", db)
    runs = nsys2prv.history(db).runs.sort("run")
    assert runs.select("parallel", "orchestration").rows() == [(1.0, 1.0), (None, None)]
    head, *told = cli("history", "--db", db).out.splitlines()
    cells = {line.split()[1]: line[: head.index("whole %")].split()[-1] for line in told}
    assert (cells["before"], cells["openmp"]) == ("100.0", "0")
    cli("history", "--db", db, "--plot", plot)
    assert plot.read_text().count("<circle ") == 2


PROBE = """
import sys
from nsys2prv.cli.main import cli
for words in (["--help"], ["record", "--help"], ["history", "--help"], ["compare", "--help"],
              ["translate", sys.argv[1], "-o", sys.argv[2], "--quiet"]):
    try:
        cli(words, standalone_mode=False)
    except SystemExit:
        pass
import nsys2prv
nsys2prv.record, nsys2prv.history, nsys2prv.load, nsys2prv.Recorded
print("sqlalchemy loaded:", "sqlalchemy" in sys.modules)
"""


def test_sqlalchemy_is_loaded_when_a_database_is_asked_for(before: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROBE, str(before), str(tmp_path / "trace")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "sqlalchemy loaded: False"
