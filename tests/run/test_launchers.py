"""Which variable of the environment names the ranks, where a launcher starts other launchers."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exports import export, tid
from synthetic import summary

import nsys2prv
from nsys2prv.commands.align import align
from nsys2prv.commands.inspect import inspect
from nsys2prv.report.identity import Process
from nsys2prv.run import tasks
from nsys2prv.run.hosts import find_hosts
from nsys2prv.run.ranks import launched_ranks, numbered_ranks
from nsys2prv.run.run_options import RunOptions

SRUN_ONE_TORCHRUN_A_NODE = [(f"SLURM_PROCID={n // 2}", f"RANK={n}") for n in range(4)]


def run(
    folder: Path,
    environments: list[tuple[str, ...]],
    captures: int = 1,
    options: RunOptions = RunOptions(),
) -> nsys2prv.Translation:
    """A trace of processes with these variables, each in as many reports as there were captures of it."""
    reports = []
    for n, variables in enumerate(environments):
        process, main = tid(0, 101 + n), tid(101 + n, 101 + n)
        captured = [("PROFILING_SESSION_UUID", f"session {n}")]
        captured += [("PROCESS_0:ENVIRONMENT_VARIABLE", variable) for variable in variables]
        for capture in range(captures):
            path = folder / f"{'abcdefgh'[n]}-{'xyz'[capture]}.sqlite"
            begin = 1000 * capture
            export(
                path,
                PROCESSES=("globalPid pid name", [(process, 101 + n, "app")]),
                META_DATA_CAPTURE=("name value", captured),
                CUPTI_ACTIVITY_KIND_RUNTIME=(
                    "start end globalTid nameId correlationId",
                    [(begin, begin + 10, main, "cudaLaunchKernel", 1)],
                ),
            )
            reports.append(path)
    return nsys2prv.translate(reports, folder / "trace", options=options, execution=nsys2prv.Execution(quiet=True))


def names(made: nsys2prv.Translation) -> list[str]:
    assert made.prv is not None
    return list(nsys2prv.read_prv(made.prv).names["TASK"])


@pytest.mark.parametrize("captures", [1, 2])
def test_the_variable_that_tells_processes_apart_counts(captures: int, tmp_path: Path) -> None:
    made = run(tmp_path, SRUN_ONE_TORCHRUN_A_NODE, captures)
    assert names(made) == [f"rank {n} app:{101 + n}" for n in range(4)]
    assert not [w for w in made.warnings if "same rank" in w]


@pytest.mark.parametrize(
    "environments",
    [
        [("SLURM_PROCID=1", "RANK=0"), ("SLURM_PROCID=0", "RANK=1")],
        [("SLURM_PROCID=1", "RANK=0"), ("SLURM_PROCID=0", "RANK=0")],
        [("SLURM_PROCID=1",), ("RANK=0",)],
    ],
)
def test_the_first_variable_counts_where_it_tells_processes_apart(
    environments: list[tuple[str, ...]], tmp_path: Path
) -> None:
    assert names(run(tmp_path, environments)) == ["rank 0 app:102", "rank 1 app:101"]


@pytest.mark.parametrize(
    "environments",
    [
        [("SLURM_PROCID=3",), ("SLURM_PROCID=3",)],
        [("SLURM_PROCID=3", "RANK=0"), ("SLURM_PROCID=3", "RANK=0")],
        [("SLURM_PROCID=3", "RANK=0"), ("SLURM_PROCID=3",)],
    ],
)
def test_a_rank_that_no_variable_tells_apart_is_warned_of(environments: list[tuple[str, ...]], tmp_path: Path) -> None:
    made = run(tmp_path, environments)
    assert names(made) == ["rank 3 app:101", "rank 3 app:102"]
    assert [w.partition(":")[0] for w in made.warnings if "rank" in w] == ["several tasks have the same rank (3)"]


def test_processes_of_one_pid_on_two_hosts_are_told_apart() -> None:
    """As those of containers are, in exports that say nothing of sessions."""
    reports = [
        summary(str(n), f"node{n}").identity._replace(
            environment={"SLURM_PROCID": "0", "RANK": str(n)}, processes=(Process(tid(0, 1), 1, "app", None),)
        )
        for n in range(2)
    ]
    assert launched_ranks(reports, find_hosts(reports, ["", ""], {})) == [0, 1]


@pytest.mark.parametrize(
    ("names", "sessions", "ranks"),
    [
        (["run1.0", "run1.1"], ["a", "b"], [0, 1]),
        (["run1.0", "run1.1"], ["", ""], [0, 1]),
        (["run.1", "run.2", "other.3"], ["a", "a", "b"], [None, None, None]),
        (["0.run1", "1.run1"], ["a", "b"], [None, None]),
        (["run1", "run"], ["a", "b"], [None, None]),
    ],
)
def test_numbers_of_names_are_ranks_but_for_those_of_captures(
    names: list[str], sessions: list[str], ranks: list[int | None]
) -> None:
    reports = [summary(n, "node").identity._replace(session=s) for n, s in zip(names, sessions, strict=True)]
    assert numbered_ranks(reports, names) == ranks


KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
Tables = dict[str, tuple[str, list[tuple[object, ...]]]]


def report_of(path: Path, rank: str, pids: list[int], tables: Tables) -> Path:
    """A report of processes that all call CUDA, such as a rank and what loads its data."""
    calls = [(p, p + 10, tid(p, p), "call", p) for p in pids]
    return export(
        path,
        PROCESSES=("globalPid pid name", [(tid(0, p), p, "app") for p in pids]),
        META_DATA_CAPTURE=("name value", [("PROCESS_0:ENVIRONMENT_VARIABLE", rank)]),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", calls),
        **tables,
    )


def kernels(*pids: int) -> Tables:
    columns = "start end deviceId streamId correlationId globalPid shortName"
    return {KERNEL: (columns, [(p + 20, p + 30, 0, 7, p, tid(0, p), "k") for p in pids])}


def contexts(*pids: int) -> Tables:
    return {"TARGET_INFO_CUDA_CONTEXT_INFO": ("processId deviceId", [(p, 0) for p in pids])}


@pytest.mark.parametrize("variable", ["RANK={}", "OTHER={}"])
@pytest.mark.parametrize("on_gpu", [kernels, contexts])
def test_workers_do_not_take_the_rank_of_the_process_on_the_gpu(
    variable: str, on_gpu: Callable[..., Tables], tmp_path: Path
) -> None:
    """Whether the rank is the launcher's or, where that says none, of the report's name."""
    reports = [
        report_of(tmp_path / f"r.{n}.sqlite", variable.format(n), pids, on_gpu(pids[0]))
        for n, pids in enumerate([[201, 202], [101]])
    ]
    made = nsys2prv.translate(reports, tmp_path / "trace", execution=nsys2prv.Execution(quiet=True))
    assert names(made) == ["rank 0 app:201", "rank 1 app:101", "app:202"]


def test_a_launchers_rank_is_nobodys_of_several_processes(tmp_path: Path) -> None:
    report = report_of(tmp_path / "r.sqlite", "RANK=0", [101, 102], kernels(101, 102))
    assert names(nsys2prv.translate(report, tmp_path / "trace", execution=nsys2prv.Execution(quiet=True))) == [
        "app:101",
        "app:102",
    ]


@pytest.mark.parametrize("naming", [0, 1])
def test_a_rank_that_one_capture_names_is_of_all_captures(naming: int, tmp_path: Path) -> None:
    for capture in range(2):
        main = [tid(p, p) for p in (101, 102)]
        export(
            tmp_path / f"r.{capture}.sqlite",
            PROCESSES=("globalPid pid name", [(tid(0, p), p, "app") for p in (101, 102)]),
            META_DATA_CAPTURE=("name value", [("PROFILING_SESSION_UUID", "one")]),
            MPI_RANKS=("globalTid rank", [(main[0], 1), (main[1], 0)] if capture == naming else []),
            CUPTI_ACTIVITY_KIND_RUNTIME=(
                "start end globalTid nameId correlationId",
                [(1000 * capture, 1000 * capture + 10, thread, "call", 1) for thread in main],
            ),
        )
    made = nsys2prv.translate(tmp_path, tmp_path / "trace", execution=nsys2prv.Execution(quiet=True))
    assert names(made) == ["rank 0 app:102", "rank 1 app:101"]


def test_a_report_of_several_ranks_is_of_none_whatever_the_launcher_says(tmp_path: Path) -> None:
    ranks = ("globalTid rank", [(tid(p, p), p - 101) for p in (101, 102)])
    report = report_of(tmp_path / "r.sqlite", "RANK=0", [101, 102], {"MPI_RANKS": ranks})
    assert [i.rank for i in inspect([report])[0]] == [None]


def test_processes_that_are_only_listed_by_rank_have_their_ranks(tmp_path: Path) -> None:
    calls = [(0, 10, tid(p, p), "call") for p in (101, 102)]
    report = export(
        tmp_path / "r.sqlite",
        PROCESSES=("globalPid pid name", []),
        MPI_RANKS=("globalTid rank", [(tid(101, 101), 1), (tid(102, 102), 0)]),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId", calls),
    )
    made = nsys2prv.translate(report, tmp_path / "trace", execution=nsys2prv.Execution(quiet=True))
    assert names(made) == ["rank 0 process:102", "rank 1 process:101"]


def test_processes_of_other_pids_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report may hold all of its host's, as of what the host scheduled."""
    compared: list[bool] = []
    one_process = tasks._one_process

    def counting(*pair: Any) -> bool:
        compared.append(one_process(*pair))
        return compared[-1]

    monkeypatch.setattr(tasks, "_one_process", counting)
    pids = list(range(101, 121))
    for n in range(2):
        report_of(tmp_path / f"r{n}.sqlite", f"RANK={n}", pids, {})
    made = nsys2prv.translate(tmp_path, tmp_path / "trace", execution=nsys2prv.Execution(quiet=True))
    assert (made.tasks, len(compared)) == (40, 20)


