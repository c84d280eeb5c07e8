"""Fixtures: empty databases of both kinds, and small runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest
from exports import MAIN, PROCESS, export

# Iterations of a small run: lengths in us.
USUAL = (100, 101, 99, 100, 102, 98)
SLOWER = tuple(length + 10 for length in USUAL)


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    with postgres.server() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that is not there yet, or has nothing in it."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    started: postgres.Server = request.getfixturevalue("server")
    return started.new_database()


def run_of(path: Path, lengths: tuple[int, ...], program: str = "app", day: int = 1, gpus: int = 1) -> Path:
    """A run of one rank with an iteration of each length (us), and a kernel in each, recorded on a day of May 2024."""
    begins = [1_000_000 * n for n in range(len(lengths))]
    both = [*enumerate(zip(begins, lengths, strict=True), start=1)]
    may = 1_714_521_600 * 10**9
    return export(
        path,
        TARGET_INFO_SESSION_START_TIME=(
            "utcEpochNs utcTime localTime",
            [(may + (day - 1) * 86_400 * 10**9, "", "")],
        ),
        PROCESSES=("globalPid pid name", [(PROCESS, 100, program)]),
        NVTX_EVENTS=(
            "start end eventType globalTid domainId text",
            [(begin, begin + 1000 * us, 59, MAIN, 0, f"step {n}") for n, (begin, us) in both],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid nameId correlationId",
            [(begin + 10, begin + 20, MAIN, "cudaLaunchKernel", n) for n, (begin, us) in both],
        ),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId streamId correlationId globalPid shortName demangledName",
            [(b + 30, b + 900 * us, n % gpus, 7, n, PROCESS, "sgemm", "sgemm") for n, (b, us) in both],
        ),
    )


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return run_of(tmp_path / "before.sqlite", USUAL)


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return run_of(tmp_path / "after.sqlite", SLOWER, day=2)
