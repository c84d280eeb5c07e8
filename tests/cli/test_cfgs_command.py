"""`nsys2prv cfgs`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from nsys2prv.cli.cfgs import command
from nsys2prv.paraver.cfg import CFGS


def said(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_lists_one_line_each() -> None:
    assert len(said().splitlines()) == len(CFGS)


def test_words_choose() -> None:
    assert said("overlap", "window") == (
        "analysis/overlap_of_window.cfg  Communication/compute overlap, share of the window of interest\n"
    )


def test_path_holds_the_files() -> None:
    folder = Path(said("--path").strip())
    assert (folder / "views" / "cuda_activities.cfg").read_text().startswith("#ParaverCFG\n")
