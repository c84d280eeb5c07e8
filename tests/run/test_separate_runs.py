"""Reports of different runs are told apart; reports of one run are not, however late they begin."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import construct
import pytest
from runs import ARCHIVES, FOLDERS, SAMPLES, SINGLE, Command, left_in, parameters, reports_of

import nsys2prv
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.errors import UsageError
from nsys2prv.page.head import defects
from nsys2prv.run.separate_runs import ReportFacts, separate_runs, several_runs_warning

# Reports that are named are refused like those of a folder.
STRICT = nsys2prv.RunOptions(one_run=False)

DATA = Path(__file__).parents[1] / "data"
SECOND, HOUR = 10**9, 3600 * 10**9


def fact(
    begin: float,
    end: float,
    program: str = "app",
    rank: int | None = None,
    job: str = "",
    pid: int = 0,
    session: str = "",
    communicator: str = "",
) -> ReportFacts:
    """A report of one process, seconds of one day; without a pid the process is unlike all others."""
    process = ("node0", pid, program) if pid else (object(), 0, program)
    return ReportFacts(
        Path("report.sqlite"),
        session,
        ("SLURM_JOB_ID", job) if job else None,
        (int(begin * SECOND), int(end * SECOND)),
        frozenset([process]),
        frozenset([program]),
        frozenset() if rank is None else frozenset([rank]),
        frozenset([communicator] if communicator else []),
    )


ONE_RUN = {
    "at one time": [fact(0, 10), fact(2, 12)],
    "other programs at one time": [fact(0, 10, "server"), fact(2, 12, "client")],
    "a long report over short ones": [fact(0, 60, "node"), fact(2, 3, "a"), fact(50, 51, "b")],
    "at one time but for the clocks": [fact(0, 1, "a"), fact(1.5, 2, "b")],
    "captures of one session": [fact(0, 1, session="s"), fact(30, 31, session="s")],
    "captures of one process": [fact(0, 1, pid=7), fact(30, 31, pid=7)],
    "ranks of MPI one after the other": [fact(0, 1, rank=0), fact(30, 31, rank=1), fact(60, 61, rank=2)],
    "ranks of one job begin late": [fact(0, 1, rank=0, job="4"), fact(30, 31, rank=1, job="4")],
    "programs of one job with ranks": [fact(0, 1, "a", rank=0, job="4"), fact(30, 31, "b", rank=1, job="4")],
    "one program of one job without ranks": [fact(0, 1, job="4"), fact(30, 31, job="4")],
    "one communicator, wrong clocks": [fact(0, 1, "a", communicator="9"), fact(9000, 9001, "b", communicator="9")],
    "two jobs with one communicator": [fact(0, 9, job="4", communicator="9"), fact(1, 9, job="5", communicator="9")],
    "without a wall clock": [fact(0, 1), fact(0, 1)._replace(span=None)],
}
TWO_RUNS = {
    "other programs at other times": [fact(0, 1, "a"), fact(30, 31, "b")],
    "one program at other times": [fact(0, 1), fact(30, 31)],
    "one rank at other times": [fact(0, 1, rank=0), fact(30, 31, rank=0)],
    "one rank twice in a job": [fact(0, 1, rank=0, job="4"), fact(30, 31, rank=0, job="4")],
    "two jobs at one time": [fact(0, 10, rank=0, job="4"), fact(1, 10, rank=1, job="5")],
    "two programs of one job": [fact(0, 1, "a", job="4"), fact(30, 31, "b", job="4")],
    "processes of one number and two programs": [fact(0, 1, "a", pid=7), fact(30, 31, "b", pid=7)],
}


@pytest.mark.parametrize("case", ONE_RUN)
def test_reports_of_one_run(case: str) -> None:
    assert separate_runs(ONE_RUN[case]) == [list(range(len(ONE_RUN[case])))]


@pytest.mark.parametrize("case", TWO_RUNS)
def test_reports_of_two_runs(case: str) -> None:
    assert separate_runs(TWO_RUNS[case]) == [[0], [1]]


def test_two_runs_of_all_ranks_stay_apart() -> None:
    nightly = [
        fact(day * 86400 + rank * 20, day * 86400 + rank * 20 + 1, rank=rank) for day in (0, 1) for rank in (0, 1)
    ]
    assert separate_runs(nightly) == [[0, 1], [2, 3]]


def test_sample_reports_are_six_runs(cli: Command, tmp_path: Path) -> None:
    for command in (["translate", SAMPLES, "-o", tmp_path / "trace", "--quiet"], ["analyze", SAMPLES]):
        said = cli(*command)
        assert said.code == 2
        assert "12 reports are of 6 runs" in said.err
        assert f"{SAMPLES / 'gpt-ddp'} (4 reports, ddp.py, 2026-11-20 17:48:23 UTC)" in said.err
        assert f"\n  {SAMPLES / 'single' / 'graph-node.sqlite'} (1 report, graph.py, " in said.err
        assert "\n  and 2 more\n  Next: give the reports of one run" in said.err
        assert max(map(len, said.err.replace(str(SAMPLES), "sample_reports").splitlines())) <= 110
        assert "take each report for a run with `nsys2prv batch --group %name`" in said.err
        assert "`nsys2prv batch`, or insist on one with --one-run" in said.err
    assert left_in(tmp_path) == []
    assert cli("align", SAMPLES).err.startswith("nsys2prv: 12 reports are of 6 runs")
    assert "warning: the reports seem to be of 6 runs" in cli("inspect", SAMPLES).out


@pytest.mark.parametrize(("seconds", "told"), [(56_501, "time unknown"), (1_800_000_000, "2027-01-15 08:00:00 UTC")])
def test_a_clock_without_a_date_gives_a_run_none(seconds: int, told: str) -> None:
    runs = [fact(seconds, seconds + 1, "a"), fact(seconds + 60, seconds + 61, "b")]
    assert f"a, {told})" in next(several_runs_warning(runs))


def test_runs_are_told_apart_also_by_what_was_not_chosen(tmp_path: Path) -> None:
    """Of twelve reports one has events of OpenMP."""
    openmp = nsys2prv.Selection(families=("openmp",))
    with pytest.raises(UsageError, match="12 reports are of 6 runs"):
        nsys2prv.translate(SAMPLES, tmp_path / "trace", selection=openmp)


def test_communicators_of_mpi_are_those_of_any_run(tmp_path: Path) -> None:
    """Two programs of MPI, both with MPI_COMM_WORLD."""
    with pytest.raises(UsageError, match="7 reports are of 2 runs"):
        nsys2prv.translate([SAMPLES / "mpi-halo", DATA / "mpi-requests"], tmp_path / "trace")


def test_reports_of_a_run_may_have_absolute_and_relative_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES)
    first, second, *_ = (report.relative_to(SAMPLES) for report in reports_of("gpt-ddp"))
    for run, named in (([SAMPLES / first, second], SAMPLES / "gpt-ddp"), ([first, second], "gpt-ddp")):
        with pytest.raises(UsageError, match=rf"(?s)of 2 runs.* {named} \(2 reports, ddp.py"):
            nsys2prv.translate([*run, Path("single", "saxpy.sqlite")], "trace", options=STRICT, dry_run=True)
    # Where another run is in the same folder, its reports are named.
    mixed = [Path("single", "saxpy.sqlite"), SAMPLES / "single" / "openmp.sqlite"]
    with pytest.raises(UsageError, match=r"(?s)of 2 runs.* single/saxpy.sqlite \(1 report"):
        nsys2prv.translate(mixed, "trace", options=STRICT, dry_run=True)


def test_one_run_insists(tmp_path: Path) -> None:
    two = [SAMPLES / "single" / "saxpy.sqlite", SAMPLES / "single" / "openmp.sqlite"]
    part = nsys2prv.Selection(time=(0, 10**12))
    for several, selection in (
        (nsys2prv.RunOptions(one_run=True), None),
        (nsys2prv.RunOptions(), None),
        (nsys2prv.RunOptions(), part),
    ):
        # Reports that are named, without a folder, are one run, too.
        made = nsys2prv.translate(
            two, tmp_path / "trace", selection=selection or nsys2prv.Selection(), options=several, force=True
        )
        assert made.tasks == 2
        assert any(one.startswith("the reports seem to be of 2 runs, and are one trace") for one in made.warnings)
    with pytest.raises(UsageError, match="2 reports are of 2 runs"):
        nsys2prv.translate(two, tmp_path / "refused", options=STRICT)
    # Figures of two runs together mislead: the first screen says so.
    analysis = nsys2prv.analyze(two)
    assert "the reports seem to be of 2 runs, and are one trace" in verdict_of(analysis, two)
    assert "the reports seem to be of 2 runs, and are one trace" in defects(analysis)


@pytest.mark.parametrize("run", parameters(*FOLDERS, *SINGLE, *ARCHIVES))
def test_each_run_is_one(run: str, tmp_path: Path) -> None:
    assert nsys2prv.translate(reports_of(run), tmp_path / "trace", options=STRICT, dry_run=True).reports == len(
        reports_of(run)
    )


def test_repeated_captures_of_one_session_are_one_run(tmp_path: Path) -> None:
    assert nsys2prv.translate(DATA / "repeat-capture", tmp_path / "trace", dry_run=True).reports == 3


def later(report: Path, by: int) -> None:
    """Move a report to another time of day, ns."""
    with closing(sqlite3.connect(report)) as opened, opened:
        opened.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?", (by,))


def test_executions_of_one_program_are_runs_of_their_own(tmp_path: Path) -> None:
    """The same report with another session and process an hour later: `saxpy` was run twice."""
    first = SAMPLES / "single" / "saxpy.sqlite"
    (second,) = construct.in_containers(first, tmp_path, name="vm")
    later(second, HOUR)
    with closing(sqlite3.connect(second)) as opened, opened:
        opened.execute("UPDATE META_DATA_CAPTURE SET value = 'another' WHERE name = 'PROFILING_SESSION_UUID'")
    with pytest.raises(UsageError, match="2 reports are of 2 runs"):
        nsys2prv.translate([first, second], tmp_path / "trace", options=STRICT)


@pytest.mark.parametrize("run", ["mpi-halo", "gpt-ddp"])
def test_ranks_may_start_one_after_the_other(run: str, tmp_path: Path) -> None:
    """MPI says which ranks there are; NCCL has the communicator, SLURM the job."""
    ranks = [Path(shutil.copy(report, tmp_path)) for report in reports_of(run)]
    for n, report in enumerate(ranks):
        later(report, n * 90 * SECOND)
    assert nsys2prv.translate(ranks, tmp_path / "trace", options=STRICT, dry_run=True).reports == 4


def test_a_choice_of_families_changes_no_run(tmp_path: Path) -> None:
    """Ranks that begin seconds apart, of which the chosen family has no late event and nothing says the rank."""
    ranks = construct.without_rank_env(reports_of("mpi-halo")[:2], tmp_path, mpi_ranks=True)
    later(ranks[1], 1_800_000_000)
    memory = nsys2prv.Selection(families=("memory",))
    assert nsys2prv.translate(ranks, tmp_path / "trace", selection=memory, options=STRICT, dry_run=True).reports == 2
