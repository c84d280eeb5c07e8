"""Every command once on a small run, and the list of the quick suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick import QUICK, SLOW
from runs import ROOT, Command, reports_of

from nsys2prv.cli.main import COMMANDS

# Command -> its arguments, with REPORT, FOLDER (a folder with a folder of this report), DB and OUT for what is made.
ARGUMENTS = {
    "inspect": ["REPORT"],
    "translate": ["REPORT", "-o", "OUT/trace"],
    "cut": ["OUT/trace.prv", "-o", "OUT/cut", "--time", "0:1ms"],
    "batch": ["FOLDER", "-o", "OUT/batch"],
    "analyze": ["REPORT", "--show", "all"],
    "whatif": ["REPORT", "--set", "launch=0"],
    "compare": ["REPORT", "REPORT"],
    "record": ["REPORT", "--db", "DB"],
    "history": ["--db", "DB"],
    "export": ["REPORT", "-o", "OUT/frames"],
    "align": ["REPORT"],
    "cfgs": [],
    "doctor": [],
}


def test_every_command_does_its_work(cli: Command, tmp_path: Path) -> None:
    (saxpy,) = reports_of("saxpy")
    (tmp_path / "runs" / "saxpy").mkdir(parents=True)
    (tmp_path / "runs" / "saxpy" / saxpy.name).symlink_to(saxpy)
    places = {"REPORT": saxpy, "FOLDER": tmp_path / "runs", "DB": tmp_path / "runs.db", "OUT": tmp_path}
    assert ARGUMENTS.keys() == COMMANDS.keys()
    for name, arguments in ARGUMENTS.items():
        words = [
            str(places[a.split("/")[0]] / a.partition("/")[2]) if a.split("/")[0] in places else a for a in arguments
        ]
        done = cli(name, *words)
        assert done.code == 0, (name, done.err)
        assert done.out, name


@pytest.mark.parametrize("begin", [*QUICK, *SLOW])
def test_the_quick_suite_names_what_is_there(begin: str) -> None:
    assert (ROOT / begin).exists()