def test_hosts_are_in_order_of_the_numbers_in_their_names(tmp_path: Path) -> None:
    """As launchers list nodes, by which they number ranks."""
    for n, host in enumerate(["node10", "node9", "node09"]):
        report = report_of(tmp_path / f"{'abc'[n]}.sqlite", "", [101, 102], {})
        with sqlite3.connect(report) as connection:
            connection.execute("INSERT INTO META_DATA_CAPTURE VALUES ('DEVICE_DISPLAY_NAME', ?)", (host,))
        connection.close()
    made = nsys2prv.translate(tmp_path, tmp_path / "trace", execution=nsys2prv.Execution(quiet=True))
    assert made.prv is not None
    trace = nsys2prv.read_prv(made.prv)
    assert trace.names["NODE"] == ("node09", "node9", "node10")
    assert [node for _, node in trace.header.tasks] == [1, 1, 2, 2, 3, 3]


def commented(made: nsys2prv.Translation) -> list[int]:
    """Ranks of the reports in the comments at the end of a trace."""
    assert made.prv is not None
    return [int(rank) for rank in re.findall(r"^# input .*, rank (\d+)", made.prv.read_text(), re.MULTILINE)]


def test_what_tells_of_reports_tells_the_ranks_of_the_trace(tmp_path: Path) -> None:
    made = run(tmp_path, SRUN_ONE_TORCHRUN_A_NODE)
    assert commented(made) == [0, 1, 2, 3]
    assert [r["rank"] for r in json.loads((tmp_path / "trace.align.json").read_text())["reports"]] == [0, 1, 2, 3]
    reports = sorted(tmp_path.glob("*.sqlite"))
    assert [r.rank for r in align(reports).reports] == [0, 1, 2, 3]
    assert [i.rank for i in inspect(reports)[0]] == [0, 1, 2, 3]


@pytest.mark.parametrize(("rank_from", "told"), [("env", [0, 1]), ("mpi", []), ("pid", [])])
def test_the_comments_tell_ranks_from_where_they_were_asked_for(
    rank_from: str, told: list[int], tmp_path: Path
) -> None:
    options = nsys2prv.RunOptions(rank_from=rank_from)  # type: ignore[arg-type]
    assert commented(run(tmp_path, [("RANK=0",), ("RANK=1",)], options=options)) == told
