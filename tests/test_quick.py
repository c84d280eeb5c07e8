"""Every command once on a small run, and the list of the quick suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick import EVERY_NTH, QUICK, SLOW, in_quick_suite, in_rest
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


@pytest.mark.parametrize("name", EVERY_NTH)
def test_of_many_alike_cases_a_part_is_of_the_rest(name: str) -> None:
    path, _, function = name.partition("::")
    assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")
    nodes = [f"{name}[{n}]" for n in range(2 * EVERY_NTH[name])]
    assert sum(in_rest(nodes)) == (0 if in_quick_suite(name) else 2)


def test_the_rest_is_all_that_the_quick_suite_leaves_out() -> None:
    nodes = ["tests/golden/test_golden.py::test_it[a]", "tests/test_fuzz.py::test_b", "tests/test_fuzz.py::test_c[0]"]
    assert [in_quick_suite(node) for node in nodes] == [True, False, False]
    assert in_rest(nodes) == [False, True, True]
