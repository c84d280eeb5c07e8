"""Fixtures: translations that are made once a session, reports, the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import oracle
import pytest
from analysis_cases import SAMPLES, SHARED, Find
from hypothesis import settings
from quick import in_quick_suite, in_rest
from runs import Command, Runs, Said, reports_of

from nsys2prv.cli.main import main

# How long an example takes says nothing on a busy machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run all tests; a plain `pytest` runs the quick suite")
    parser.addoption(
        "--rest", action="store_true", help="run what a plain `pytest` leaves out, of many alike cases a part"
    )
    parser.addoption("--quick", action="store_true", help="run only the quick suite, of any tests that are named")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the quick suite where nothing else is chosen. Processes of xdist get the choice with the options."""
    option = config.option
    named = config.args_source is pytest.Config.ArgsSource.ARGS or option.markexpr or option.keyword
    option.quick = option.quick or not (option.all or option.rest or named)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (config.option.quick or config.option.rest):
        return
    nodes = [item.nodeid for item in items]
    chosen = [in_quick_suite(node) for node in nodes] if config.option.quick else in_rest(nodes)
    config.hook.pytest_deselected(items=[item for item, one in zip(items, chosen, strict=True) if not one])
    items[:] = [item for item, one in zip(items, chosen, strict=True) if one]


@pytest.fixture(scope="session")
def translations(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("traces"))


@pytest.fixture
def sql() -> Callable[[Path, str], list[tuple[Any, ...]]]:
    """Rows of a query on one report, by the standard library's sqlite3."""
    return oracle.sql


@pytest.fixture(scope="session")
def report() -> Find:
    """A report, or folder of them, of the repository, else of the shared ones; skipped where it is absent."""

    def find(name: str) -> Path:
        found = next((folder / name for folder in (SAMPLES, SHARED) if (folder / name).exists()), None)
        if found is None:
            pytest.skip(f"needs the shared report {name}")
        return found

    return find


@pytest.fixture
def gpt_ddp() -> list[Path]:
    return reports_of("gpt-ddp")


@pytest.fixture
def mpi_halo() -> list[Path]:
    return reports_of("mpi-halo")


@pytest.fixture
def saxpy() -> Path:
    return reports_of("saxpy")[0]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A trace's path in an empty folder of its own."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "trace"


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command line in this process."""

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["nsys2prv", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        return Said(code if isinstance(code, int) else 0, *capfd.readouterr())

    return run
