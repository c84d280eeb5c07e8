"""Which variable of the environment names the ranks, where a launcher starts other launchers."""

from __future__ import annotations

from pathlib import Path

import pytest
from exports import export, tid

import nsys2prv

SRUN_ONE_TORCHRUN_A_NODE = [(f"SLURM_PROCID={n // 2}", f"RANK={n}") for n in range(4)]


def run(folder: Path, environments: list[tuple[str, ...]], captures: int = 1) -> nsys2prv.Translation:
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
    return nsys2prv.translate(reports, folder / "trace", quiet=True)


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
