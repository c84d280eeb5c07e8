"""`nsys2prv cfgs`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from nsys2prv.cli.cfgs import command
from nsys2prv.errors import UsageError
from nsys2prv.paraver.cfg import CFGS


def said(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_lists_one_line_each() -> None:
    assert len(said().splitlines()) == len(CFGS)


def test_configurations_with_all_words_are_listed() -> None:
    assert said("overlap", "window") == (
        "analysis/overlap_of_window.cfg  Communication/compute overlap, share of the window of interest\n"
    )


def test_words_that_no_configuration_has_are_said() -> None:
    told = CliRunner().invoke(command, ["overlap", "nowhere"]).exception
    assert isinstance(told, UsageError)
    assert str(told) == "no configuration has overlap and nowhere; `nsys2prv cfgs` lists all"


def test_path_holds_the_files() -> None:
    folder = Path(said("--path").strip())
    assert (folder / "views" / "cuda_activities.cfg").read_text().startswith("#ParaverCFG\n")


@pytest.mark.parametrize("place", ["--path", "--install"])
@pytest.mark.parametrize("beside", ["--json", "overlap"])
def test_path_and_install_are_of_all_configurations(
    place: str, beside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    told = CliRunner().invoke(command, [beside, place])
    assert (told.exit_code, f"{place} cannot be combined with WORDs or --json" in told.output) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_path_and_install_are_one_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    told = CliRunner().invoke(command, ["--path", "--install"])
    assert (told.exit_code, "--path and --install cannot be combined" in told.output) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_install_for_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert said("--install") == f"Installed {len(CFGS)} configurations in {tmp_path}/.paraver/cfgs/nsys2prv.\n"
    assert (tmp_path / ".paraver" / "workspaces.xml").is_file()


def test_install_for_all_users_of_a_paraver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARAVER_HOME", str(tmp_path))
    said("--install", "paraver")
    assert (tmp_path / "cfgs" / "nsys2prv" / "views" / "streams.cfg").is_file()
    assert (tmp_path / "share" / "workspaces.xml").is_file()


def test_without_paraver_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARAVER_HOME", raising=False)
    result = CliRunner().invoke(command, ["--install", "paraver"])
    assert isinstance(result.exception, UsageError)
