"""Everything that the command line can do has a call in Python, and each of its options a parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click
import pytest

import nsys2prv
from nsys2prv.cli.main import COMMANDS, cli
from nsys2prv.model.option import declarations

GROUPS = (nsys2prv.Selection, nsys2prv.RunOptions, nsys2prv.Execution, nsys2prv.TraceOutput, nsys2prv.Question)
# Command -> its call, where the name is another.
CALLS = {"whatif": "what_if"}
# Options about what is printed: their figures are fields of the result.
PRINTED = {"form", "json", "details", "help", "show", "held", "html", "plot", "quiet", "as_path", "top"}
# Command -> its options that Python calls otherwise: a parameter of the call, or another name of the package.
OTHERWISE = {
    "cfgs": {"place": "install_cfgs"},
    "compare": {"run_a": "a", "run_b": "b", "against": "Recorded", "db": "Recorded", "conditions": "judge"},
    "cut": {"trace": "source"},
    "export": {"output": "folder"},
    "record": {"prv": "trace"},
}


def parameters(call: Callable[..., Any]) -> set[str]:
    """Names of the parameters of a call, and of the options of the groups among them."""
    names: set[str] = set()
    for name, parameter in inspect.signature(call).parameters.items():
        kind = str(parameter.annotation)
        groups = GROUPS if kind == "Settings" else [g for g in GROUPS if g.__name__ == kind]
        names |= {name, *(option.name for g in groups for _, told in declarations(g) for option in told.options)}
    return names


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_call_with_its_options(name: str) -> None:
    called = CALLS.get(name, name)
    assert called in nsys2prv.__all__
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    known = parameters(getattr(nsys2prv, called))
    options = {p.name for p in command.params if p.name is not None}
    # Python's caller writes pages and plots where it likes.
    printed = PRINTED | ({"force"} if options & {"html", "plot"} else set())
    assert options - known - printed == OTHERWISE.get(name, {}).keys()
    assert set(OTHERWISE.get(name, {}).values()) <= {*known, *nsys2prv.__all__}
