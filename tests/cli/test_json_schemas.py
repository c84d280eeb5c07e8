"""The JSON of every command is as docs/schemas/ describes it, and the schemas hold it to that."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from runs import ROOT, SAMPLES, Command, parameters, reports_of

from nsys2prv.cli.json_form import VERSION
from nsys2prv.cli.main import COMMANDS, cli

GPT, HALO, SAXPY = SAMPLES / "gpt-ddp", SAMPLES / "mpi-halo", SAMPLES / "single/saxpy.sqlite"
NCU = ROOT / "tests" / "data" / "ncu"
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs" / "schemas").glob("*.json")}
# Words of each command, with OUT for a folder.
WORDS = {
    "translate": (SAXPY, "-o", "OUT/saxpy", "--only", "kernels,memory"),
    "cut": ("OUT/saxpy.prv", "-o", "OUT/part", "--time", "1us:"),
    "batch": ("OUT/root", "-o", "OUT/traces", "--db", "OUT/runs.db", "--only", "mpi,nvtx"),
    "analyze": (GPT, "--phase", "forward", "--nccl", "useful"),
    "whatif": (SAXPY, "--set", "transfer=0"),
    "compare": (HALO, GPT, "--anyway", "--fail-on", "iteration > 300000%", "--fail-on", "parallel > 900%"),
    "record": (SAXPY, "--db", "OUT/runs.db"),
    "history": ("--db", "OUT/runs.db"),
    "export": (HALO, "-o", "OUT/frames"),
    "inspect": (HALO,),
    "cfgs": ("overlap",),
    "align": (HALO,),
    "doctor": (),
}

# Commands that need what another one writes.
NEEDED = {"history": "record", "cut": "translate"}


def validator(command: str) -> Any:
    return jsonschema.Draft202012Validator(SCHEMAS[command])


def wrong(command: str, values: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(command).iter_errors(values)]


def with_json() -> Iterator[str]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if any("--json" in parameter.opts for parameter in command.params):
            yield name


@pytest.fixture
def told(cli: Command, tmp_path: Path) -> Any:
    """What a command prints with --json."""
    for name, reports in (("good", HALO.glob("*.[01].sqlite")), ("bad", [])):
        (tmp_path / "root" / name).mkdir(parents=True)
        for report in reports:
            shutil.copy(report, tmp_path / "root" / name)
    (tmp_path / "root" / "bad" / "bad.sqlite").write_text("This is no report.")

    def run(command: str, *words: object) -> Any:
        if command in NEEDED:
            run(NEEDED[command], *WORDS[NEEDED[command]])
        given = [str(word).replace("OUT", str(tmp_path)) for word in words or WORDS[command]]
        return json.loads(cli(command, *given, "--json").out)

    return run


def test_every_command_with_json_has_a_schema() -> None:
    assert sorted(with_json()) == sorted(SCHEMAS) == sorted(WORDS)


@pytest.mark.parametrize("command", WORDS)
def test_the_json_of_a_command_is_as_its_schema_says(command: str, told: Any) -> None:
    validator(command).check_schema(SCHEMAS[command])
    values = told(command)
    assert wrong(command, values) == []
    assert values["version"] == VERSION
    # The schema would say so if a field came or went, or had another type.
    assert wrong(command, {**values, "more": 1})
    for name in values:
        assert wrong(command, {key: value for key, value in values.items() if key != name})
        assert wrong(command, {**values, name: {"other": "type"}}), name


@pytest.mark.parametrize("run", parameters("mpi-halo", "saxpy", "mesh-tp-pp", "pipe", "straggler"))
def test_figures_of_any_run_are_as_the_schema_says(run: str, told: Any) -> None:
    assert wrong("analyze", told("analyze", *reports_of(run))) == []


def test_figures_of_nsight_compute_are_as_the_schema_says(told: Any) -> None:
    values = told("analyze", NCU / "gpt.sqlite", "--ncu", NCU / "steps.csv", "--by", "class")
    assert wrong("analyze", values) == []
    for name, rows in values["ncu"].items():
        assert rows
        assert wrong("analyze", {**values, "ncu": {**values["ncu"], name: {"other": "type"}}})
    assert wrong("analyze", {**values, "ncu": {**values["ncu"], "more": 1}})


@pytest.mark.parametrize("more", [("--summary",), ("--dry-run",), ("--redact",), ("--quiet",)])
def test_a_translation_is_as_the_schema_says_whatever_was_asked_for(more: tuple[str, ...], told: Any) -> None:
    values = told("translate", *WORDS["translate"], *more)
    assert wrong("translate", values) == []
    assert (values["analysis"] is not None, values["prv"] is None, values["removed"] is not None) == (
        "--summary" in more, "--dry-run" in more, "--redact" in more
    )  # fmt: skip


def test_a_batch_again_and_a_dry_run_are_as_the_schema_says(told: Any) -> None:
    for more in ((), (), ("--dry-run",)):
        assert wrong("batch", told("batch", *WORDS["batch"], *more)) == []


def test_what_is_wrong_deep_inside_is_found(told: Any) -> None:
    values = told("inspect")
    changed = deepcopy(values)
    changed["reports"][0]["processes"][0] = ["name", 1]
    assert wrong("inspect", values) == []
    assert {line.partition(":")[0] for line in wrong("inspect", changed)} == {
        "$.reports[0].processes[0][0]", "$.reports[0].processes[0][1]"
    }  # fmt: skip
