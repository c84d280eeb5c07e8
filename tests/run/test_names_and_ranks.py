"""Names of tasks where a process has several names or none, and ranks of the children of one launcher."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exports import HOST, export, tid

import nsys2prv
from nsys2prv.commands.inspect import inspect

CALL = "start end globalTid nameId"
DOMAIN_CREATED, PUSH_POP = 75, 59


def tasks_of(reports: Path | list[Path], folder: Path) -> list[str]:
    made = nsys2prv.translate(reports, folder / "trace", execution=nsys2prv.Execution(jobs=1, quiet=True), force=True)
    assert made.prv is not None
    return list(nsys2prv.read_prv(made.prv).names["TASK"])


@pytest.mark.parametrize(
    ("names", "threads", "expected"),
    [
        (["nsys-launcher", "/usr/bin/gem_main"], {100: "gem_main"}, "gem_main:100"),
        (["bash", "python3"], {}, "python3:100"),
        # The rows are in no order, and the kernel cuts names of threads.
        (["a_program_with_a_long_name", "bash"], {100: "a_program_with_"}, "a_program_with_a_long_name:100"),
        (["/opt/nvidia/nsys-launcher"], {100: "python3"}, "python3:100"),
        ([], {100: "python3", 101: "worker"}, "python3:100"),
        ([None], {100: "python3"}, "python3:100"),
        (["nsys-launcher"], {}, "nsys-launcher:100"),
        ([], {101: "worker"}, "process:100"),
        (["app"], {100: "main thread"}, "app:100"),
    ],
    ids=["launcher", "last", "no order", "only launcher", "none", "null", "nothing else", "no main thread", "one"],
)
def test_a_task_has_the_name_of_the_program(
    names: list[str | None], threads: dict[int, str], expected: str, tmp_path: Path
) -> None:
    report = export(
        tmp_path / "r.sqlite",
        PROCESSES=("globalPid pid name", [(tid(0), 100, name) for name in names]),
        ThreadNames=("nameId globalTid", [(name, tid(number)) for number, name in threads.items()]),
        CUDNN_EVENTS=(CALL, [(0, 10, tid(100), "f")]),
    )
    assert tasks_of(report, tmp_path) == [expected]


def launched(
    path: Path, ranks: dict[int, tuple[int, int, int]], host: int = HOST, environment: tuple[str, ...] = ()
) -> Path:
    """The report of a launcher (pid 1) and its children: pid -> rank, number of ranks, communicator."""
    ranges = []
    for n, (pid, (rank, size, communicator)) in enumerate(ranks.items()):
        thread = host | pid << 24 | pid
        payload = {"NCCL communicator ID": str(communicator), "No. of ranks": size, "Rank": rank, "CUDA device": n}
        ranges.append((100 * n, 100 * n + 50, PUSH_POP, 1, thread, "ncclCommInitRank", json.dumps(payload)))
    return export(
        path,
        PROCESSES=(
            "globalPid pid name",
            [(host | pid << 24, pid, name) for pid, name in ((1, "torchrun"), *((p, "python3") for p in ranks))],
        ),
        META_DATA_CAPTURE=("name value", [("PROCESS_0:ENVIRONMENT_VARIABLE", v) for v in environment]),
        CUDNN_EVENTS=(CALL, [(0, 10, host | pid << 24 | pid, "f") for pid in ranks]),
        NVTX_EVENTS=(
            "start end eventType domainId globalTid text jsonText",
            [*((0, None, DOMAIN_CREATED, 1, host | pid << 24 | pid, "NCCL", None) for pid in ranks), *ranges],
        ),
    )


def test_children_of_a_launcher_have_their_ranks_from_nccl(tmp_path: Path) -> None:
    """The order of pids is another one. The environment is the launcher's, of two nodes' launchers the second."""
    report = launched(tmp_path / "r.sqlite", {7: (3, 4, 1), 8: (1, 4, 1), 9: (0, 4, 1), 10: (2, 4, 1)})
    assert tasks_of(report, tmp_path) == [
        "rank 0 python3:9",
        "rank 1 python3:8",
        "rank 2 python3:10",
        "rank 3 python3:7",
    ]


def test_children_of_launchers_of_two_nodes_have_their_ranks_from_nccl(tmp_path: Path) -> None:
    nodes = [
        launched(tmp_path / f"node{n}.sqlite", ranks, HOST * (n + 1), (f"SLURM_PROCID={n}",))
        for n, ranks in enumerate([{7: (2, 4, 1), 8: (3, 4, 1)}, {9: (1, 4, 1), 10: (0, 4, 1)}])
    ]
    assert tasks_of(nodes, tmp_path) == [
        "rank 0 python3:10",
        "rank 1 python3:9",
        "rank 2 python3:7",
        "rank 3 python3:8",
    ]


@pytest.mark.parametrize(
    ("reports", "environment", "expected"),
    [
        # The numbers in the names of the reports are no ranks.
        ([{7: (1, 2, 1)}, {8: (0, 2, 1)}], (), [1, 0]),
        # The rank in the environment is the launcher's.
        ([{7: (1, 2, 1), 8: (0, 2, 1)}], ("RANK=5",), [None]),
    ],
)
def test_a_report_has_the_rank_of_its_task(
    reports: list[dict[int, tuple[int, int, int]]],
    environment: tuple[str, ...],
    expected: list[int | None],
    tmp_path: Path,
) -> None:
    paths = [
        launched(tmp_path / f"report{n}.sqlite", ranks, environment=environment)
        for n, ranks in enumerate(reports, start=1)
    ]
    made = nsys2prv.translate(paths, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1, quiet=True))
    assert made.prv is not None
    assert [report["rank"] for report in json.loads((tmp_path / "trace.align.json").read_text())["reports"]] == expected
    told = [line for line in made.prv.read_text().splitlines() if line.startswith("# input ")]
    for line, rank in zip(told, expected, strict=True):
        assert line.partition(", ")[2].startswith("nsys" if rank is None else f"rank {rank}, nsys")


def test_ranks_of_a_part_of_the_processes_are_none_of_the_run(tmp_path: Path) -> None:
    """Two communicators of two ranks each."""
    report = launched(tmp_path / "r.sqlite", {7: (1, 2, 1), 8: (0, 2, 1), 9: (1, 2, 2), 10: (0, 2, 2)})
    assert tasks_of(report, tmp_path) == ["python3:7", "python3:8", "python3:9", "python3:10"]


def test_a_rank_of_the_environment_counts_before_nccl(tmp_path: Path) -> None:
    """The communicator has the ranks in another order than the run."""
    reports = [
        launched(tmp_path / f"{'ab'[n]}.sqlite", {7 + n: (1 - n, 2, 1)}, environment=(f"RANK={n}",)) for n in range(2)
    ]
    assert tasks_of(reports, tmp_path) == ["rank 0 python3:7", "rank 1 python3:8"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["rank0_of_4", "rank1_of_4"], [0, 1]),
        (["run2_rank1-of-16", "run2_rank10-of-16"], [1, 10]),
        (["job7.rank3.node0", "job7.rank2.node1"], [3, 2]),
        (["a.3", "a.2"], [3, 2]),
        (["3of8", "2of8"], [3, 2]),
        (["rank0_of_4", "rank0_of_8"], None),
    ],
)
def test_ranks_by_names_of_reports(names: list[str], expected: list[int] | None, tmp_path: Path) -> None:
    reports = [
        export(
            tmp_path / f"{name}.sqlite",
            PROCESSES=("globalPid pid name", [(tid(0, 100 + n), 100 + n, "app")]),
            CUDNN_EVENTS=(CALL, [(0, 10, tid(100 + n, 100 + n), "f")]),
        )
        for n, name in enumerate(names)
    ]
    ranks = [task.split()[1] for task in tasks_of(reports, tmp_path) if task.startswith("rank")]
    pids = [int(task.rsplit(":", 1)[1]) for task in tasks_of(reports, tmp_path)]
    wanted = {rank: 100 + n for n, rank in enumerate(expected or [])}
    assert dict(zip(map(int, ranks), pids, strict=False)) == wanted


def test_inspect_gives_a_report_of_several_ranks_none(tmp_path: Path) -> None:
    """Both children call; the rank in the environment is the launcher's."""
    several = launched(tmp_path / "a.sqlite", {7: (1, 2, 1), 8: (0, 2, 1)}, environment=("RANK=5",))
    (tmp_path / "b").mkdir()
    one = launched(tmp_path / "b/b.sqlite", {7: (1, 2, 1)}, environment=("RANK=5",))
    assert [inspect([report])[0][0].rank for report in (several, one)] == [None, 5]
    assert tasks_of(several, tmp_path) == ["rank 0 python3:8", "rank 1 python3:7"]
    assert tasks_of(one, tmp_path) == ["rank 5 python3:7"]
