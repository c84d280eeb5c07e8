"""`--json` is `--format json`, and mistyped names are answered with the most similar one."""

from __future__ import annotations

import json

import pytest
from runs import SAMPLES, Command

GPT, SAXPY = SAMPLES / "gpt-ddp", SAMPLES / "single/saxpy.sqlite"
COMMANDS = {
    "inspect": ("inspect", SAXPY),
    "cfgs": ("cfgs", "overlap"),
    "align": ("align", GPT),
    "whatif": ("whatif", SAXPY, "--set", "transfer=0"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_json_is_the_short_form(command: tuple[object, ...], cli: Command) -> None:
    short, long, text = (cli(*command, *form) for form in (("--json",), ("--format", "json"), ()))
    assert (short.code, long.code) == (0, 0)
    assert json.loads(short.out) == json.loads(long.out)
    with pytest.raises(json.JSONDecodeError):
        json.loads(text.out)


def test_another_form_beside_json_is_refused(cli: Command) -> None:
    said = cli("inspect", SAXPY, "--json", "--format", "text")
    assert (said.code, "--json and --format text exclude each other" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "similar"),
    [
        (("translate", SAXPY, "-o", "out", "--only", "kernles"), "kernels"),
        (("analyze", GPT, "--window", "forwrd"), "forward"),
        (("analyze", GPT, "--iteration", "stap #"), "step #"),
        (("analyze", GPT, "--phase", "bakward"), "backward"),
        (("inspect", SAMPLES / "gpt-dpd"), "gpt-ddp"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_similar_one(
    words: tuple[object, ...], similar: str, cli: Command
) -> None:
    said = cli(*words)
    assert said.code in (1, 2)
    assert f", did you mean '{similar}'?" in said.err
