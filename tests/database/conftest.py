"""Fixtures: empty databases of both kinds, and small runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest
from step_runs import SLOWER, USUAL, run_of


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


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return run_of(tmp_path / "before.sqlite", USUAL)


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return run_of(tmp_path / "after.sqlite", SLOWER, day=2)
