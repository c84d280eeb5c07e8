"""The commands that findings advise are commands that nsys2prv takes."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import click
import pytest

from nsys2prv.analysis.findings import rules
from nsys2prv.cli.main import PROGRAM, cli
from nsys2prv.cli.sections import sections_named


def _commands() -> list[str]:
    """Return the commands in the source of the rules: findings of known programs do not show all of them."""
    texts = {
        node.value
        for file in Path(rules.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"{PROGRAM} ")
    }
    return sorted(texts)


def test_the_rules_name_commands() -> None:
    assert len(_commands()) > 20


@pytest.mark.parametrize("text", _commands())
def test_the_command_line_takes_it(text: str) -> None:
    _, name, *arguments = shlex.split(text)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert "RUN" in arguments
    given = [str(Path(__file__)) if word == "RUN" else word for word in arguments]
    # Raises UsageError for options that the command has not, and for values that these do not take.
    values = command.make_context(name, given).params
    if values.get("show"):
        sections_named(values["show"])
